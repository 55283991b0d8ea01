"""The list of analyzers, and the function that runs them all."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze import installation, nodes, programs
from webhook.insight.analyze.cards import cards
from webhook.insight.analyze.diagnosis import Diagnosis
from webhook.insight.analyze.namespaces import namespaces
from webhook.insight.analyze.placement import waiting
from webhook.insight.analyze.pods import judged_pods
from webhook.insight.analyze.workloads import workloads
from webhook.insight.explain.findings import Judgement


class Analyzer(msgspec.Struct, frozen=True):
    """A function that looks for one kind of problem in a snapshot."""

    name: str
    judge: Callable[[Snapshot], Iterator[Diagnosis]]
    is_of_namespaces: bool = False
    """Whether its findings belong to the namespaces of their objects."""
    needs_all_pods: bool = False
    """Whether the analyzer works only where the pods of all namespaces are known."""


ANALYZERS = (
    Analyzer("unread", installation.unread),
    Analyzer("registration", installation.registration),
    Analyzer("order of webhooks", installation.order),
    Analyzer("schedulers", installation.schedulers),
    Analyzer("GPUs without HAMi", installation.plain_gpus),
    Analyzer("certificates", installation.certificates),
    Analyzer("versions", installation.versions),
    Analyzer("readiness", programs.readiness),
    Analyzer("endpoints", programs.endpoints),
    Analyzer("planner", programs.planner),
    Analyzer("creations", programs.creations, is_of_namespaces=True),
    Analyzer("agents", nodes.agents),
    Analyzer("links", nodes.links),
    Analyzer("namespaces", namespaces),
    Analyzer("workloads", workloads, is_of_namespaces=True),
    Analyzer("cards", cards, needs_all_pods=True),
    Analyzer("waiting pods", waiting),
)


class Analysis(msgspec.Struct, frozen=True):
    """What is wrong with a cluster, and whether its pods really have NVLink."""

    findings: Sequence[Diagnosis]
    """All findings, the worst first; among those of a severity, the ones that decide the word for a pod lead."""
    pods: Mapping[str, Judgement]
    """The judgement of each pod with GPUs, by ``namespace/name``."""


def analyze(snapshot: Snapshot, *, namespace: str | None = None) -> Analysis:
    """Returns all findings, and the judgements of the pods.

    Args:
        snapshot: The cluster.
        namespace: The namespace whose pods are judged, besides objects outside namespaces; None: all namespaces.
    """
    found = [
        diagnosis
        for analyzer in ANALYZERS
        if namespace is None or not analyzer.needs_all_pods
        for diagnosis in analyzer.judge(snapshot)
        if namespace is None or _belongs(diagnosis, namespace, of_all=not analyzer.is_of_namespaces)
    ]
    pods = [pod for pod in judged_pods(snapshot) if namespace is None or pod.key.startswith(f"{namespace}/")]
    found += [diagnosis for pod in pods for diagnosis in pod.findings]
    return Analysis(sorted(found, key=_order), {pod.key: pod.judgement for pod in pods})


def _order(each: Diagnosis) -> tuple[int, bool, str, str]:
    return each.severity.rank, not each.decides, each.code, str(each.holder)


def _belongs(diagnosis: Diagnosis, namespace: str, *, of_all: bool) -> bool:
    holder = diagnosis.holder
    if holder.kind == "Namespace":
        return holder.name == namespace
    return (of_all and holder.kind != "Pod") or holder.namespace == namespace
