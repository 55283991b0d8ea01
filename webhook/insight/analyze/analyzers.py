"""The list of what is looked for, and the command that goes through it."""

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
    """One thing that is looked for."""

    name: str
    judge: Callable[[Snapshot], Iterator[Diagnosis]]
    needs_all_pods: bool = False
    """Whether it can say nothing unless the pods of all namespaces are known."""


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
    """Everything that is wrong, the worst first.

    Args:
        snapshot: The cluster.
        namespace: Whose pods are looked at, besides what belongs to no namespace; None: those of all.
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
