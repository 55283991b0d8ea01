"""The list of analyzers, and the function that runs them all."""

from collections.abc import Callable, Iterator

import msgspec

from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze import installation, nodes
from webhook.insight.analyze.cards import cards
from webhook.insight.analyze.diagnosis import Diagnosis
from webhook.insight.analyze.namespaces import namespaces
from webhook.insight.analyze.placement import waiting
from webhook.insight.analyze.pods import pods


class Analyzer(msgspec.Struct, frozen=True):
    """A function that looks for one kind of problem in a snapshot."""

    name: str
    judge: Callable[[Snapshot], Iterator[Diagnosis]]
    needs_all_pods: bool = False
    """Whether the analyzer works only where the pods of all namespaces are known."""


ANALYZERS = (
    Analyzer("unread", installation.unread),
    Analyzer("registration", installation.registration),
    Analyzer("order of webhooks", installation.order),
    Analyzer("schedulers", installation.schedulers),
    Analyzer("certificates", installation.certificates),
    Analyzer("versions", installation.versions),
    Analyzer("agents", nodes.agents),
    Analyzer("links", nodes.links),
    Analyzer("namespaces", namespaces),
    Analyzer("cards", cards, needs_all_pods=True),
    Analyzer("waiting pods", waiting),
    Analyzer("pods", pods),
)


def analyze(snapshot: Snapshot, *, namespace: str | None = None) -> list[Diagnosis]:
    """Returns all findings, the worst first.

    Args:
        snapshot: The cluster.
        namespace: The namespace whose pods are judged, besides objects outside namespaces; None: all namespaces.
    """
    found = [
        diagnosis
        for analyzer in ANALYZERS
        if namespace is None or not analyzer.needs_all_pods
        for diagnosis in analyzer.judge(snapshot)
        if namespace is None or _belongs(diagnosis, namespace)
    ]
    return sorted(found, key=lambda each: (each.severity.rank, each.code, str(each.holder)))


def _belongs(diagnosis: Diagnosis, namespace: str) -> bool:
    holder = diagnosis.holder
    if holder.kind == "Namespace":
        return holder.name == namespace
    return holder.kind != "Pod" or holder.namespace == namespace
