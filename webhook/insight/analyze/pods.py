"""The findings of ``explain`` about every pod with GPUs, injected or not."""

from collections.abc import Iterator

import msgspec

from webhook.cluster.snapshot.model import KnownPod, Snapshot
from webhook.decisions.claims.pod import used_entries
from webhook.decisions.claims.requests import claimed_by_specs
from webhook.decisions.request.claims import read_claims
from webhook.decisions.request.resources import read_requests, unrecognized
from webhook.insight.analyze.diagnosis import Diagnosis, Holder, Severity, error
from webhook.insight.explain.cards import WHOLE_CARDS
from webhook.insight.explain.control import CONTROL
from webhook.insight.explain.findings import Finding, Judgement, Nvlink, Reach, Report, Verdict
from webhook.insight.explain.links import BANDWIDTH, LINKS
from webhook.insight.explain.opt_in import INJECTED, NAMESPACE_KEYS, OPTED_IN, PREPARED
from webhook.insight.explain.pods import PodReports
from webhook.objects.pod import MalformedPod, Pod
from webhook.words import names
from webhook.words.catalogue.cards import LOSES_CARDS, SLICE, UNRECOGNIZED_RESOURCE, WOULD_LOSE_CARDS
from webhook.words.catalogue.claims import CLAIM_WAITS, COUNT_AWAITS_CLAIM, SEE_RESOURCE_CLAIMS, TEMPLATE_ASKS
from webhook.words.catalogue.cluster_findings import POD_MALFORMED
from webhook.words.catalogue.links import (
    GPUS_NOT_KNOWN,
    NO_GPU_OF_A_NODE,
    NOT_BOUND,
    NOT_SCHEDULED,
    VALUES_NOT_COMPARED,
)
from webhook.words.catalogue.opting import BAD_OPTION
from webhook.words.outcome import Refused
from webhook.words.printable import fitted

_NOT_YET = frozenset(
    entry.code
    for entry in (
        NOT_SCHEDULED,
        NO_GPU_OF_A_NODE,
        GPUS_NOT_KNOWN,
        NOT_BOUND,
        CLAIM_WAITS,
        TEMPLATE_ASKS,
        COUNT_AWAITS_CLAIM,
    )
)
_OF_WHOLE_CARDS = frozenset({OPTED_IN, INJECTED, PREPARED, WHOLE_CARDS, CONTROL, LINKS, BANDWIDTH})
"""Conditions that a pod does not meet which asks for slices and means it: it asks for no whole cards."""
_FOLLOWS = frozenset(
    entry.code for entry in (SEE_RESOURCE_CLAIMS, NO_GPU_OF_A_NODE, GPUS_NOT_KNOWN, VALUES_NOT_COMPARED)
)
"""Codes of findings that only follow from another one: the GPUs that the claims of the pod gave are not known."""
_SHARES_CARDS = frozenset({WOULD_LOSE_CARDS.code, LOSES_CARDS.code})
"""Codes of findings about a running pod whose cards HAMi gives to other pods too."""
_TEMPLATE_HASH = "pod-template-hash"
_OWNER_LIMIT = 512
"""Characters of the text that names an owner. The API server takes any text for kind and name of an owner."""


class JudgedPod(msgspec.Struct, frozen=True):
    """A pod with GPUs, and what ``explain`` says of it."""

    key: str
    """The pod as ``namespace/name``."""
    judgement: Judgement
    findings: tuple[Diagnosis, ...]


def judged_pods(snapshot: Snapshot) -> Iterator[JudgedPod]:
    """Yields every pod with GPUs, with a finding for each condition that fails, is not known or gives a hint."""
    reports = PodReports(snapshot)
    for known in sorted(snapshot.pods, key=lambda each: each.node):
        key = f"{known.namespace}/{known.name}"
        try:
            report = reports.of(known) if _asks_for_gpus(snapshot, known) else None
            if report is not None:
                yield JudgedPod(key, report.judgement, tuple(_findings(known, report)))
        except MalformedPod as problem:
            message = POD_MALFORMED.say(problem=fitted(str(problem)))
            judgement = Judgement(Nvlink.UNKNOWN, message.text, message.fix, message.code)
            yield JudgedPod(key, judgement, (error(holder_of(known, known.pod), message),))


class Reports:
    """The reports of ``explain`` on single pods of a cluster.

    Args:
        snapshot: The cluster.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._reports = snapshot, PodReports(snapshot)

    def of(self, namespace: str, name: str) -> Report | None:
        """Returns the report on one pod; None if there is no pod of that name, or if it asks for no GPUs.

        Raises:
            MalformedPod: a field has another type than in a pod.
        """
        known = self._snapshot.pod(namespace, name)
        return self._reports.of(known) if known and _asks_for_gpus(self._snapshot, known) else None


def _findings(known: KnownPod, report: Report) -> Iterator[Diagnosis]:
    holder, decisive = holder_of(known, known.pod), report.judgement.code
    is_slice = _means_slices(known, report)
    for finding in report.findings:
        severity = _severity(finding)
        if is_slice and finding.condition in _OF_WHOLE_CARDS:
            severity = Severity.HINT if finding.condition == WHOLE_CARDS else None
        if severity is not None and not _is_idle(finding, report):
            decides = bool(decisive) and finding.code == decisive
            yield Diagnosis(severity, finding.code, holder, finding.evidence, finding.remedy, decides)


def _means_slices(known: KnownPod, report: Report) -> bool:
    """Returns whether a pod asks for parts of cards, and neither it nor the webhook asks for whole ones."""
    asks = any(key in known.pod.annotations for key in (names.INJECT, names.PROFILE))
    return not asks and any(finding.fails and finding.code == SLICE.code for finding in report.findings)


def _asks_for_gpus(snapshot: Snapshot, known: KnownPod) -> bool:
    """Returns whether a pod asks for GPUs, or for devices that may be GPUs.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    pod = known.pod
    try:
        requests = read_requests(pod, snapshot.policy.resources, snapshot.policy.default_count)
    except Refused:
        return True
    if requests.mig or any(container.request for container in requests.containers):
        return True
    if any(unrecognized(pod, requests)):
        return True
    found = read_claims(pod, requests)
    if found is None:
        return False
    specs = snapshot.claims.of(pod, known.namespace).specs(pod) if pod.has_claims else {}
    by_class = set(found.names) - used_entries(pod)
    return found.of_hami or bool(by_class or claimed_by_specs(pod, specs, snapshot.policy.claims))


def holder_of(known: KnownPod, pod: Pod) -> Holder:
    """Returns the pod ``known`` as the object of a finding, with its workload. ``pod`` is the same pod, decoded."""
    return Holder("Pod", known.namespace, known.name, owner_of(pod))


def owner_of(pod: Pod) -> str:
    """Returns the workload that made a pod, as kind and name; empty if the pod has no owner.

    For a ReplicaSet of a Deployment this is the Deployment. The name of such a ReplicaSet ends with a hash, which is
    a label of its pods too.
    """
    try:
        owners = pod.owners
    except MalformedPod:  # of a file
        return ""
    owner = next((each for each in owners if each.controller), owners[0] if owners else None)
    if owner is None:
        return ""
    suffix = f"-{pod.labels.get(_TEMPLATE_HASH, '')}"
    if owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix):
        return fitted(f"Deployment {owner.name.removesuffix(suffix)}", _OWNER_LIMIT)
    return fitted(f"{owner.kind} {owner.name}", _OWNER_LIMIT)


def _is_idle(finding: Finding, report: Report) -> bool:
    """Returns whether a finding is normal for the state of the pod, or only follows from another finding.

    A pod without a node has no GPUs yet. A pod with slices loses no links. Problems of claims and of namespaces have
    their own findings.
    """
    if finding.condition == NAMESPACE_KEYS:
        return True
    loses_nothing = report.reach is Reach.NOTHING_TO_JOIN
    if finding.verdict is Verdict.UNKNOWN:
        is_said_of_claims = any(each.code == SEE_RESOURCE_CLAIMS.code for each in report.findings)
        is_open = (not report.node and finding.code in _NOT_YET) or (is_said_of_claims and finding.code in _FOLLOWS)
        return loses_nothing or is_open
    return loses_nothing and finding.condition in (OPTED_IN, INJECTED) and finding.code != BAD_OPTION.code


def _severity(finding: Finding) -> Severity | None:
    if finding.code == UNRECOGNIZED_RESOURCE.code:
        return Severity.WARNING
    if finding.fails:
        return Severity.ERROR if finding.stops or finding.code in _SHARES_CARDS else Severity.WARNING
    return {Verdict.UNKNOWN: Severity.INFO, Verdict.HINT: Severity.HINT}.get(finding.verdict)
