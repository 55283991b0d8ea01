"""What HAMi's scheduler does with a pod, and what became of it."""

import json
from typing import Any

from kubernetes.client import CoreV1Api

from tests.topology.machines import H20_UUIDS

NODE = "h20-node-1"


def allocate(admin: CoreV1Api, namespace: str, name: str, *containers: tuple[int, ...], node: str = NODE) -> None:
    """What HAMi's scheduler writes in its filter: for each container, init containers first, its cards."""
    segments = ["".join(f"{H20_UUIDS[card]},NVIDIA,97871,100:" for card in cards) for cards in containers]
    said = {
        "hami.io/vgpu-node": node,
        "hami.io/vgpu-devices-allocated": "".join(f"{segment};" for segment in segments),
        "hami.io/bind-phase": "allocating",
    }
    admin.patch_namespaced_pod(name, namespace, {"metadata": {"annotations": said}})


def bind(admin: CoreV1Api, namespace: str, name: str, *, node: str = NODE, **options: Any) -> None:
    """What HAMi's scheduler sends: no annotations, and the uid of the pod."""
    pod = admin.read_namespaced_pod(name, namespace)
    assert pod.metadata is not None
    binding: Any = {"metadata": {"name": name, "uid": pod.metadata.uid}, "target": {"kind": "Node", "name": node}}
    admin.create_namespaced_pod_binding(name, namespace, binding, _preload_content=False, **options)


def bind_by_legacy_resource(admin: CoreV1Api, namespace: str, name: str, *, uid: str = "", node: str = NODE) -> None:
    """The same to the resource ``bindings``, which old schedulers know."""
    binding: Any = {"metadata": {"name": name, "uid": uid}, "target": {"kind": "Node", "name": node}}
    admin.create_namespaced_binding(namespace, binding, _preload_content=False)


def stored_pod(admin: CoreV1Api, namespace: str, name: str) -> dict[str, Any]:
    """The pod as the kubelet reads it, with fields that the client does not know."""
    answer: Any = admin.read_namespaced_pod(name, namespace, _preload_content=False)
    found: dict[str, Any] = json.loads(answer.data)
    return found


def stored(admin: CoreV1Api, namespace: str, name: str) -> tuple[str | None, dict[str, str]]:
    """Node and annotations of a pod."""
    pod = stored_pod(admin, namespace, name)
    return pod["spec"].get("nodeName"), pod["metadata"].get("annotations", {})
