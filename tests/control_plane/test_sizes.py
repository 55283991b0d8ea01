"""The largest annotations that we write, at a real API server."""

from dataclasses import replace
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import created, gpu_pod, registered
from tests.control_plane.scheduling import NODE, allocate, bind, stored
from tests.hardware.topology.machines import h20
from webhook.hardware.topology.document import format_topology, parse_topology
from webhook.hardware.topology.model import NodeTopology

pytestmark = pytest.mark.cluster

KIB = 1024


def large(size: int) -> NodeTopology:
    """A node whose written form has so many bytes: of text, of which one member takes 4,096 characters at most."""
    node = replace(h20(), driver_version="5")
    cpu = replace(node.cpus[0], affinity=",".join(map(str, range(0, 1600, 2))))
    while size - len(format_topology(node)) > 5000:
        node = replace(node, cpus=(*node.cpus, replace(cpu, numa_node=100 + len(node.cpus))))
    missing = size - len(format_topology(node))
    node = replace(node, cuda_version="5" * (missing // 2))
    return replace(node, driver_version="5" * (1 + size - len(format_topology(node))))


def bound(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str, directory: Path, topology: NodeTopology
) -> dict[str, str]:
    """The annotations of a pod that is bound to this node."""
    with registered(control_plane, namespace, directory, topology=topology):
        created(control_plane, namespace, gpu_pod("train", {}))
        allocate(admin, namespace, "train", (), (2, 5))
        bind(admin, namespace, "train")
    node, annotations = stored(admin, namespace, "train")
    assert (node, annotations["gpu.topology/link"]) == (NODE, "NVSwitch")
    return annotations


def runs(admin: CoreV1Api, namespace: str) -> bool:
    """Whether the kubelet can say so of the pod."""
    admin.patch_namespaced_pod_status("train", namespace, {"status": {"phase": "Running"}})
    status = admin.read_namespaced_pod("train", namespace).status
    return bool(status and status.phase == "Running")


def test_the_kubelet_can_tell_the_status_of_a_pod_with_the_largest_topology(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str, tmp_path: Path
) -> None:
    topology = large(96 * KIB)
    written = bound(control_plane, admin, namespace, tmp_path, topology)["gpu.topology/node-topology"]
    assert len(written) == 98_304
    assert parse_topology(written, source="test") == topology
    assert runs(admin, namespace)


def test_a_pod_whose_own_annotations_leave_no_room_still_gets_its_status(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str, tmp_path: Path
) -> None:
    """Binding does not check the limit of 256 KiB, every later change of the pod does."""
    with registered(control_plane, namespace, tmp_path, topology=large(96 * KIB)):
        created(control_plane, namespace, gpu_pod("train", {"team.example/notes": "x" * 200 * KIB}))
        allocate(admin, namespace, "train", (), (2, 5))
        bind(admin, namespace, "train")
    assert runs(admin, namespace)
