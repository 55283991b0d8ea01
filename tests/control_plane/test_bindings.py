"""Admission and bind between a real API server and a pod: what ends up in etcd is what the kubelet would read."""

import json
from collections.abc import Callable

import pytest
from kubernetes.client import ApiException, CoreV1Api, EventsV1Api

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import created, gpu_pod
from tests.control_plane.scheduling import NODE, allocate, bind, stored
from tests.programs.server.conftest import RunningServer, until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("h20_node", "webhook")]

REMAP = ()  # HAMi 2.9 counts our init container
Create = Callable[[str, dict[str, str]], None]


@pytest.fixture
def create(control_plane: ControlPlane, namespace: str) -> Create:
    """Creates a pod with two GPUs and these annotations."""

    def make(name: str, annotations: dict[str, str]) -> None:
        created(control_plane, namespace, gpu_pod(name, annotations))

    return make


def test_prefill_and_decode_are_bound_with_the_indices_of_their_cards(
    admin: CoreV1Api, namespace: str, create: Create, webhook: RunningServer
) -> None:
    profile, before = {"gpu.topology/profile": "node-peers"}, resolved(webhook)
    for name, cards, expected in (("prefill", (1, 0), "0,1"), ("decode", (6, 3), "3,6")):
        create(name, profile)
        assert stored(admin, namespace, name)[1]["gpu.topology/cuda-visible-devices.0"] == "-1"
        allocate(admin, namespace, name, REMAP, cards)
        bind(admin, namespace, name)
        node, annotations = stored(admin, namespace, name)
        assert node == NODE
        assert annotations["gpu.topology/cuda-visible-devices.0"] == expected
        assert annotations["gpu.topology/nccl-p2p-level"] == "auto"
        assert json.loads(annotations["gpu.topology/node-topology"])["node"] == NODE
    assert resolved(webhook) == before + 2


def resolved(webhook: RunningServer) -> float:
    """Bindings of peers to which it has added values."""
    name = 'gpu_topology_bindings_total{outcome="patch",profile="node-peers",reason="resolved"} '
    lines = webhook.probe("/metrics").text.splitlines()
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def test_a_dry_run_changes_nothing(admin: CoreV1Api, namespace: str, create: Create) -> None:
    create("train", {})
    allocate(admin, namespace, "train", REMAP, (2, 5))
    bind(admin, namespace, "train", dry_run="All")
    node, annotations = stored(admin, namespace, "train")
    assert node is None
    assert "gpu.topology/link" not in annotations


def test_a_denied_binding_leaves_the_pod_unbound_and_says_why(
    admin: CoreV1Api, control_plane: ControlPlane, namespace: str, create: Create
) -> None:
    create("train", {"gpu.topology/min-bandwidth": "500", "gpu.topology/on-violation": "deny"})
    allocate(admin, namespace, "train", REMAP, (0, 1))
    with pytest.raises(ApiException, match=r"min-bandwidth 500: GPU0 and GPU1 have 370\.8 GB/s") as info:
        bind(admin, namespace, "train")
    assert info.value.status == 403
    assert stored(admin, namespace, "train")[0] is None

    def told() -> bool:
        with control_plane.client() as client:
            events = EventsV1Api(client).list_namespaced_event(namespace).items
        return [(event.reason, event.regarding and event.regarding.name) for event in events] == [
            ("RequirementNotMet", "train")
        ]

    until(told, "an Event on the pod")
