"""The remap container as a real API server keeps it, and what it does with what it is told there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import Served, created, gpu_container, gpu_pod, served
from tests.control_plane.scheduling import allocate, bind, stored_pod
from tests.hardware.topology.machines import H20_UUIDS
from tests.nvml.machines import h20
from tests.nvml.stub import nvml_library
from tests.pods import effective_env
from tests.programs.remap.processes import Node
from webhook.cli.demo.cluster import environment_of

__all__ = ["nvml_library"]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("for_module")]

OURS = "gpu-topology-remap"
PEERS = (gpu_container("prefill"), gpu_container("decode"))
GIVEN = (), (6, 3), (1, 4)
OWN = [H20_UUIDS[index] for index in (1, 3, 4, 6)]
FOREIGN = [H20_UUIDS[index] for index in (0, 2, 5, 7)]


@pytest.fixture(scope="module")
def for_module(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Our server, in whose eyes no namespace may see every GPU of a node; the configuration asks for the file."""
    labels = {"gpu.topology/allow-node-gpus": "false"}
    config = "remap: {environment: file}\n"
    with served(control_plane, tmp_path_factory.mktemp("served"), config=config, labels=labels) as found:
        yield found


@pytest.fixture
def node(nvml_library: Path, tmp_path: Path) -> Node:
    """The machine on which the pod starts."""
    return Node(nvml_library, tmp_path, h20())


def bound(control_plane: ControlPlane, admin: CoreV1Api, namespace: str, options: dict[str, str]) -> dict[str, Any]:
    """A pod with four cards of the node, as the kubelet gets it."""
    created(control_plane, namespace, gpu_pod("serve", options, *PEERS))
    allocate(admin, namespace, "serve", *GIVEN)
    bind(admin, namespace, "serve")
    return stored_pod(admin, namespace, "serve")


@pytest.mark.parametrize("carrier", ["init", "sidecar"])
@pytest.mark.parametrize("profile", ["exclusive", "pod-peers"])
def test_it_is_told_of_the_cards_of_its_pod_and_no_others(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str, node: Node, profile: str, carrier: str
) -> None:
    pod = bound(control_plane, admin, namespace, {"gpu.topology/profile": profile, "gpu.topology/remap": carrier})
    seen = effective_env(pod, OURS)["NVIDIA_VISIBLE_DEVICES"]
    assert seen["fieldRef"]["fieldPath"] == "metadata.annotations['gpu.topology/visible-uuids']"
    assert pod["metadata"]["annotations"]["gpu.topology/visible-uuids"] == ",".join(OWN)
    for name in ("ready", "env", "nccl-topo.xml", "report.txt"):
        (node.shared / name).symlink_to(node.shared / "theirs")
    done = node.remap(environment_of(pod["spec"]["initContainers"][0], pod))
    assert (done.code, done.err) == (0, "")
    assert "warning" not in done.out
    assert all(uuid in done.out for uuid in OWN)
    assert not any(uuid in done.out for uuid in FOREIGN)
    assert node.files() == ["env", "nccl-topo.xml", "report.txt"]


@pytest.mark.parametrize("carrier", ["init", "sidecar"])
def test_before_the_binding_it_sees_nothing_whatever_the_user_wrote(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str, carrier: str
) -> None:
    forged = {"gpu.topology/remap": carrier, "gpu.topology/visible-uuids": "all"}
    created(control_plane, namespace, gpu_pod("serve", forged))
    pod = stored_pod(admin, namespace, "serve")
    assert pod["metadata"]["annotations"]["gpu.topology/visible-uuids"] == "none"
    seen = effective_env(pod, OURS)["NVIDIA_VISIBLE_DEVICES"]
    assert seen["fieldRef"]["fieldPath"] == "metadata.annotations['gpu.topology/visible-uuids']"
