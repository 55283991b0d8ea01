"""The expected bandwidths of the cards of a machine, from its topology."""

from collections.abc import Sequence
from dataclasses import dataclass

from webhook.hardware.topology.connections import Connections, PathType
from webhook.hardware.topology.model import Gpu, NodeTopology
from webhook.hardware.topology.pcie import link_bandwidth
from webhook.hardware.topology.sets import LinkClass, assess


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected bandwidth of a pair or of a set."""

    link: str
    """The link, in the words of ``nvidia-smi topo -m`` for a pair, of ``gpu.topology/link`` for a set."""
    gbps: float
    """GB/s per direction of a pair; busbw of a set."""
    over_nvlink: bool
    pcie_gbps: float | None
    """GB/s of the slowest PCIe slot; None if a slot is unknown."""
    partly_nvlink: bool = False
    """Whether a ring of a set needs PCIe for some hops and uses NVLink for the others."""


class Expectations:
    """The expected bandwidths of the cards of a machine, by their UUIDs.

    Args:
        topology: The topology of the machine.
    """

    def __init__(self, topology: NodeTopology) -> None:
        self._topology = topology
        self._connections = Connections(topology)
        self._gpus = {gpu.uuid: gpu for gpu in topology.gpus if gpu.uuid}

    def pair(self, source: str, target: str) -> Expected | None:
        """Returns what to expect of copies from one card to another; None if that is unknown.

        No third card counts, because copies are not routed.
        """
        ends = self._of((source, target))
        if ends is None:
            return None
        one, other = ends
        found = self._connections.direct(one.index, other.index)
        over_nvlink = found.type is PathType.NVL
        return Expected(found.word, found.bandwidth, over_nvlink, _pcie(ends)) if found.bandwidth else None

    def set(self, cards: Sequence[str]) -> Expected | None:
        """Returns what to expect of an all-reduce of several cards; None if that is unknown."""
        members = self._of(cards)
        if members is None:
            return None
        found = assess(self._topology, [gpu.index for gpu in members], self._connections)
        if not found.ring_bandwidth:
            return None
        over_nvlink, partly = found.ring_over_nvlink, found.link is LinkClass.PARTIAL
        return Expected(
            found.link.value,
            found.ring_bandwidth,
            over_nvlink,
            _pcie(members),
            partly_nvlink=partly and not over_nvlink,
        )

    def _of(self, uuids: Sequence[str]) -> list[Gpu] | None:
        found = [self._gpus[uuid] for uuid in uuids if uuid in self._gpus]
        return found if len(found) == len(uuids) else None


def _pcie(gpus: Sequence[Gpu]) -> float | None:
    if any(gpu.pcie is None for gpu in gpus):
        return None
    return min(link_bandwidth(gpu.pcie) for gpu in gpus)
