"""Findings about workloads in manifests: options that their pods do not get."""

from collections.abc import Iterator

from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze.diagnosis import Diagnosis, Holder, warning


def workloads(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields the findings about each workload of the manifests."""
    for told in snapshot.setting.workloads:
        yield warning(Holder(told.kind, told.namespace, told.name), told.message)
