"""``gpu-topology topology plan --kubeconfig`` at a real API server, as a person with no more rights than it needs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from tests.cli.command import Done, gpu_topology
from tests.control_plane.accounts import permitted, without
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.hami.nodes import create_node, node_manifest
from tests.control_plane.registration import created, gpu_container, gpu_pod
from tests.control_plane.scheduling import delete_waiting
from tests.control_plane.test_explain import publish
from tests.hardware.topology.machines import a100_pcie_bridged
from webhook.cluster.api.permissions import PLAN, Permission, Scope
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology

pytestmark = pytest.mark.cluster


@dataclass(frozen=True)
class Site:
    """A node of four A100 with two bridged pairs, and a person."""

    control_plane: ControlPlane
    admin: CoreV1Api
    namespace: str
    topology: NodeTopology
    kubeconfig: Path

    @property
    def node(self) -> str:
        return self.topology.node

    def hold(self, name: str, *cards: int) -> None:
        """A pod with these cards, as HAMi gives them."""
        pod = gpu_pod(name, {}, gpu_container(gpus=len(cards)))
        devices = "".join(f"{self.topology.gpus[card].uuid},NVIDIA,40960,100:" for card in cards)
        given = {"hami.io/vgpu-node": self.node, "hami.io/vgpu-devices-allocated": f"{devices};"}
        pod["metadata"]["annotations"] = given
        created(self.control_plane, self.namespace, pod)

    def plan(self, gpus: int, *options: str) -> Done:
        return gpu_topology(
            "topology", "plan", "--gpus", str(gpus), "--kubeconfig", self.kubeconfig, "--node", self.node, *options
        )


MakeSite = Callable[[tuple[Permission, ...]], Site]


@pytest.fixture
def make_site(admin: CoreV1Api, control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[MakeSite]:
    """Makes a node, what its agent published, and a person with these permissions."""
    delete_waiting(admin)
    nodes = []

    def make(permissions: tuple[Permission, ...]) -> Site:
        found = a100_pcie_bridged()
        gpus = tuple(replace(gpu, uuid=f"GPU-{namespace}.{gpu.index}") for gpu in found.gpus)
        topology = replace(found, node=f"node-of-{namespace}", gpus=gpus)
        create_node(admin, topology)
        nodes.append(topology.node)
        status: Any = {"status": node_manifest(topology)["status"]}
        admin.patch_node_status(topology.node, status)
        publish(control_plane, namespace, topology, tmp_path / "agent.log")
        kubeconfig = permitted(admin, control_plane, namespace, "person", permissions)
        return Site(control_plane, admin, namespace, topology, kubeconfig)

    yield make
    for node in nodes:
        admin.delete_node(node)


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    """A person with exactly the permissions of the list."""
    return make_site(PLAN)


def test_a_job_would_get_the_free_pair_that_is_linked(site: Site) -> None:
    site.hold("slice", 3)
    done = site.plan(2)
    assert (done.code, done.err) == (0, ""), done.err
    first = f"A job of 2 GPUs gets GPU0 and GPU1 of node {site.node} (NVIDIA A100 80GB PCIe).\nNVLink: every"
    assert done.out.startswith(first)
    row = next(line for line in done.out.splitlines() if line.startswith(site.node))
    assert row.split("  ") == [site.node, "3 of 4: 0-2", "0, 1 (NVLink, 240 GB/s)", f"{site.namespace}/slice", "chosen"]
    site.hold("pair", 0, 1)
    done = site.plan(2)
    assert (done.code, f"{site.node}  1 of 4: 2" in done.out) == (1, True)
    assert done.err == "gpu-topology: no node has 2 free GPUs that the job could get\n"


@pytest.mark.parametrize("resource", ["pods", "nodes"])
def test_without_pods_or_nodes_there_is_no_answer(make_site: MakeSite, resource: str) -> None:
    done = make_site(without(PLAN, Scope.CLUSTER, resource, "list")).plan(2)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"gpu-topology: list {resource}: {resource} is forbidden: ")
    assert done.err.endswith(
        "(403). Have an administrator bind the ClusterRole gpu-topology-reader of the chart to you\n"
    )


@pytest.mark.parametrize("resource", ["configmaps", "leases"])
def test_without_what_the_agents_say_only_hami_tells_of_links(make_site: MakeSite, resource: str) -> None:
    done = make_site(without(PLAN, Scope.CLUSTER, resource, "list")).plan(2)
    assert f"gpu-topology: left out: list {resource}: {resource}" in done.err
    assert f"Without {resource} only HAMi's annotations tell of links\n" in done.err
    assert "240 GB/s" not in done.out


def test_what_was_taken_away_is_all_that_is_needed() -> None:
    assert [one.resource for one in PLAN] == ["pods", "nodes", "configmaps", "leases"]
    assert {one.verbs for one in PLAN} == {("list",)}


def test_a_node_of_the_cluster_is_shown_as_its_agent_published_it(site: Site) -> None:
    show = ("topology", "show", "--kubeconfig", site.control_plane.kubeconfig, "-o", "json", "--node")
    shown = gpu_topology(*show, site.node)
    assert (shown.code, shown.err) == (0, "")
    assert parse_topology(shown.out, source="show") == site.topology
    missing = gpu_topology(*show, "no-such-node")
    assert (missing.code, missing.err) == (1, "gpu-topology: there is no node no-such-node in this cluster\n")
