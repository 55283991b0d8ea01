"""What ``explain`` finds of every pod with GPUs, injected or not."""

from collections.abc import Iterator
from itertools import islice

import msgspec

from webhook.analyze.diagnosis import Diagnosis, Holder, Severity, error
from webhook.analyze.snapshot import KnownPod, Snapshot
from webhook.catalogue.claims import CLAIM_WAITS, COUNT_AWAITS_CLAIM, SEE_RESOURCE_CLAIMS, TEMPLATE_ASKS
from webhook.catalogue.cluster_findings import POD_MALFORMED
from webhook.catalogue.links import GPUS_NOT_KNOWN, NO_GPU_OF_A_NODE, NOT_BOUND, NOT_SCHEDULED, VALUES_NOT_COMPARED
from webhook.catalogue.opting import BAD_OPTION
from webhook.claims.asked import claimed_by_specs
from webhook.claims.known import KnownClaims
from webhook.claims.pod import used_entries
from webhook.explain.evidence import Evidence, Reading, containers_with_env_from, group_of, policy_for
from webhook.explain.explain import explain
from webhook.explain.findings import Finding, Reach, Report, Verdict
from webhook.explain.opting import INJECTED, OPTED_IN
from webhook.explain.standing import standing_of
from webhook.model import names
from webhook.model.nesting import decode
from webhook.model.outcome import Refused
from webhook.model.pod import MalformedPod, Metadata, Pod, PodSpec
from webhook.printable import fitted
from webhook.request.claims import read_claims
from webhook.request.resources import read_requests
from webhook.resolve.node import Sources

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
"""What is not known of a pod where it is not known which GPUs its claims gave."""
_GROUP = names.GROUP.encode()
_PEERS, _ELSEWHERE = 128, 8
"""Of the pods of a group: on the node of a pod, where the kubelet runs 110 by default, and on others."""
_TEMPLATE_HASH = "pod-template-hash"
_OWNER_LIMIT = 512
"""Characters. The API server takes any text for the kind and the name of an owner."""


class _Owner(msgspec.Struct):
    kind: str = ""
    name: str = ""
    controller: bool = False


_OWNERS = msgspec.json.Decoder(list[_Owner])


def pods(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """The conditions that fail, and those of which nothing is known, of every pod with GPUs."""
    around = _Surroundings(snapshot)
    for known in sorted(snapshot.pods, key=lambda each: each.node):
        try:
            found = list(_findings(snapshot, known, around))
        except MalformedPod as problem:
            found = [error(holder_of(known, known.pod), POD_MALFORMED.say(problem=fitted(str(problem))))]
        yield from found


class Reports:
    """What ``explain`` says of single pods of a cluster. The pods around them are looked through once for all of them.

    Args:
        snapshot: The cluster.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._pods = {(known.namespace, known.name): known for known in snapshot.pods}
        self._around = _Surroundings(snapshot)

    def of(self, namespace: str, name: str) -> Report | None:
        """What it says of one pod; None if there is none of that name, or it asks for no GPUs.

        Raises:
            MalformedPod: a field has another type than in a pod.
        """
        known = self._pods.get((namespace, name))
        return _report(self._snapshot, known, known.pod, self._around) if known else None


def _report(snapshot: Snapshot, known: KnownPod, pod: Pod, around: "_Surroundings") -> Report | None:
    claims = snapshot.claims.of(pod, known.namespace) if pod.has_claims else KnownClaims()
    return explain(_evidence(snapshot, known, pod, claims, around)) if _asks_for_gpus(snapshot, pod, claims) else None


def _findings(snapshot: Snapshot, known: KnownPod, around: "_Surroundings") -> Iterator[Diagnosis]:
    pod = known.pod
    report = _report(snapshot, known, pod, around)
    if report is None:
        return
    holder = holder_of(known, pod)
    for finding in report.findings:
        severity = _severity(finding)
        if severity is not None and not _is_idle(finding, report):
            yield Diagnosis(severity, finding.code, holder, finding.evidence, finding.remedy)


def _asks_for_gpus(snapshot: Snapshot, pod: Pod, claims: KnownClaims) -> bool:
    """Whether a pod asks for GPUs, or for what may be GPUs.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    try:
        requests = read_requests(pod, snapshot.policy.resources, snapshot.policy.default_count)
    except Refused:
        return True
    if requests.mig or any(container.request for container in requests.containers):
        return True
    found = read_claims(pod, requests)
    if found is None:
        return False
    by_class = set(found.names) - used_entries(pod)
    return found.of_hami or bool(by_class or claimed_by_specs(pod, claims.specs(pod), snapshot.policy.claims))


def holder_of(known: KnownPod, pod: Pod) -> Holder:
    """A pod, and the workload that made it; ``pod`` is the same, decoded."""
    return Holder("Pod", known.namespace, known.name, _owner(pod))


def _owner(pod: Pod) -> str:
    """Of a ReplicaSet of a Deployment the Deployment: its name ends with a hash that is a label of its pods."""
    raw = bytes((pod.metadata or Metadata()).owner_references_json)
    try:
        owners = decode(_OWNERS, raw) if raw and raw != b"null" else []
    except msgspec.DecodeError:  # of a file
        return ""
    owner = next((each for each in owners if each.controller), owners[0] if owners else None)
    if owner is None:
        return ""
    suffix = f"-{pod.labels.get(_TEMPLATE_HASH, '')}"
    if owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix):
        return fitted(f"Deployment {owner.name.removesuffix(suffix)}", _OWNER_LIMIT)
    return fitted(f"{owner.kind} {owner.name}", _OWNER_LIMIT)


def _is_idle(finding: Finding, report: Report) -> bool:
    """Whether a finding is in order as it is, or follows from another.

    A pod without a node has no GPUs yet, a slice loses no links, and of claims it is said by itself what is wrong.
    """
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


class _Surroundings:
    """The pods of each group, found once; and what is said about one node, until another one is asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._groups: dict[tuple[str, str], dict[str, list[tuple[str, Pod]]]] = {}
        """By namespace and group the pods on each node, with their names."""
        for known in snapshot.pods:
            if _GROUP not in known.document:
                continue
            pod = known.pod
            for group in filter(None, {holder.get(names.GROUP) for holder in (pod.labels, pod.annotations)}):
                nodes = self._groups.setdefault((known.namespace, group), {})
                nodes.setdefault(known.node, []).append((known.name, pod))
        self._nodes = snapshot.nodes
        self._looked_at: tuple[str, Sources] = ("", Sources())

    def others(self, known: KnownPod, group: str) -> tuple[Pod, ...]:
        """The pods of the group of a pod on its node, and a few of those elsewhere: a group may have thousands."""
        nodes = self._groups.get((known.namespace, group), {})
        here = (pod for name, pod in nodes.get(known.node, ()) if name != known.name)
        elsewhere = (pod for node, found in nodes.items() if node != known.node for _, pod in found)
        return (*islice(here, _PEERS), *islice(elsewhere, _ELSEWHERE))

    def sources(self, node: str) -> Sources:
        """What is said about the GPUs of a node; nothing where it is not known."""
        if node != self._looked_at[0]:
            there = self._nodes.get(node)
            self._looked_at = node, there.sources() if there else Sources()
        return self._looked_at[1]


def _evidence(snapshot: Snapshot, known: KnownPod, pod: Pod, claims: KnownClaims, around: _Surroundings) -> Evidence:
    """As ``explain`` has it of one pod; whose Bindings reach the webhook is a finding of the cluster, not of a pod."""
    namespace, node = snapshot.namespace(known.namespace), known.node
    policy = policy_for(pod, snapshot.policy, is_configured=snapshot.setting.is_configured)
    group = group_of(pod, namespace, policy)
    sources, facts = around.sources(node), snapshot.facts
    if (pod.spec or PodSpec()).node_name:  # its own status tells whether claims served it
        facts = msgspec.structs.replace(facts, claimed=None, has_hami_dra=False)
    return Evidence(
        pod=pod,
        namespace=namespace,
        policy=policy,
        cluster=facts,
        sources=sources,
        claims=claims if policy.claims.enabled else KnownClaims(),
        node=node,
        others=around.others(known, group) if group else None,
        env_from=containers_with_env_from(known.document),
        reading=Reading(
            namespace_problem="" if namespace.known else snapshot.problems.get("namespaces", ""),
            node_problem="" if node in snapshot.nodes else snapshot.problems.get("nodes", ""),
            age_problem=snapshot.problems.get("leases", "") if sources.age is None else "",
            is_configured=snapshot.setting.is_configured,
        ),
        standing=standing_of(known.document),
        planner=snapshot.planner,
        asked_at=snapshot.at,
    )
