"""One look at a node, its topology with its health, and the comparison of GPUs between two looks."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from webhook.hardware.topology.health import NodeHealth
from webhook.hardware.topology.model import NVSWITCH, UNKNOWN, Gpu, LostGpu, MigMode, NodeTopology, NvLink

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


def with_known_ends(now: NodeTopology, before: NodeTopology | None) -> NodeTopology:
    """Returns the topology in which links that were up before keep their other end.

    NVML reports a link that is down as it reports one that was never wired. So for a GPU that has no link up now, the
    links that it had before count as down, unless their other end is lost, gone or in MIG mode.
    """
    gpus = tuple(_with_known_ends(gpu, now, before) for gpu in now.gpus) if before else now.gpus
    return now if gpus == now.gpus else replace(now, gpus=gpus)


def _with_known_ends(gpu: Gpu, now: NodeTopology, before: NodeTopology) -> Gpu:
    old = counterpart(gpu, before.gpus)
    is_dark = gpu.nvlinks and not gpu.active_links and not gpu.links_problem and gpu.mig_mode is not MigMode.ENABLED
    if old is None or not is_dark or any(link.target != UNKNOWN for link in gpu.nvlinks):
        return gpu
    then = {other.label: other for other in before.gpus}
    present = {NVSWITCH} | {
        other.label
        for other in now.gpus
        if other.label in then and _is_same(other, then[other.label]) and other.mig_mode is not MigMode.ENABLED
    }
    lost = [replace(link, active=0) for link in old.nvlinks if link.target in present]
    unwired = sum(link.count for link in gpu.nvlinks) - sum(link.count for link in lost)
    if not lost or unwired < 0:
        return gpu
    rest = (NvLink(target=UNKNOWN, count=unwired, active=0),) if unwired else ()
    return replace(gpu, nvlinks=(*lost, *rest))


def _is_same(one: Gpu | LostGpu, other: Gpu | LostGpu) -> bool:
    """Compares GPUs by UUID. A lost GPU may have no UUID, then by the bus id, and last by the index."""
    if one.uuid and other.uuid:
        return one.uuid == other.uuid
    if one.pci_bus_id and other.pci_bus_id:
        return one.pci_bus_id == other.pci_bus_id
    return one.index == other.index
