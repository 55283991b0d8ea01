"""The metrics of mirrors of the cluster, for every program that keeps some: docs/observability.md."""

from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric

from webhook.cluster.state.report import CacheReport
from webhook.programs.exposition import counter, gauge


def cache_families(caches: Sequence[CacheReport]) -> Iterator[Metric]:
    """Return the metrics of ``caches``."""
    yield gauge(
        "cache_objects", "Objects of the cluster in memory.", ("cache",), {(c.name,): c.objects for c in caches}
    )
    yield gauge(
        "cache_bytes", "Approximate bytes of the objects in memory.", ("cache",), {(c.name,): c.bytes for c in caches}
    )
    yield counter(
        "cache_left_out",
        "States of objects that were not kept because a cache was full.",
        ("cache",),
        {(c.name,): c.left_out for c in caches},
    )
    yield counter(
        "cache_shortened",
        "States of objects of which less was kept because there was no more room for those of their namespace.",
        ("cache",),
        {(c.name,): c.shortened for c in caches},
    )
    yield gauge(
        "cache_age_seconds",
        "Seconds since a list or a message of the watch last confirmed a cache.",
        ("cache",),
        {(c.name,): c.confirmed_seconds for c in caches if c.confirmed_seconds is not None},
    )
    yield gauge(
        "cache_filled",
        "Whether a cache has ever been complete.",
        ("cache",),
        {(c.name,): float(c.filled) for c in caches},
    )
