"""A cluster as values."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from sys import intern
from typing import Any

import msgspec

from webhook.cluster.redaction.objects import CERTIFICATES, RUNTIME_CLASS, SNAPSHOT, Object, identity
from webhook.cluster.snapshot.certificates import Certificates, read_certificates
from webhook.cluster.snapshot.claims import read_claims
from webhook.cluster.snapshot.installation import (
    ENDPOINTS,
    NoPod,
    Program,
    count_ready,
    is_program,
    read_no_pods,
    read_program,
)
from webhook.cluster.snapshot.nodes import AgentLeases, ClusterNode, read_nodes
from webhook.decisions.claims.evidence import NO_CLAIMS, ClusterClaims
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import HAMI_RESOURCES, AdmitPolicy
from webhook.decisions.detection import claimed_resources, hami_version, scheduler_accounts
from webhook.decisions.request.assigned_node import node_of
from webhook.decisions.resolve.node import Sources
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.planner_signs import NO_SIGNS, PlannerSigns, planner_signs
from webhook.objects.pod import Namespace, Pod, decode_stored_pod
from webhook.objects.webhook_registration import CONFIGURATION, REGISTRATION, namespace_of
from webhook.words import names
from webhook.words.catalogue.entry import Message
from webhook.words.errors import FormatError, GpuTopologyError, ManifestError
from webhook.words.printable import fitted, printable
from webhook.words.shape import shape_problem
from webhook.words.timestamp import parse_timestamp
from webhook.words.version import Version


class KnownPod(msgspec.Struct, frozen=True):
    """A pod, decoded once."""

    document: bytes
    """The kept fields of the pod, as JSON."""
    pod: Pod
    namespace: str
    name: str
    """The name, or the beginning of it."""
    node: str
    """The present or future node of the pod; empty if that is open."""
    has_ended: bool
    launchers: tuple[Pod, ...] = ()
    """The pods that start the processes of this one, where its manifest shows them: the launcher of an MPIJob."""


class Unread(msgspec.Struct, frozen=True):
    """A gap in the reading of a cluster."""

    what: str
    """The missing part, such as ``nodes``."""
    problem: str
    is_denied: bool = False
    """Whether the caller lacks the right to read it."""


class ToldOfWorkload(msgspec.Struct, frozen=True):
    """What a manifest shows of a workload that its pods do not."""

    kind: str
    namespace: str
    """The namespace that the workload names; empty if it names none."""
    name: str
    message: Message


def pods_of(label: str, value: str) -> str:
    """Return the name of the pods with a label among the parts of a cluster that were read, or could not be."""
    return f"pods with label {label}={fitted(value)}"


class Scope(StrEnum):
    """The extent of a snapshot."""

    POD = "pod"
    """One pod with its surroundings."""
    ALL = "all"
    """Everything that is judged, with the pods of one namespace or of all."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a cluster beside its documents."""

    policy: AdmitPolicy
    is_configured: bool = True
    """True if ``policy`` is the cluster's, and False if it is all defaults for lack of one."""
    names_hami: bool = False
    """True if the caller has put a version of HAMi into ``policy``, which may be one that is yet to come."""
    registration: str = REGISTRATION
    """The name of the MutatingWebhookConfiguration that registers the webhook."""
    facts: ClusterFacts = ClusterFacts()
    """The facts that a state directory tells. Its versions come before those of the documents, which it repeats."""
    topologies: Mapping[str, NodeTopology] = {}
    """The topologies of nodes by their names, from a state directory, for nodes without a ConfigMap."""
    state: str = ""
    """The state directory of the topologies, as messages name it."""
    workloads: tuple[ToldOfWorkload, ...] = ()
    """What manifests show of workloads."""
    scope: Scope = Scope.ALL


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A cluster at one moment."""

    pods: tuple[KnownPod, ...] = ()
    namespaces: Mapping[str, Namespace] = {}
    nodes: Mapping[str, ClusterNode] = {}
    registrations: tuple[Object, ...] = ()
    """The MutatingWebhookConfigurations, by their names."""
    schedulers: tuple[Object, ...] = ()
    """The Deployments of HAMi's schedulers."""
    programs: tuple[Program, ...] = ()
    """The workloads of this project: webhook, planner and agents."""
    ready_endpoints: int | None = None
    """The number of endpoints that are ready behind the webhook's Service; None if it is not known."""
    failed_creations: tuple[NoPod, ...] = ()
    certificates: tuple[Certificates, ...] = ()
    claims: ClusterClaims = NO_CLAIMS
    planner: PlannerSigns = NO_SIGNS
    facts: ClusterFacts = ClusterFacts()
    read: frozenset[str] = frozenset()
    """The kinds that were read completely, so that a missing object does not exist."""
    unread: tuple[Unread, ...] = ()
    at: datetime | None = None
    """The time of the reading; None if it is not known."""
    setting: Setting

    @property
    def policy(self) -> AdmitPolicy:
        """The configuration."""
        return self.setting.policy

    @cached_property
    def registration(self) -> Object | None:
        """The MutatingWebhookConfiguration that registers the webhook."""
        name = self.setting.registration
        return next((found for found in self.registrations if identity(found)[1] == name), None)

    @cached_property
    def problems(self) -> Mapping[str, str]:
        """The reasons of the gaps, by the missing part."""
        return {each.what: each.problem for each in self.unread}

    def pod(self, namespace: str, name: str) -> KnownPod | None:
        """Return a pod by its name; None if there is none, or if it has ended."""
        return self._by_name.get((namespace, name))

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str], KnownPod]:
        return {(known.namespace, known.name): known for known in self.pods}

    def namespace(self, name: str) -> Namespace:
        """Return a namespace; one with ``known`` unset if it was not read."""
        return self.namespaces.get(name) or Namespace(name, known=False)

    def sources(self, node: str) -> Sources:
        """Return the known facts about the GPUs of a node; empty if the node is not known."""
        there = self.nodes.get(node)
        return there.sources() if there else Sources()

    @cached_property
    def accounts(self) -> frozenset[str]:
        """The user names of HAMi's schedulers."""
        return scheduler_accounts(_list(self.schedulers))


def read_snapshot(documents: Iterable[Object], pods: Iterable[KnownPod], setting: Setting) -> Snapshot:
    """Make a snapshot from the documents of a cluster.

    Args:
        documents: The documents that :func:`webhook.cluster.redaction.objects.kept` returned, without pods.
        pods: The pods.
        setting: The facts beside the documents.

    Raises:
        FormatError: a MutatingWebhookConfiguration is malformed.
    """
    by_kind: dict[str, list[Object]] = {}
    for document in documents:
        by_kind.setdefault(str(document.get("kind")), []).append(document)
    about = (by_kind.get(SNAPSHOT) or [{}])[0]
    at = parse_timestamp(about.get("at"))
    leases = {identity(lease): lease for lease in by_kind.get("Lease", ())}
    registrations = tuple(sorted(by_kind.get("MutatingWebhookConfiguration", ()), key=lambda found: identity(found)[1]))
    deployments = by_kind.get("Deployment", ())
    schedulers = tuple(found for found in deployments if not is_program(found))
    read = frozenset(about.get("read", ()))
    unread = tuple(
        Unread(fitted(each.get("what", "")), fitted(each.get("problem", "")), each.get("denied", False))
        for each in about.get("unread", ())
    )
    of_agents = AgentLeases(found=leases, are_all="Lease" in read, at=at)
    problems = {each.what: each.problem for each in unread}
    ours = next((found for found in registrations if identity(found)[1] == setting.registration), None)
    namespace = namespace_of(ours) if ours else None
    planner = _planner(namespace, leases, setting, read, problems, at)
    nodes = read_nodes(
        by_kind.get("Node", ()),
        by_kind.get("ConfigMap", ()),
        of_agents,
        setting.topologies,
        believes_unowned=setting.scope is Scope.POD,
    )
    facts = _facts(schedulers, by_kind.get("DeviceClass"), about.get("kubernetes"), planner, setting.facts, read)
    missing = _missing_runtime_classes(by_kind.get(RUNTIME_CLASS, ()), read)
    if missing:
        facts = msgspec.structs.replace(facts, missing_runtime_classes=missing)
    if _lacks_hami(schedulers, nodes.values(), facts, read):
        facts = msgspec.structs.replace(facts, lacks_hami=True)
    return Snapshot(
        pods=_pods(pods),
        namespaces={found.name: found for found in map(_namespace, by_kind.get("Namespace", ()))},
        nodes=nodes,
        registrations=registrations,
        schedulers=schedulers,
        programs=_programs([*deployments, *by_kind.get("DaemonSet", ())], namespace),
        ready_endpoints=count_ready(by_kind.get(ENDPOINTS, ())) if ENDPOINTS in read else None,
        failed_creations=tuple(read_no_pods(by_kind.get("Event", ()))),
        certificates=tuple(map(read_certificates, by_kind.get(CERTIFICATES, ()))),
        claims=read_claims(by_kind, setting.policy.claims, read, problems),
        planner=planner,
        facts=facts,
        read=read,
        unread=unread,
        at=at,
        setting=setting,
    )


def _pods(every: Iterable[KnownPod]) -> tuple[KnownPod, ...]:
    """Return the pods that have not ended, by namespace and name. Of two with one name the first counts."""
    found: dict[tuple[str, str], KnownPod] = {}
    for known in every:
        if not known.has_ended:
            found.setdefault((known.namespace, known.name), known)
    return tuple(found[key] for key in sorted(found))


def known_pod(document: Object) -> KnownPod:
    """Return a pod from its kept fields.

    Raises:
        ManifestError: a field has another type than in a pod.
    """
    document["metadata"].setdefault("namespace", names.DEFAULT_NAMESPACE)
    where = f"pod {'/'.join(map(fitted, identity(document)))}"
    try:
        text = msgspec.json.encode(document)
        pod = decode_stored_pod(text)
    except msgspec.DecodeError as error:
        raise ManifestError(f"{where}: {shape_problem(error)}") from None
    except UnicodeEncodeError:
        raise ManifestError(f"{where}: expected text, found half of a character") from None
    namespace = (pod.metadata.namespace if pod.metadata else None) or names.DEFAULT_NAMESPACE
    return KnownPod(text, pod, intern(namespace), pod.display_name, intern(node_of(pod)), pod.has_ended)


def _namespace(document: Object) -> Namespace:
    metadata = document["metadata"]
    return Namespace(identity(document)[1], metadata.get("labels", {}), metadata.get("annotations", {}))


def _programs(workloads: Iterable[Object], namespace: str | None) -> tuple[Program, ...]:
    """Return the workloads of this project in the namespace of the webhook; in all if the registration names none.

    Anyone who may create a Deployment can give it the labels of this project, but not in that namespace.
    """
    return tuple(
        read_program(found)
        for found in workloads
        if is_program(found) and (not namespace or identity(found)[0] == namespace)
    )


def _planner(
    namespace: str | None,
    leases: Mapping[tuple[str, str], Object],
    setting: Setting,
    read: frozenset[str],
    problems: Mapping[str, str],
    at: datetime | None,
) -> PlannerSigns:
    """Return the signs of a planner: its Lease in the namespace of the webhook.

    The namespace is None without a registration, and empty if the registration names no Service.
    """
    if at is None:
        return _planner_of_files(setting)
    name = setting.registration
    if namespace is None:
        none = f"there is no {CONFIGURATION} {name}, which names its namespace"
        return PlannerSigns(problem=problems.get("mutatingwebhookconfigurations", "") or none)
    if not namespace:
        return PlannerSigns(problem=f"{CONFIGURATION} {name} names no Service, and so no namespace")
    lease = leases.get((namespace, names.PLANNER_LEASE))
    if lease is None and names.PLANNER_LEASE not in read:
        was_not_read = f"Lease {namespace}/{names.PLANNER_LEASE} was not read"
        return PlannerSigns(problem=problems.get(names.PLANNER_LEASE, was_not_read))
    return planner_signs(lease, f"{namespace}/{names.PLANNER_LEASE}", at=at)


def _planner_of_files(setting: Setting) -> PlannerSigns:
    """Return the signs of a planner in a handwritten state directory."""
    if not setting.state:
        return NO_SIGNS
    is_alive = setting.facts.has_planner
    said = f"cluster.yaml of state directory {printable(setting.state)} names {'one' if is_alive else 'none'}"
    return PlannerSigns(is_alive=is_alive, said=said)


def _facts(
    schedulers: Sequence[Object],
    classes: Sequence[Object] | None,
    kubernetes: str | None,
    planner: PlannerSigns,
    otherwise: ClusterFacts,
    read: frozenset[str],
) -> ClusterFacts:
    hami = _version(lambda: hami_version(_list(schedulers))) if schedulers else None
    claimed, has_hami_dra = claimed_resources(_list(classes or ()))
    are_known = classes is not None or "DeviceClass" in read
    source = "version of Kubernetes"
    return ClusterFacts(
        hami=otherwise.hami or hami,
        kubernetes=otherwise.kubernetes
        or (_version(lambda: Version.parse(kubernetes, source=source)) if kubernetes else None),
        claimed=claimed if are_known else otherwise.claimed,
        has_hami_dra=has_hami_dra or otherwise.has_hami_dra,
        lacks_hami=otherwise.lacks_hami,
        has_planner=planner.is_alive is True or otherwise.has_planner,
    )


def _missing_runtime_classes(found: Iterable[Object], read: frozenset[str]) -> frozenset[str]:
    """Return the RuntimeClasses that were looked for by their names and are not there."""
    there = {identity(each)[1] for each in found}
    looked_for = (each.removeprefix(f"{RUNTIME_CLASS} ") for each in read if each.startswith(f"{RUNTIME_CLASS} "))
    return frozenset(looked_for) - there


def _lacks_hami(
    schedulers: Sequence[Object], nodes: Iterable[ClusterNode], facts: ClusterFacts, read: frozenset[str]
) -> bool:
    """Return whether HAMi is known to be nowhere: no scheduler, and GPUs on nodes that it has not annotated."""
    if schedulers or facts.hami or facts.has_hami_dra or facts.claimed is None or not {"Deployment", "Node"} <= read:
        return False
    records = [node.record for node in nodes if node.record]
    is_offered = any(record.allocatable.get(HAMI_RESOURCES.count, 0) > 0 for record in records)
    return is_offered and not any(record.registered for record in records)


def _version(read: Any) -> Version | None:
    try:
        found: Version = read()
    except (FormatError, GpuTopologyError):
        return None
    return found


def _list(items: Iterable[Object]) -> bytes:
    return msgspec.json.encode({"items": list(items)})
