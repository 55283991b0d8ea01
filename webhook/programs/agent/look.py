"""One look at a node, its topology with its health, and the comparison of GPUs between two looks."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from webhook.hardware.topology.health import NodeHealth
from webhook.hardware.topology.model import Gpu, LostGpu, NodeTopology

_Device = TypeVar("_Device", Gpu, LostGpu)


@dataclass(frozen=True, slots=True)
class Look:
    """A topology of a node and its health."""

    topology: NodeTopology
    health: NodeHealth


def is_readable(topology: NodeTopology) -> bool:
    """Returns whether the driver could be asked for GPUs. A node without GPUs may still be readable."""
    return bool(topology.gpus or topology.lost or not topology.problem)


def counterpart(gpu: Gpu | LostGpu, others: Iterable[_Device]) -> _Device | None:
    """Returns the same GPU in another look, or None if it is not there."""
    return next((other for other in others if _is_same(gpu, other)), None)


def vanished(before: NodeTopology, now: NodeTopology) -> tuple[Gpu, ...]:
    """Returns the GPUs that were there before and that the driver no longer lists, not even as lost."""
    return tuple(
        gpu for gpu in before.gpus if counterpart(gpu, now.gpus) is None and counterpart(gpu, now.lost) is None
    )


def _is_same(one: Gpu | LostGpu, other: Gpu | LostGpu) -> bool:
    """Compares GPUs by UUID. A lost GPU may have no UUID, then by the bus id, and last by the index."""
    if one.uuid and other.uuid:
        return one.uuid == other.uuid
    if one.pci_bus_id and other.pci_bus_id:
        return one.pci_bus_id == other.pci_bus_id
    return one.index == other.index
