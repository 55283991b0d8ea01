"""Whether what we wrote on a bound pod is true of the cards that HAMi gave it."""

from typing import Any

from tests.control_plane.hami.pods import CUDA
from tests.control_plane.hami.team import annotations_of, cards_of
from webhook.hardware.topology.model import NodeTopology

VALUES = {"exclusive": "gpu.topology/ring-order", "node-peers": f"{CUDA}.0"}
"""The annotation whose numbers are the cards of the container."""


def fault_of(bound: dict[str, Any], machine: NodeTopology) -> str:
    """What is wrong with the values of a pod that has a node with these GPUs."""
    annotations = annotations_of(bound)
    (cards,) = cards_of(bound)
    value = annotations.get(VALUES[annotations["gpu.topology/profile"]], "none")
    named = sorted(int(number) for number in value.split(",")) if value != "none" else []
    wanted = sorted(gpu.index for gpu in machine.gpus if gpu.uuid in cards)
    if named != wanted or len(wanted) != 2:
        return f"has GPUs {wanted} of {machine.node}, and its values name {value}"
    return "" if "gpu.topology/link" in annotations else "has no link class"
