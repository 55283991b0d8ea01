"""What HAMi's scheduler does with a pod, and what became of it."""

import json
from contextlib import suppress
from typing import Any

from kubernetes.client import ApiException, CoreV1Api

from tests.hardware.topology.machines import H20_UUIDS
from webhook.words.names import PLACE_GATE, PLACEMENT

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


def delete_waiting(admin: CoreV1Api) -> None:
    """No pod of any namespace waits for the planner any more, whichever test has left it."""
    answer: Any = admin.list_pod_for_all_namespaces(_preload_content=False)
    for pod in json.loads(answer.data)["items"]:
        gates = [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]
        if PLACE_GATE in gates or pod["metadata"].get("labels", {}).get(PLACEMENT) == "waiting":
            with suppress(ApiException):  # it has gone meanwhile
                admin.delete_namespaced_pod(
                    pod["metadata"]["name"], pod["metadata"]["namespace"], grace_period_seconds=0
                )
