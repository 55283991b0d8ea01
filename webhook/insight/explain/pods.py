"""The reports on the pods of a snapshot, with the same conditions for a single pod and for all pods."""

import shlex
from collections.abc import Iterator
from itertools import islice

import msgspec

from webhook.cluster.snapshot.model import KnownPod, Scope, Snapshot, pods_of
from webhook.decisions.claims.evidence import KnownClaims
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.request.ranks import JOB_LABELS, TRAINING_JOB, job_label
from webhook.decisions.request.resources import read_requests
from webhook.decisions.resolve.node import Sources
from webhook.insight.explain.binding_topology import TELLER, binding_topology
from webhook.insight.explain.evidence import BindingReviews, Evidence, Reading, group_of, policy_for
from webhook.insight.explain.explain import explain
from webhook.insight.explain.findings import Report
from webhook.insight.explain.nccl_log import NcclLog
from webhook.objects.pod import MalformedPod, Pod, PodSpec
from webhook.objects.webhook_registration import CONFIGURATION, asked_about
from webhook.words import names
from webhook.words.errors import FormatError
from webhook.words.outcome import Refused
from webhook.words.printable import fitted, printable

_LABELS = {key: key.encode() for key in (names.GROUP, *JOB_LABELS)}
"""The labels of pods that work together."""
_ROLE = names.JOB_ROLE.encode()
_PEERS, _ELSEWHERE = 128, 8
"""Pods of a group that are looked at: on the node of the pod, where the kubelet runs 110 by default, and elsewhere."""
_KUBE_SCHEDULER = "system:kube-scheduler"
"""The user as whom kube-scheduler binds: the built-in ClusterRoleBinding of that name is for this user."""


class ToldNode(msgspec.Struct, frozen=True):
    """A node that the caller gives in place of the one of the snapshot."""

    name: str
    """Name of the node; empty: the node of the pod."""
    sources: Sources | None = None
    """The known topologies of the node; None: those of the snapshot."""
    reading: Reading = Reading()


class PodReports:
    """The reports on the pods of a snapshot. The groups of all pods are read only once.

    Args:
        snapshot: The cluster.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._groups: dict[tuple[str, str, str], dict[str, list[tuple[str, Pod]]]] = {}
        """The pods of each group or job on each node, with their names, by namespace, label and its value."""
        for known in snapshot.pods:
            for key in (key for key, needle in _LABELS.items() if needle in known.document):
                holders = (known.pod.labels, known.pod.annotations if key == names.GROUP else {})
                for value in filter(None, {holder.get(key) for holder in holders}):
                    nodes = self._groups.setdefault((known.namespace, key, value), {})
                    nodes.setdefault(known.node, []).append((known.name, known.pod))
        self._looked_at: tuple[str, Sources] = ("", Sources())
        self._launchers: dict[tuple[str, str], tuple[Pod, ...]] = {}
        """The launchers of MPIJobs, by namespace and job."""
        for known in snapshot.pods:
            if _ROLE in known.document and known.pod.labels.get(names.JOB_ROLE) == "launcher":
                job = known.namespace, known.pod.labels.get(TRAINING_JOB, "")
                self._launchers[job] = (*self._launchers.get(job, ())[: _ELSEWHERE - 1], known.pod)
        self._shows_webhook = _shows_webhook(snapshot)

    def of(
        self,
        known: KnownPod,
        told: ToldNode = ToldNode(""),  # noqa: B008 - an immutable value
        nccl_log: NcclLog | None = None,
    ) -> Report:
        """Returns the report on one pod.

        Args:
            known: A pod of the snapshot.
            told: The node, where the caller gives one.
            nccl_log: What NCCL printed in the pod; None without a log.

        Raises:
            MalformedPod: a field has another type than in a pod.
        """
        return explain(msgspec.structs.replace(self.evidence(known, told), nccl_log=nccl_log))

    def evidence(self, known: KnownPod, told: ToldNode) -> Evidence:
        """Returns the evidence about one pod; see :meth:`of`."""
        snapshot, pod = self._snapshot, known.pod
        namespace, node = snapshot.namespace(known.namespace), told.name or known.node
        policy = policy_for(pod, snapshot.policy, is_configured=snapshot.setting.is_configured)
        group, job, facts = group_of(pod, namespace, policy), job_label(pod), snapshot.facts
        sources, reading = self._known_node(known, node, told, group)
        if (pod.spec or PodSpec()).node_name:  # the status of the pod tells whether claims served it
            facts = msgspec.structs.replace(facts, claimed=None, has_hami_dra=False)
        has_claims = policy.claims.enabled and pod.has_claims
        return Evidence(
            pod=pod,
            namespace=namespace,
            policy=policy,
            cluster=facts,
            sources=sources,
            claims=snapshot.claims.of(pod, known.namespace) if has_claims else KnownClaims(),
            node=node,
            others=self._others(known, group) if group and not self._group_problem(group) else None,
            ranks=tuple(self._ranks(known, node)),
            knows_ranks="Pod" in snapshot.read or bool(job and pods_of(*job) in snapshot.read),
            launchers=known.launchers or self._launchers.get((known.namespace, pod.labels.get(TRAINING_JOB, "")), ()),
            reading=reading,
            shows_webhook=self._shows_webhook
            or any(key.startswith(names.PREFIX) for key in (*pod.annotations, *pod.labels)),
            reviews=_reviews(snapshot, pod) if snapshot.setting.scope is Scope.POD else None,
            planner=snapshot.planner,
            asked_at=snapshot.at,
        )

    def _known_node(self, known: KnownPod, node: str, told: ToldNode, group: str) -> tuple[Sources, Reading]:
        """Returns the topologies of the node, with the circumstances.

        Where the node may not be read, its topology is that of the Binding, if the pod has it.
        """
        sources = self._sources(node) if told.sources is None else told.sources
        reading = self._reading(known, node, sources, told, group)
        if not reading.node_problem or sources.published or sources.annotated:
            return sources, reading
        at_binding = binding_topology(known.pod, node)
        if at_binding is None:
            return sources, reading
        return at_binding, msgspec.structs.replace(reading, node_teller=TELLER, age_problem="")

    def _reading(self, known: KnownPod, node: str, sources: Sources, told: ToldNode, group: str) -> Reading:
        snapshot = self._snapshot
        problems, setting = snapshot.problems, snapshot.setting
        not_there = problems.get("nodes", "") if node not in snapshot.nodes else ""
        not_published = problems.get("configmaps", "") if sources.published is None else ""
        teller, show = told.reading.node_teller, told.reading.show
        if not teller and node and node in setting.topologies and setting.state:
            shown = printable(setting.state)
            teller = f"state directory {shown}"
            show = f"--state {shlex.quote(shown)} --node {shlex.quote(printable(node))}"
        return Reading(
            node_teller=teller,
            show=show,
            namespace_problem="" if snapshot.namespace(known.namespace).known else problems.get("namespaces", ""),
            node_problem="" if told.sources else "; ".join(filter(None, (not_published, not_there))),
            age_problem=problems.get("leases", "") if sources.age is None and not told.sources else "",
            group_problem=self._group_problem(group) if group else "",
            is_configured=setting.is_configured,
            names_hami=setting.names_hami,
        )

    def _group_problem(self, group: str) -> str:
        return self._snapshot.problems.get(pods_of(names.GROUP, group), "")

    def _ranks(self, known: KnownPod, node: str) -> Iterator[Pod]:
        """Yields the other pods with GPUs of the pod's job on a node."""
        job = job_label(known.pod)
        there = self._groups.get((known.namespace, *job), {}).get(node, ()) if job and node else ()
        for name, other in islice(there, _PEERS):
            if name != known.name and not other.has_ended and _has_gpus(other, self._snapshot.policy):
                yield other

    def _others(self, known: KnownPod, group: str) -> tuple[Pod, ...]:
        """Returns the other pods of the group on the node of a pod, and a few elsewhere: a group may have thousands."""
        nodes = self._groups.get((known.namespace, names.GROUP, group), {})
        here = (pod for name, pod in nodes.get(known.node, ()) if name != known.name)
        elsewhere = (pod for node, found in nodes.items() if node != known.node for _, pod in found)
        return (*islice(here, _PEERS), *islice(elsewhere, _ELSEWHERE))

    def _sources(self, node: str) -> Sources:
        """Returns the known topologies of a node; none where the node is not known."""
        if node != self._looked_at[0]:
            self._looked_at = node, self._snapshot.sources(node)
        return self._looked_at[1]


def _shows_webhook(snapshot: Snapshot) -> bool:
    """Returns whether a snapshot shows that there is a webhook, or could not be read where it would."""
    is_used = any(names.INJECTION in each.labels for each in snapshot.namespaces.values())
    is_marked = any(names.INJECTED in known.pod.annotations for known in snapshot.pods)
    is_known = snapshot.registration is not None or "mutatingwebhookconfigurations" in snapshot.problems
    return snapshot.setting.is_configured or is_known or is_used or is_marked


def _has_gpus(pod: Pod, policy: AdmitPolicy) -> bool:
    try:
        requests = read_requests(pod, policy.resources, policy.default_count)
    except (Refused, MalformedPod):
        return False
    return any(container.request for container in requests.containers)


def _reviews(snapshot: Snapshot, pod: Pod) -> BindingReviews:
    """Returns for which schedulers of the pod the API server asks the webhook about Bindings.

    For a pod with claims without another scheduler that is kube-scheduler; for others, HAMi's schedulers.
    """
    registration, found = fitted(snapshot.setting.registration), snapshot.registration
    accounts, problems = frozenset((_KUBE_SCHEDULER,)), [snapshot.problems.get("mutatingwebhookconfigurations", "")]
    if not _is_of_kube_scheduler(pod):
        problems.insert(0, snapshot.problems.get("deployments", ""))
        accounts = snapshot.accounts
    if any(problems):
        return BindingReviews(configuration=registration, problem="; ".join(filter(None, problems)))
    if found is None:
        return BindingReviews(configuration=registration, is_registered=False)
    try:
        about = asked_about(found, accounts)
    except FormatError:
        return BindingReviews(configuration=registration, problem=f"what the API server sent is no {CONFIGURATION}")
    return BindingReviews(
        configuration=registration, asked=about.asked, passed_by=about.passed_by, unclear=about.unclear
    )


def _is_of_kube_scheduler(pod: Pod) -> bool:
    spec = pod.spec or PodSpec()
    return pod.has_claims and spec.scheduler_name in (None, "", names.DEFAULT_SCHEDULER)
