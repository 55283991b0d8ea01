"""One look at a node: its topology and the judgement of it, and how GPUs are found again in another look."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from webhook.hardware.topology.health import NodeHealth
from webhook.hardware.topology.model import Gpu, LostGpu, NodeTopology

_Device = TypeVar("_Device", Gpu, LostGpu)


@dataclass(frozen=True, slots=True)
class Look:
    """A topology and the judgement of it."""

    topology: NodeTopology
    health: NodeHealth


def is_readable(topology: NodeTopology) -> bool:
    """Whether GPUs could be looked for at all; a node without any may still be readable."""
    return bool(topology.gpus or topology.lost or not topology.problem)


def counterpart(gpu: Gpu | LostGpu, others: Iterable[_Device]) -> _Device | None:
    """The same GPU in another look; None if it is not there."""
    return next((other for other in others if _is_same(gpu, other)), None)


def vanished(before: NodeTopology, now: NodeTopology) -> tuple[Gpu, ...]:
    """GPUs that were there and that the driver does not even list as lost any more."""
    return tuple(
        gpu for gpu in before.gpus if counterpart(gpu, now.gpus) is None and counterpart(gpu, now.lost) is None
    )


def _is_same(one: Gpu | LostGpu, other: Gpu | LostGpu) -> bool:
    """By UUID; a lost one may have none, then by the bus id, then by the index."""
    if one.uuid and other.uuid:
        return one.uuid == other.uuid
    if one.pci_bus_id and other.pci_bus_id:
        return one.pci_bus_id == other.pci_bus_id
    return one.index == other.index
