"""The findings of ``explain`` about every pod with GPUs, injected or not."""

from collections.abc import Iterator

from webhook.cluster.snapshot.model import KnownPod, Snapshot
from webhook.decisions.claims.pod import used_entries
from webhook.decisions.claims.requests import claimed_by_specs
from webhook.decisions.request.claims import read_claims
from webhook.decisions.request.resources import read_requests
from webhook.insight.analyze.diagnosis import Diagnosis, Holder, Severity, error
from webhook.insight.explain.findings import Finding, Reach, Report, Verdict
from webhook.insight.explain.opt_in import INJECTED, NAMESPACE_KEYS, OPTED_IN
from webhook.insight.explain.pods import PodReports
from webhook.objects.pod import MalformedPod, Pod
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
_FOLLOWS = frozenset(
    entry.code for entry in (SEE_RESOURCE_CLAIMS, NO_GPU_OF_A_NODE, GPUS_NOT_KNOWN, VALUES_NOT_COMPARED)
)
"""Codes of findings that only follow from another one: the GPUs that the claims of the pod gave are not known."""
_TEMPLATE_HASH = "pod-template-hash"
_OWNER_LIMIT = 512
"""Characters of the text that names an owner. The API server takes any text for kind and name of an owner."""


def pods(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields a finding for each condition that fails, is not known or gives a hint, of every pod with GPUs."""
    reports = PodReports(snapshot)
    for known in sorted(snapshot.pods, key=lambda each: each.node):
        try:
            found = list(_findings(snapshot, known, reports))
        except MalformedPod as problem:
            found = [error(holder_of(known, known.pod), POD_MALFORMED.say(problem=fitted(str(problem))))]
        yield from found


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


def _findings(snapshot: Snapshot, known: KnownPod, reports: PodReports) -> Iterator[Diagnosis]:
    if not _asks_for_gpus(snapshot, known):
        return
    report, holder = reports.of(known), holder_of(known, known.pod)
    for finding in report.findings:
        severity = _severity(finding)
        if severity is not None and not _is_idle(finding, report):
            yield Diagnosis(severity, finding.code, holder, finding.evidence, finding.remedy)


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
    found = read_claims(pod, requests)
    if found is None:
        return False
    specs = snapshot.claims.of(pod, known.namespace).specs(pod) if pod.has_claims else {}
    by_class = set(found.names) - used_entries(pod)
    return found.of_hami or bool(by_class or claimed_by_specs(pod, specs, snapshot.policy.claims))


def holder_of(known: KnownPod, pod: Pod) -> Holder:
    """Returns the pod ``known`` as the object of a finding, with its workload. ``pod`` is the same pod, decoded."""
    return Holder("Pod", known.namespace, known.name, _owner(pod))


def _owner(pod: Pod) -> str:
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
    if finding.fails:
        return Severity.ERROR if finding.stops else Severity.WARNING
    return {Verdict.UNKNOWN: Severity.INFO, Verdict.HINT: Severity.HINT}.get(finding.verdict)
