"""``gpu-topology explain`` at a real API server, as a person who may do no more than it says it needs."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import (
    AdmissionregistrationV1Api,
    AppsV1Api,
    CoordinationV1Api,
    CoreV1Api,
    NodeV1Api,
    V1Lease,
    V1LeaseSpec,
    V1Node,
    V1ObjectMeta,
    V1RuntimeClass,
)

from tests.cli.command import Done, gpu_topology
from tests.control_plane.accounts import permitted, without
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import PERMISSIONS, created, gpu_pod, registered
from tests.control_plane.scheduling import allocate, bind
from tests.decisions.test_detection import deployment
from tests.hardware.topology.machines import h20
from tests.programs.agent.waking import wake
from webhook.cluster.api.permissions import EXPLAIN, Permission, Scope
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.publication import PublishOptions
from webhook.programs.agent.rounds import Agent, Clock
from webhook.programs.agent.run import connect_agent

pytestmark = pytest.mark.cluster

GROUP = {"gpu.topology/group": "serving"}


@dataclass(frozen=True)
class Site:
    """A node with its agent, and a person in the namespace."""

    control_plane: ControlPlane
    admin: CoreV1Api
    namespace: str
    topology: NodeTopology
    kubeconfig: Path

    @property
    def node(self) -> str:
        return self.topology.node

    def create(self, name: str, annotations: dict[str, str], **labels: str) -> None:
        created(self.control_plane, self.namespace, gpu_pod(name, annotations, **labels))

    def bind(self, name: str, *containers: tuple[int, ...]) -> None:
        allocate(self.admin, self.namespace, name, *containers, node=self.node)
        bind(self.admin, self.namespace, name, node=self.node)

    def explain(self, name: str, *options: str) -> Done:
        pod = f"{self.namespace}/{name}"
        return gpu_topology(
            "explain", pod, "-v", "--kubeconfig", self.kubeconfig, *(options or ("--hami-version", "2.9.0"))
        )


MakeSite = Callable[[tuple[Permission, ...]], Site]


@pytest.fixture
def make_site(admin: CoreV1Api, control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[MakeSite]:
    """Makes a node, what its agent published, and a person with these permissions."""
    nodes = []

    def make(permissions: tuple[Permission, ...]) -> Site:
        topology = replace(h20(), node=f"node-of-{namespace}")
        admin.create_node(V1Node(metadata=V1ObjectMeta(name=topology.node)))
        nodes.append(topology.node)
        labels = {"gpu.topology/injection": "enabled", **PERMISSIONS}
        admin.patch_namespace(namespace, {"metadata": {"labels": labels}})
        publish(control_plane, namespace, topology, tmp_path / "agent.log")
        kubeconfig = permitted(admin, control_plane, namespace, "person", permissions)
        return Site(control_plane, admin, namespace, topology, kubeconfig)

    yield make
    for node in nodes:
        admin.delete_node(node)


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    """A person with exactly the permissions of the list."""
    return make_site(EXPLAIN)


def publish(control_plane: ControlPlane, namespace: str, topology: NodeTopology, log: Path) -> None:
    """One round of the agent: ConfigMap and Lease."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT)
    agent = Agent(
        topology.node,
        PublishOptions(namespace=namespace, cordon=False),
        interval=60.0,
        discover=lambda: topology,
        connect=partial(connect_agent, control_plane.kubeconfig),
        log=AgentLog(descriptor, node=topology.node),
        clock=Clock(monotonic=lambda: 0.0, now=lambda: datetime.now(UTC), jitter=lambda: 0.5),
    )
    wake(agent)
    os.close(descriptor)
    assert agent.status.failure == ""


def test_a_pod_that_is_injected_and_bound_has_everything(site: Site, tmp_path: Path) -> None:
    with registered(site.control_plane, site.namespace, tmp_path, topology=site.topology):
        for name, cards in (("prefill", (1, 0)), ("decode", (6, 3))):
            site.create(name, {"gpu.topology/profile": "node-peers", **GROUP})
            site.bind(name, (), cards)
    done = site.explain("decode")
    assert (done.code, done.err) == (3, ""), done.out
    assert done.out.startswith(f"NVLink: unknown, pod {site.namespace}/decode on node {site.node}: ")
    assert f"opted-in: namespace {site.namespace} has opted in" in done.out
    assert f"allocation: node {site.node} gives GPU3 and GPU6 to container worker" in done.out
    assert f"node-topology: the agent of node {site.node} published it" in done.out
    assert "links: every pair of GPU0, GPU1, GPU3 and GPU6 has NVLink: link class NVSwitch" in done.out
    assert f"same-node: prefill of group serving on node {site.node} too" in done.out
    assert "FAIL" not in done.out


@pytest.mark.parametrize("is_named", [True, False])
def test_a_scheduler_of_hami_in_a_namespace_of_its_own_is_seen_to_reach_the_webhook_or_not(
    site: Site, tmp_path: Path, *, is_named: bool
) -> None:
    account = f"system:serviceaccount:{site.namespace}:default"
    config = tmp_path / "config.yaml"
    config.write_text(f"certificates: {{webhookConfiguration: gpu-topology-webhook-{site.namespace}}}\n")
    scheduler = account if is_named else "system:serviceaccount:hami-system:hami-scheduler"
    with (
        hami_scheduler(site.admin, site.namespace),
        registered(site.control_plane, site.namespace, tmp_path, topology=site.topology, scheduler=scheduler),
    ):
        site.create("train", {})
        done = site.explain("train", "--config", str(config))
    assert done.err == ""
    assert "HAMi 2.9.0 finds CUDA_DISABLE_CONTROL" in done.out
    if is_named:
        assert f"ok   binding-reviewed: the API server asks the webhook about Bindings by {account}" in done.out
    else:
        assert f"binding-reviewed: the API server does not ask the webhook about Bindings by {account}" in done.out
        assert f"admission.bindings.schedulers of the webhook's chart: {site.namespace}/default." in done.out


@contextmanager
def hami_scheduler(admin: CoreV1Api, namespace: str) -> Iterator[None]:
    """The Deployment of HAMi's scheduler 2.9.0, which runs as the service account ``default``."""
    labels = {"app": "hami"}
    manifest: Any = {"apiVersion": "apps/v1", "kind": "Deployment"} | deployment("projecthami/hami:v2.9.0")
    manifest["metadata"]["namespace"] = namespace
    manifest["spec"]["selector"] = {"matchLabels": labels}
    manifest["spec"]["template"]["metadata"] = {"labels": labels}
    apps = AppsV1Api(admin.api_client)
    apps.create_namespaced_deployment(namespace, manifest)
    try:
        yield
    finally:
        apps.delete_namespaced_deployment("hami-scheduler", namespace)


def test_without_the_permission_to_get_the_pod_there_is_nothing_to_explain(make_site: MakeSite) -> None:
    site = make_site(without(EXPLAIN, Scope.CLUSTER, "pods", "get"))
    site.create("slow", {})
    done = site.explain("slow")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f'gpu-topology: get pod {site.namespace}/slow: pods "slow" is forbidden: '
        f'User "system:serviceaccount:{site.namespace}:person" cannot get resource "pods" in API group "" '
        f'in the namespace "{site.namespace}" (403). '
        "Have an administrator bind the ClusterRole gpu-topology-reader of the chart to you\n"
    )


@pytest.mark.parametrize(
    ("resource", "verb", "what", "finding"),
    [
        ("pods", "list", "list pods of {namespace} with gpu.topology/group=serving", "same-node"),
        ("namespaces", "get", "get namespace {namespace}", "opted-in: the namespace is not known here"),
        ("nodes", "get", "get node {node}", "the agent of node {node} published it"),
        (
            "configmaps",
            "list",
            "list ConfigMaps with gpu.topology/node={node}",
            "the topology of node {node} is not known",
        ),
        (
            "leases",
            "get",
            "get Lease {namespace}/gpu-topology-{node}",
            "node-topology: the agent of node {node} published",
        ),
        ("deployments", "list", "list Deployments of HAMi's scheduler", "binding-reviewed: only"),
        (
            "mutatingwebhookconfigurations",
            "get",
            "get MutatingWebhookConfiguration gpu-topology-webhook",
            "binding-reviewed: only",
        ),
    ],
)
def test_what_may_not_be_read_is_left_out_with_a_sentence(
    make_site: MakeSite, resource: str, verb: str, what: str, finding: str
) -> None:
    site = make_site(without(EXPLAIN, Scope.CLUSTER, resource, verb))
    site.create("slow", {"gpu.topology/profile": "node-peers"}, **GROUP)
    site.bind("slow", (2, 5))
    done = site.explain("slow")
    assert done.code == 3
    note, role = done.err.splitlines()
    assert "ClusterRole gpu-topology-reader" in role
    place = {"namespace": site.namespace, "node": site.node}
    assert note.startswith(f"gpu-topology: left out: {what.format(**place)}: {resource}")
    assert f'"system:serviceaccount:{site.namespace}:person" cannot {verb} resource "{resource}"' in note
    assert note.endswith("(403)")
    assert finding.format(**place) in done.out, done.out


def test_what_was_taken_away_is_all_that_is_needed() -> None:
    assert [(one.resource, one.verbs) for one in EXPLAIN] == [
        ("pods", ("get", "list")),
        ("namespaces", ("get",)),
        ("nodes", ("get",)),
        ("configmaps", ("list",)),
        ("leases", ("get",)),
        ("deployments", ("list",)),
        ("mutatingwebhookconfigurations", ("get",)),
        ("runtimeclasses", ("get",)),
        ("deviceclasses", ("list",)),
        ("resourceclaims", ("get",)),
        ("resourceclaimtemplates", ("get",)),
        ("resourceslices", ("list",)),
    ]


LEASE = "gpu-topology-place"
WAITING = {"gpu.topology/placement": "waiting"}


def create_waiting(site: Site, name: str) -> None:
    """A pod behind the gate, about which the planner has said something."""
    pod = gpu_pod(name, {}, **WAITING)
    pod["spec"]["schedulingGates"] = [{"name": "gpu.topology/place"}]
    created(site.control_plane, site.namespace, pod)
    placed = {"type": "gpu.topology/Placed", "status": "False", "reason": "NoFreeCards", "message": "GT621: a is full"}
    site.admin.patch_namespaced_pod_status(name, site.namespace, {"status": {"conditions": [placed]}})


@contextmanager
def planner(site: Site, renewed: datetime) -> Iterator[str]:
    """A planner's Lease, and a registration that names its namespace; yields a configuration that names that."""
    leases = CoordinationV1Api(site.admin.api_client)
    spec = V1LeaseSpec(holder_identity="planner-0", lease_duration_seconds=15, renew_time=renewed)
    leases.create_namespaced_lease(site.namespace, V1Lease(metadata=V1ObjectMeta(name=LEASE), spec=spec))
    name = f"planner-of-{site.namespace}"
    service = {"namespace": site.namespace, "name": "gpu-topology-webhook"}
    webhook = {"name": "none.gpu.topology", "clientConfig": {"service": service}, "rules": []}
    webhook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"]}
    api = AdmissionregistrationV1Api(site.admin.api_client)
    body: Any = {"metadata": {"name": name}, "webhooks": [webhook]}
    api.create_mutating_webhook_configuration(body)
    try:
        yield f"certificates: {{webhookConfiguration: {name}}}\nplacement: {{mode: 'on'}}\n"
    finally:
        api.delete_mutating_webhook_configuration(name)


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_pod_that_waits_for_its_cards_says_for_what_and_for_whom(
    site: Site, tmp_path: Path, *, is_alive: bool
) -> None:
    create_waiting(site, "train")
    config = tmp_path / "config.yaml"
    with planner(site, datetime.now(UTC) - timedelta(hours=0 if is_alive else 3)) as text:
        config.write_text(text)
        done = site.explain("train", "--config", str(config))
    assert done.err == ""
    waits = "placement: the pod waits behind the scheduling gate gpu.topology/place for "
    assert waits in done.out, done.out
    gone = f"no planner is alive: Lease {site.namespace}/{LEASE} was renewed 3 hours ago"
    assert (gone in done.out, "s: a is full (GT621)" in done.out) == (not is_alive, is_alive)


def test_what_claims_serve_is_asked_of_a_pod_without_a_node_only(make_site: MakeSite) -> None:
    site = make_site(without(EXPLAIN, Scope.CLUSTER, "deviceclasses", "list"))
    site.create("slow", {})
    note, _ = site.explain("slow").err.splitlines()
    assert note.startswith("gpu-topology: left out: list DeviceClasses: deviceclasses.resource.k8s.io is forbidden")
    site.bind("slow", (2, 5))
    assert site.explain("slow").err == ""


@contextmanager
def runtime_class(site: Site) -> Iterator[str]:
    api, name = NodeV1Api(site.admin.api_client), f"nvidia-{site.namespace}"
    api.create_runtime_class(V1RuntimeClass(handler="nvidia", metadata=V1ObjectMeta(name=name)))
    try:
        yield name
    finally:
        api.delete_runtime_class(name)


def test_a_runtime_class_that_is_gone_is_told_of_the_pod_that_names_it(site: Site) -> None:
    pod = gpu_pod("train", {})
    with runtime_class(site) as name:
        pod["spec"]["runtimeClassName"] = name
        created(site.control_plane, site.namespace, pod)
        done = site.explain("train")
        assert (done.err, "GT816" in done.out) == ("", False)
    done = site.explain("train")
    assert done.err == ""
    assert f"start: RuntimeClass {name}, which the pod names, does not exist" in done.out


def test_without_the_permission_nothing_is_said_of_the_runtime_class(make_site: MakeSite) -> None:
    site = make_site(without(EXPLAIN, Scope.CLUSTER, "runtimeclasses", "get"))
    pod = gpu_pod("train", {})
    with runtime_class(site) as name:
        pod["spec"]["runtimeClassName"] = name
        created(site.control_plane, site.namespace, pod)
    done = site.explain("train")
    assert done.err.startswith(f"gpu-topology: left out: get RuntimeClass {name}: runtimeclasses.node.k8s.io ")
    assert "GT816" not in done.out
