"""A pod from a cluster, with everything around it that the caller is allowed to see."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from webhook.cli.complaint import complain
from webhook.cli.explain.asking import NO_ANSWER, Cluster, attempt
from webhook.cli.explain.claims import read_claims
from webhook.cli.explain.known import Known, read_pod
from webhook.cli.explain.wanted import POD, Wanted
from webhook.cli.explain.workloads import pod_of_workload
from webhook.explain.evidence import BindingReviews, Reading
from webhook.explain.standing import NO_SIGNS, PlannerSigns, planner_signs
from webhook.kube.api_server import Object, connect_objects
from webhook.kube.errors import NotFound
from webhook.manifest.pods import to_json
from webhook.model import names
from webhook.model.cluster import ClusterFacts
from webhook.model.errors import GpuTopologyError
from webhook.model.lease import lasts, renewed_at
from webhook.model.node_names import node_label
from webhook.model.pod import Namespace, Pod, PodSpec
from webhook.model.version import Version
from webhook.resolve.node import KnownNode, Origin, Sources
from webhook.state.detected import claimed_resources, hami_version, scheduler_accounts
from webhook.state.published import is_owned_by, topology_of_config_map, topology_of_node
from webhook.state.registered import asked_about, namespace_of
from webhook.traffic.document import parse_traffic
from webhook.traffic.model import Traffic

_T = TypeVar("_T")
_SOURCE = "the cluster"
_NONE: list[Object] = []
_KUBE_SCHEDULER = "system:kube-scheduler"
"""The user as whom kube-scheduler binds: the built-in ClusterRoleBinding of that name is for this user."""
_NOT_READABLE = "what the API server sent is no MutatingWebhookConfiguration"


@contextmanager
def known_from_cluster(
    wanted: Wanted, kubeconfig: Path | None, *, registration: str, context: str = ""
) -> Iterator[Known]:
    """The pod as it is now; the rest is asked for when it is needed, until the end of the block.

    What cannot be read besides the pod is left out, with a note on standard error.

    Args:
        wanted: The pod, or what makes it, with its namespace.
        kubeconfig: Of the cluster; ``None``: the one in which this program runs as a pod.
        registration: Name of the MutatingWebhookConfiguration that registers the webhook.
        context: Of the kubeconfig; empty for the current one.

    Raises:
        GpuTopologyError: there is no such pod, or the API server cannot be asked.
    """
    api = connect_objects(kubeconfig, user_agent=names.EXPLAIN_USER_AGENT, context=context)
    with asyncio.Runner() as runner:
        try:
            yield _known(Cluster(api, runner), wanted, registration)
        finally:
            runner.run(api.close())


class _Registered(NamedTuple):
    """The MutatingWebhookConfiguration of the webhook."""

    name: str
    found: Object | None
    """``None``: there is none, or it could not be read."""
    problem: str
    """Why it could not be read; empty if it could."""


def _known(cluster: Cluster, wanted: Wanted, registration: str) -> Known:
    namespace, found = wanted.namespace, _find(cluster, wanted)
    source = f"{wanted.kind.word} {namespace}/{wanted.name}"
    document = to_json(found, source)
    pod = read_pod(document, source)
    around, problem = _namespace(cluster, namespace)
    schedulers, not_listed = _schedulers(cluster)
    facts, registered = _facts(cluster, pod, schedulers), _registered(cluster, registration)
    planner = _planner(cluster, registered) if _may_wait(pod) else NO_SIGNS
    return Known(
        document=document,
        pod=pod,
        namespace=around,
        cluster=msgspec.structs.replace(facts, has_planner=planner.is_alive is True),
        group=lambda group: _group(cluster, pod, group),
        node=lambda node: _node(cluster, node),
        claims=lambda settings, node: read_claims(cluster, pod, namespace, settings, node),
        namespace_problem=problem,
        reviews=_reviews(registered, pod, schedulers, not_listed),
        planner=planner,
        asked_at=datetime.now(UTC),
    )


def _find(cluster: Cluster, wanted: Wanted) -> Object:
    """Raises GpuTopologyError if there is no such pod or workload."""
    try:
        if wanted.kind is POD:
            return cluster.ask(cluster.api.pod(wanted.namespace, wanted.name))
        return pod_of_workload(cluster, wanted)
    except NotFound:
        raise GpuTopologyError(_missing(cluster, wanted)) from None


def _missing(cluster: Cluster, wanted: Wanted) -> str:
    """What there is not: the pod, or its namespace already."""
    try:
        cluster.ask(cluster.api.namespace(wanted.namespace))
    except NotFound:
        return f"there is no namespace {wanted.namespace} in this cluster"
    except GpuTopologyError:  # who may not read namespaces is told of the pod alone
        pass
    return f"there is no {wanted.kind.word} {wanted.namespace}/{wanted.name} in this cluster"


def _namespace(cluster: Cluster, name: str) -> tuple[Namespace, str]:
    found, problem = attempt(lambda: cluster.ask(cluster.api.namespace(name)), None)
    if found is None:
        return Namespace(name, known=False), problem
    metadata = found.get("metadata") or {}
    return Namespace(name, metadata.get("labels") or {}, metadata.get("annotations") or {}), ""


def _schedulers(cluster: Cluster) -> tuple[bytes | None, str]:
    """The Deployments of HAMi's schedulers, as a list in JSON; or ``None``, and why."""
    found, problem = attempt(lambda: cluster.ask(cluster.api.hami_schedulers()), None)
    if found is None:
        return None, problem or NO_ANSWER
    return msgspec.json.encode({"items": found}), ""


def _facts(cluster: Cluster, pod: Pod, schedulers: bytes | None) -> ClusterFacts:
    """The versions of Kubernetes and HAMi, as far as the cluster tells them, and which resources claims serve.

    The latter is not asked for a pod that has a node: its own status and annotations tell whether claims served it.
    """
    source = "the version of the API server"
    kubernetes, _ = attempt(lambda: Version.parse(cluster.ask(cluster.api.version()), source=source), None)
    hami, _ = attempt(lambda: _hami(schedulers), None)
    if pod.spec and pod.spec.node_name:
        return ClusterFacts(hami=hami, kubernetes=kubernetes)
    found, _ = attempt(lambda: claimed_resources(to_json({"items": cluster.ask(cluster.api.device_classes())})), None)
    claimed, has_hami_dra = found or (None, False)
    return ClusterFacts(hami=hami, kubernetes=kubernetes, claimed=claimed, has_hami_dra=has_hami_dra)


def _hami(schedulers: bytes | None) -> Version | None:
    """HAMi's version; ``None`` where its Deployments are not there, or not known.

    Raises:
        FormatError: they do not tell it.
    """
    return hami_version(schedulers) if schedulers is not None and scheduler_accounts(schedulers) else None


def _registered(cluster: Cluster, name: str) -> _Registered:
    read, problem = attempt(lambda: (cluster.ask(cluster.api.mutating_webhooks(name)),), None)
    return _Registered(name, read[0] if read else None, "" if read else problem or NO_ANSWER)


def _reviews(registered: _Registered, pod: Pod, schedulers: bytes | None, not_listed: str) -> BindingReviews:
    """Whether the API server asks the webhook about the Bindings of whoever schedules the pod.

    Those are the Deployments of HAMi's schedulers, and for a pod that gets its devices by claims kube-scheduler.
    """
    registration, found, unread = registered
    accounts: tuple[str, ...] | None = (_KUBE_SCHEDULER,)
    if _is_of_kube_scheduler(pod):
        not_listed = ""
    else:
        accounts, _ = attempt(lambda: tuple(scheduler_accounts(schedulers)) if schedulers else None, None)
    if accounts is None or unread:
        said = "; ".join(filter(None, (not_listed, unread))) or NO_ANSWER
        return BindingReviews(configuration=registration, problem=said)
    if found is None:
        return BindingReviews(configuration=registration, is_registered=False)
    about, problem = attempt(lambda: asked_about(found, accounts), None)
    if about is None:
        return BindingReviews(configuration=registration, problem=problem or _NOT_READABLE)
    return BindingReviews(
        configuration=registration, asked=about.asked, passed_by=about.passed_by, unclear=about.unclear
    )


def _is_of_kube_scheduler(pod: Pod) -> bool:
    spec = pod.spec or PodSpec()
    return pod.has_claims and spec.scheduler_name in (None, "", names.DEFAULT_SCHEDULER)


def _may_wait(pod: Pod) -> bool:
    """Whether it matters to the pod that a planner is alive: it has no node, and the webhook has prepared it."""
    spec = pod.spec or PodSpec()
    is_ours = names.INJECTED in pod.annotations or names.PLACEMENT in pod.labels
    return not spec.node_name and (is_ours or names.PLACE_GATE in spec.scheduling_gates)


def _planner(cluster: Cluster, registered: _Registered) -> PlannerSigns:
    """Whether a planner is alive, by its Lease in the namespace of the webhook, which the registration names."""
    if registered.problem or registered.found is None:
        there_is_none = f"there is no MutatingWebhookConfiguration {registered.name}, which names its namespace"
        return PlannerSigns(problem=registered.problem or there_is_none)
    configuration = registered.found
    namespace, problem = attempt(lambda: namespace_of(configuration), "")
    if not namespace:
        by_url = f"MutatingWebhookConfiguration {registered.name} names no Service, and so no namespace"
        return PlannerSigns(problem=problem or by_url)
    read, problem = attempt(lambda: (cluster.ask(cluster.api.lease(namespace, names.PLANNER_LEASE)),), None)
    if read is None:
        return PlannerSigns(problem=problem or NO_ANSWER)
    return planner_signs(read[0], f"{namespace}/{names.PLANNER_LEASE}", at=datetime.now(UTC))


def _group(cluster: Cluster, pod: Pod, group: str) -> tuple[tuple[Pod, ...] | None, str]:
    namespace = (pod.metadata.namespace if pod.metadata else None) or ""
    found, problem = attempt(lambda: cluster.ask(cluster.api.pods(namespace, label=f"{names.GROUP}={group}")), None)
    if found is None:
        return None, problem
    source = f"a pod of group {group}"
    pods = [read_pod(to_json(document, source), source) for document in found]
    return tuple(other for other in pods if other.display_name != pod.display_name), ""


def _node(cluster: Cluster, name: str) -> tuple[Sources, Reading]:
    node, problem = attempt(lambda: _node_if_there(cluster, name), None)
    published, reading = _published(cluster, name, node)
    annotated, _ = attempt(lambda: _annotated(node), None) if node else (None, "")
    problems = "; ".join(filter(None, (reading.node_problem, problem)))
    return replace(published, annotated=annotated), msgspec.structs.replace(reading, node_problem=problems)


def _node_if_there(cluster: Cluster, name: str) -> Object:
    try:
        return cluster.ask(cluster.api.node(name))
    except NotFound as error:
        raise NotFound(f"there is no node {name} in this cluster", status=error.status) from None


def _published(cluster: Cluster, name: str, node: Object | None) -> tuple[Sources, Reading]:
    """What the agent published, and how many seconds ago it was true; the agent's Lease says that.

    All namespaces are looked through, and only what the Node owns is believed, by its uid, if that may be read.
    """
    found, problem = attempt(
        lambda: cluster.ask(cluster.api.config_maps(label=f"{names.NODE}={node_label(name)}")), _NONE
    )
    if uid := (node or {}).get("metadata", {}).get("uid"):
        found = [document for document in found if is_owned_by(document, uid)]
    if not found:
        return Sources(), Reading(node_problem=problem)
    if len(found) > 1:
        complain(f"gpu-topology: {len(found)} ConfigMaps say that they are of node {name}; the first is taken")
    manifest: Object = {"apiVersion": "v1", "kind": "ConfigMap"} | found[0]  # the items of a list say neither
    topology, _ = attempt(lambda: topology_of_config_map(manifest, _SOURCE), None)
    if topology is None or topology.node != name:
        return Sources(), Reading()
    found_of_lease, problem = _of_lease(cluster, manifest["metadata"])
    known = KnownNode(topology, origin=Origin.AGENT)
    return replace(found_of_lease, published=known), Reading(age_problem=problem)


def _of_lease(cluster: Cluster, metadata: Object) -> tuple[Sources, str]:
    """When the agent was heard of, for how long it vouches with it, and what its GPUs did; or why that is not known."""
    where = f"{metadata['namespace']}/{metadata['name']}"
    lease, problem = attempt(lambda: cluster.ask(cluster.api.lease(metadata["namespace"], metadata["name"])), None)
    renewed = renewed_at(lease) if lease else None
    if lease is None or renewed is None:
        return Sources(), problem or f"there is no Lease {where} that says it"
    age = (datetime.now(UTC) - renewed).total_seconds()
    return Sources(age=age, lasts=lasts(lease), traffic=_traffic(lease, where)), ""


def _traffic(lease: Object, where: str) -> Traffic | None:
    text = (lease["metadata"].get("annotations") or {}).get(names.TRAFFIC)
    if text is None:
        return None
    found, _ = attempt(lambda: parse_traffic(text, f"annotation {names.TRAFFIC} of Lease {where}"), None)
    return found


def _annotated(node: Object) -> KnownNode | None:
    if names.HAMI_NODE_REGISTER not in (node.get("metadata", {}).get("annotations") or {}):
        return None
    return KnownNode(topology_of_node(node, _SOURCE), origin=Origin.HAMI)
