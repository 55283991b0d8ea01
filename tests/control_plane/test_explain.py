"""``gpu-topology explain`` at a real API server, as a person who may do no more than it says it needs."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api, V1Node, V1ObjectMeta

from tests.cli.command import Done, gpu_topology
from tests.control_plane.accounts import permitted, without
from tests.control_plane.agents import publish
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import PERMISSIONS, created, gpu_pod, registered
from tests.control_plane.scheduling import allocate, bind
from tests.hardware.topology.machines import h20
from webhook.cluster.api.permissions import EXPLAIN, Permission, Scope
from webhook.hardware.topology.model import NodeTopology

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

    def explain(self, name: str) -> Done:
        pod = f"{self.namespace}/{name}"
        return gpu_topology("explain", pod, "-v", "--kubeconfig", self.kubeconfig, "--hami-version", "2.9.0")


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


def test_a_pod_that_is_injected_and_bound_has_everything(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site(EXPLAIN)
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


def test_what_may_not_be_read_is_left_out_with_a_sentence(make_site: MakeSite) -> None:
    optional = tuple(each for each in EXPLAIN if each.resource == "pods")
    site = make_site(without(optional, Scope.CLUSTER, "pods", "list"))
    site.create("slow", {"gpu.topology/profile": "node-peers"}, **GROUP)
    site.bind("slow", (2, 5))
    done = site.explain("slow")
    assert done.code == 3
    *notes, role = done.err.splitlines()
    assert "ClusterRole gpu-topology-reader" in role
    assert all(note.startswith("gpu-topology: left out: ") and note.endswith("(403)") for note in notes)
    assert set(re.findall(r'cannot (\w+) resource "(\w+)"', done.err)) >= {
        ("list", "pods"),
        ("get", "namespaces"),
        ("get", "nodes"),
        ("list", "configmaps"),
        ("list", "deployments"),
        ("get", "mutatingwebhookconfigurations"),
    }
