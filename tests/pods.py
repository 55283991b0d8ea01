"""Pods as tests write them, and the few questions that tests ask of the result."""

from typing import Any

from tests.judge import TEAM_A
from webhook.objects.pod import Namespace

Manifest = dict[str, Any]

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a path in a pod

# Every permission that an administrator can give.
ALL_ALLOWED = Namespace(
    "team-a",
    {
        "gpu.topology/injection": "enabled",
        "gpu.topology/allow-host-ipc": "true",
        "gpu.topology/allow-host-pid": "true",
        "gpu.topology/allow-host-network": "true",
        "gpu.topology/allow-node-gpus": "true",
    },
)


def team_a(annotations: dict[str, str] | None = None, **labels: str) -> Namespace:
    """The namespace team-a, opted in, with these annotations."""
    return Namespace("team-a", {**TEAM_A.labels, **labels}, annotations or {})


def container(name: str = "train", gpus: int | str | None = 2, **fields: Any) -> Manifest:
    """A container that asks for so many whole GPUs; ``None``: for none."""
    resources: Manifest = {} if gpus is None else {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {"name": name, "image": "registry.local/train:1", **resources, **fields}


def pod(
    *containers: Manifest, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> Manifest:
    """The pod team-a/train of these containers (one of two GPUs if none is given)."""
    metadata: Manifest = {"name": "train", "namespace": "team-a"}
    if annotations is not None:
        metadata["annotations"] = annotations
    if labels is not None:
        metadata["labels"] = labels
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": list(containers) or [container()], **spec},
    }


def find_container(manifest: Manifest, name: str) -> Manifest:
    """The container or init container of this name."""
    spec = manifest["spec"]
    (found,) = (
        container
        for container in [*(spec.get("initContainers") or []), *spec["containers"]]
        if container["name"] == name
    )
    return dict(found)


def effective_env(manifest: Manifest, name: str) -> Manifest:
    """What a container's variables will be: of several entries with one name the kubelet takes the last."""
    return {
        entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in find_container(manifest, name)["env"]
    }


def annotation_reference(key: str) -> Manifest:
    """How a variable refers to an annotation."""
    return {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}
