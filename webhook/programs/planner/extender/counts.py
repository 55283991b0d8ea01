"""The counts of the extender, in plain numbers and as metrics: docs/observability.md."""

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum

from prometheus_client.core import Metric

from webhook.programs.exposition import Spread, counter, gauge
from webhook.programs.http.server import Cause

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of buckets. kube-scheduler waits for five seconds by default."""


class Verb(StrEnum):
    """The kind of a question."""

    FILTER = "filter"
    PRIORITIZE = "prioritize"


class Result(StrEnum):
    """The result of a question."""

    JUDGED = "judged"
    LEFT_ALONE = "left-alone"
    """The extender does not judge this pod, so all nodes passed."""
    NOT_READY = "not-ready"
    """Too little was known of the cluster, so all nodes passed."""
    MALFORMED = "malformed"
    """The pod cannot be read or is too long, so all nodes passed."""
    LATE = "late"
    """There was not enough time to judge all nodes; the rest passed."""
    BUG = "bug"
    """There was an unexpected exception, so all nodes passed."""


class Counts:
    """The counts of the extender. One thread writes them, and the threads of scrapes read them."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        """Questions, by verb and result."""
        self.removed: Counter[str] = Counter()
        """Nodes that did not pass, by the code of the message."""
        self.rejected: Counter[tuple[str]] = Counter()
        """Requests that are no questions, by the status of the answer."""
        self.seconds = Spread(SECONDS)
        """Seconds from the arrival of a question to its answer."""


def families(counts: Counts, closed: Mapping[Cause, int], *, certificate_ends: float | None) -> Iterator[Metric]:
    """Return the metrics.

    Args:
        counts: The counts of the extender.
        closed: The connections that its server ended.
        certificate_ends: The end of the certificate, in seconds since 1970.
    """
    requests = counts.requests.copy()
    yield counter(
        "extender_requests",
        "Questions of schedulers, by what became of them; except judged and left-alone, something was wrong.",
        ("verb", "result"),
        {(str(verb), str(result)): requests.get((verb, result), 0) for verb in Verb for result in Result},
    )
    yield counter(
        "extender_nodes_removed",
        "Nodes that a pod did not get, by the code of the message.",
        ("code",),
        {(code,): count for code, count in sorted(counts.removed.copy().items())},
    )
    yield counter(
        "extender_rejected",
        "Requests that are no questions of a scheduler.",
        ("status",),
        dict(sorted(counts.rejected.copy().items())),
    )
    yield counter(
        "extender_closed_connections",
        "Connections of the extender's port that were ended, by cause.",
        ("cause",),
        {(str(cause),): closed[cause] for cause in Cause},
    )
    yield counts.seconds.metric("extender_seconds", "Seconds from the arrival of a question to its answer.")
    yield gauge(
        "extender_certificate_expiry_timestamp_seconds",
        "When the certificate of the extender ends, in seconds since 1970.",
        (),
        {} if certificate_ends is None else {(): certificate_ends},
    )
