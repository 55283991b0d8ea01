"""Nodes as HAMi's device plugin and the kubelet leave them: annotations with the GPUs, and ten slots for each."""

import json
from itertools import permutations
from typing import Any

from kubernetes.client import CoreV1Api

from webhook.hardware.topology.model import NVSWITCH, Gpu, NodeTopology

READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
SLOTS = 10
"""HAMi's default ``deviceSplitCount``."""


def create_node(admin: CoreV1Api, topology: NodeTopology, *, scores: bool = False) -> None:
    """A node that is ready, with the GPUs of the topology; ``scores`` as in ``node_manifest``."""
    body: Any = node_manifest(topology, scores=scores)
    admin.create_node(body)
    untaint(admin, topology.node)


def untaint(admin: CoreV1Api, node: str) -> None:
    """What the node lifecycle controller does to a node that is ready: every new one is tainted as not ready."""
    untainted: Any = {"spec": {"taints": None}}
    admin.patch_node(node, untainted)


def node_manifest(topology: NodeTopology, *, scores: bool = False) -> dict[str, Any]:
    """The Node with the GPUs of the topology.

    Args:
        topology: Name of the node and its GPUs.
        scores: Whether HAMi's device plugin writes its scores of pairs too. By default it does not: only where the
            default policy of the whole cluster is ``topology-aware``.
    """
    annotations = {"hami.io/node-nvidia-register": json.dumps([_registered(gpu) for gpu in topology.gpus])}
    if scores:
        annotations["hami.io/node-nvidia-score"] = json.dumps(_scores(topology))
    amounts = {"cpu": "192", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": str(SLOTS * len(topology.gpus))}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": topology.node,
            "labels": {"kubernetes.io/hostname": topology.node, "nvidia.com/gpu.product": _product(topology)},
            "annotations": annotations,
        },
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [READY]},
    }


def _registered(gpu: Gpu) -> dict[str, Any]:
    """As the device plugin writes it since 2.8: fields that are zero are left out (pkg/device/devices.go)."""
    said = {
        "id": gpu.uuid,
        "index": gpu.index,
        "count": SLOTS,
        "devmem": gpu.memory_mib,
        "devcore": 100,
        "type": gpu.name,
        "numa": gpu.numa_node,
        "mode": "hami-core",
        "health": True,
    }
    return {key: value for key, value in said.items() if value}


def _scores(topology: NodeTopology) -> list[dict[str, Any]]:
    """As the device plugin writes them since 2.10: 100 for each NVLink, 20 on one NUMA node, else 10."""
    scores: dict[str, dict[str, int]] = {gpu.uuid: {} for gpu in topology.gpus}
    for one, other in permutations(topology.gpus, 2):
        links = sum(link.count for link in one.nvlinks if link.target in {NVSWITCH, f"GPU{other.index}"})
        scores[one.uuid][other.uuid] = 100 * links + (20 if one.numa_node == other.numa_node else 10)
    return [{"uuid": uuid, "score": score} for uuid, score in scores.items()]


def _product(topology: NodeTopology) -> str:
    """The label of GPU feature discovery."""
    return topology.gpus[0].name.replace(" ", "-")
