"""Pods as people and controllers write them."""

from collections.abc import Mapping
from typing import Any

CUDA = "gpu.topology/cuda-visible-devices"


def container(name: str = "worker", gpus: int = 0, **fields: Any) -> dict[str, Any]:
    """One container; with GPUs if there are any to ask for."""
    resources = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {}
    return {"name": name, "image": "x", **resources} | fields


def pod(
    name: str,
    *containers: dict[str, Any],
    node: str = "",
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod for the node if one is named; annotations without a prefix are ours."""
    given = {key if "/" in key else f"gpu.topology/{key}": value for key, value in (annotations or {}).items()}
    chosen = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": given},
        "spec": {"containers": list(containers), **chosen, **spec},
    }


def owned_by(kind: str, name: str, written: dict[str, Any]) -> dict[str, Any]:
    """The pod as the controller of such an object creates it."""
    owner = {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "name": name,
        "uid": "8f5a2f6e-0f0d-4a39-9a05-0f1f5b9c2d11",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return written | {"metadata": written["metadata"] | {"ownerReferences": [owner]}}
