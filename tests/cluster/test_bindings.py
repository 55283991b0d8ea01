"""Admission and bind between a real API server and a pod: what ends up in etcd is what the kubelet would read."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import (
    AdmissionregistrationV1Api,
    ApiException,
    CoreV1Api,
    EventsV1Api,
    V1Node,
    V1ObjectMeta,
)

from tests.cluster.control_plane import ControlPlane
from tests.server.conftest import RunningServer, Starter, until
from tests.topology.machines import H20_UUIDS, h20
from webhook.topology.document import format_topology

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("node", "webhook")]

NODE = "h20-node-1"
PERMISSIONS = {f"gpu.topology/allow-{what}": "true" for what in ("host-ipc", "host-pid", "node-gpus")}


def write_state(directory: Path, namespace: str) -> Path:
    """The state directory of a cluster with one node and one namespace."""
    for part in ("namespaces", "nodes"):
        (directory / part).mkdir(parents=True)
    labels = {"gpu.topology/injection": "enabled", **PERMISSIONS}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
    (directory / "namespaces" / "team.yaml").write_text(json.dumps(manifest), encoding="utf-8")
    (directory / "nodes" / f"{NODE}.json").write_text(format_topology(h20()), encoding="utf-8")
    (directory / "cluster.yaml").write_text('hamiVersion: "2.9.0"\nkubernetesVersion: "1.36"\n', encoding="utf-8")
    return directory


def registration(server: RunningServer, namespace: str) -> dict[str, Any]:
    """The webhooks as a chart would register them, at an address in place of a Service."""
    common = {
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "failurePolicy": "Fail",
        "timeoutSeconds": 5,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }

    def webhook(name: str, path: str, resources: list[str]) -> dict[str, Any]:
        authority = base64.b64encode(server.authority.read_bytes()).decode()
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": resources}
        client = {"url": f"{server.url}{path}", "caBundle": authority}
        return common | {"name": name, "clientConfig": client, "rules": [rule]}

    return {
        "metadata": {"name": f"gpu-topology-webhook-{namespace}"},
        "webhooks": [
            webhook("pods.gpu.topology", "/mutate/pods", ["pods"]) | {"reinvocationPolicy": "IfNeeded"},
            webhook("bindings.gpu.topology", "/mutate/bindings", ["pods/binding", "bindings"]),
        ],
    }


@pytest.fixture
def node(admin: CoreV1Api) -> Iterator[None]:
    admin.create_node(V1Node(metadata=V1ObjectMeta(name=NODE)))
    yield
    admin.delete_node(NODE)


@pytest.fixture
def webhook(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[RunningServer]:
    """Our server, registered for the namespace of the test."""
    starter = Starter(tmp_path)
    state = write_state(tmp_path / "state", namespace)
    try:
        server = starter("--kubeconfig", str(control_plane.kubeconfig), state=state)
        with control_plane.client() as client:
            api = AdmissionregistrationV1Api(client)
            body: Any = registration(server, namespace)
            api.create_mutating_webhook_configuration(body)
            try:
                yield server
            finally:
                api.delete_mutating_webhook_configuration(body["metadata"]["name"])
    finally:
        starter.stop_all()


def create(admin: CoreV1Api, namespace: str, name: str, annotations: dict[str, str]) -> None:
    """A pod with two GPUs that our webhook has seen: the API server learns of the registration a moment later."""
    pod: Any = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "schedulerName": "hami-scheduler",
            "containers": [
                {"name": "worker", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}},
            ],
        },
    }

    def injected() -> bool:
        created = admin.create_namespaced_pod(namespace, pod)
        assert created.metadata is not None
        if "gpu.topology/injected" in (created.metadata.annotations or {}):
            return True
        admin.delete_namespaced_pod(name, namespace, grace_period_seconds=0)
        return False

    until(injected, "a pod that our webhook has seen")


def allocate(admin: CoreV1Api, namespace: str, name: str, *cards: int) -> None:
    """What HAMi's scheduler writes in its filter."""
    devices = "".join(f"{H20_UUIDS[card]},NVIDIA,97871,100:" for card in cards)
    said = {
        "hami.io/vgpu-node": NODE,
        "hami.io/vgpu-devices-allocated": f";{devices};",  # HAMi 2.9 counts our init container
        "hami.io/bind-phase": "allocating",
    }
    admin.patch_namespaced_pod(name, namespace, {"metadata": {"annotations": said}})


def bind(admin: CoreV1Api, namespace: str, name: str, **options: Any) -> None:
    """What HAMi's scheduler sends: no annotations, and the uid of the pod."""
    pod = admin.read_namespaced_pod(name, namespace)
    assert pod.metadata is not None
    binding: Any = {"metadata": {"name": name, "uid": pod.metadata.uid}, "target": {"kind": "Node", "name": NODE}}
    admin.create_namespaced_pod_binding(name, namespace, binding, _preload_content=False, **options)


def stored(admin: CoreV1Api, namespace: str, name: str) -> tuple[str | None, dict[str, str]]:
    """Node and annotations of a pod."""
    pod = admin.read_namespaced_pod(name, namespace)
    assert pod.metadata is not None
    assert pod.spec is not None
    return pod.spec.node_name, dict(pod.metadata.annotations or {})


def test_prefill_and_decode_are_bound_with_the_indices_of_their_cards(
    admin: CoreV1Api, namespace: str, webhook: RunningServer
) -> None:
    profile = {"gpu.topology/profile": "node-peers"}
    for name, cards, expected in (("prefill", (1, 0), "0,1"), ("decode", (6, 3), "3,6")):
        create(admin, namespace, name, profile)
        assert stored(admin, namespace, name)[1]["gpu.topology/cuda-visible-devices.0"] == "-1"
        allocate(admin, namespace, name, *cards)
        bind(admin, namespace, name)
        node, annotations = stored(admin, namespace, name)
        assert node == NODE
        assert annotations["gpu.topology/cuda-visible-devices.0"] == expected
        assert annotations["gpu.topology/nccl-p2p-level"] == "NVL"
        assert json.loads(annotations["gpu.topology/node-topology"])["node"] == NODE
    assert 'gpu_topology_bindings_total{outcome="patch",profile="node-peers",reason="resolved"} 2.0' in (
        webhook.probe("/metrics").text
    )


def test_the_legacy_resource_is_answered_as_well(admin: CoreV1Api, namespace: str) -> None:
    create(admin, namespace, "train", {})
    allocate(admin, namespace, "train", 2, 5)
    binding: Any = {"metadata": {"name": "train"}, "target": {"kind": "Node", "name": NODE}}
    admin.create_namespaced_binding(namespace, binding, _preload_content=False)
    node, annotations = stored(admin, namespace, "train")
    assert (node, annotations["gpu.topology/link"], annotations["gpu.topology/ring-order"]) == (NODE, "NVSwitch", "2,5")


def test_a_dry_run_changes_nothing(admin: CoreV1Api, namespace: str) -> None:
    create(admin, namespace, "train", {})
    allocate(admin, namespace, "train", 2, 5)
    bind(admin, namespace, "train", dry_run="All")
    node, annotations = stored(admin, namespace, "train")
    assert node is None
    assert "gpu.topology/link" not in annotations


def test_a_denied_binding_leaves_the_pod_unbound_and_says_why(
    admin: CoreV1Api, control_plane: ControlPlane, namespace: str
) -> None:
    create(admin, namespace, "train", {"gpu.topology/min-bandwidth": "500", "gpu.topology/on-violation": "deny"})
    allocate(admin, namespace, "train", 0, 1)
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


def test_a_pod_of_an_earlier_attempt_is_refused_until_the_scheduler_allocates_anew(
    admin: CoreV1Api, namespace: str
) -> None:
    create(admin, namespace, "peer", {"gpu.topology/profile": "node-peers"})
    allocate(admin, namespace, "peer", 0, 1)
    admin.patch_namespaced_pod("peer", namespace, {"metadata": {"annotations": {"hami.io/vgpu-node": "elsewhere"}}})
    with pytest.raises(ApiException, match="was made for node elsewhere, but the pod goes to node h20-node-1") as info:
        bind(admin, namespace, "peer")
    assert info.value.status == 409
    allocate(admin, namespace, "peer", 4, 5)
    bind(admin, namespace, "peer")
    assert stored(admin, namespace, "peer")[1]["gpu.topology/cuda-visible-devices.0"] == "4,5"


def test_pods_without_our_mark_are_bound_as_they_are(admin: CoreV1Api, namespace: str) -> None:
    pod: Any = {"metadata": {"name": "cpu"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    admin.create_namespaced_pod(namespace, pod)
    bind(admin, namespace, "cpu")
    assert stored(admin, namespace, "cpu") == (NODE, {})
