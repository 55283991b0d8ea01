"""The expected bandwidths of the cards of a machine, from its topology."""

from collections.abc import Sequence
from dataclasses import dataclass

from webhook.hardware.topology.connections import Connections, PathType, nvlink_bandwidth
from webhook.hardware.topology.model import Gpu, NodeTopology
from webhook.hardware.topology.pcie import PciePath, link_bandwidth
from webhook.hardware.topology.sets import LinkClass, assess

_HOPPER = 90
_CHANNELS, _CHANNEL_RATES = 8, (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0)
"""Channels of NVLS, and GB/s that one may have: NCCL src/graph/search.cc, ``sm90SpeedArrayIntra``. A full board of H100
has 8 channels of 40 GB/s."""
_EFFICIENCY, _AGAINST_RING = 0.85, 5 / 6
"""Share of the channels' bandwidth that NVLS reduces on Hopper, and the share by which NCCL reckons it when it compares
it with rings: NCCL src/graph/tuning.cc, ``nvlsEfficiency`` and ``ncclTopoTuneModel``."""
_FEWEST = 3
"""Cards from which every version of NCCL with NVLS uses it; some need no more than two."""


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
    chipset: str = ""
    """The CPU through whose root complex copies between two cards go; empty if they go through none."""
    ring_gbps: float | None = None
    """Busbw of the best ring of a set for which NCCL chooses NVLS, the reduction by the NVSwitches; else None."""


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
        if not found.bandwidth:
            return None
        chipset = self._chipset() if not over_nvlink and found.pcie.rank >= PciePath.PHB.rank else ""
        return Expected(found.word, found.bandwidth, over_nvlink, _pcie(ends), chipset=chipset)

    def _chipset(self) -> str:
        cpu = next(iter(self._topology.cpus), None)
        return f"{cpu.vendor} family {cpu.family} model {cpu.model}" if cpu and cpu.vendor else ""

    def set(self, cards: Sequence[str], *, nvls: bool = False) -> Expected | None:
        """Returns what to expect of an all-reduce of several cards, by the algorithm that NCCL chooses.

        None if that is unknown.

        Args:
            cards: Their UUIDs.
            nvls: Whether NCCL may let NVSwitches reduce.
        """
        members = self._of(cards)
        if members is None:
            return None
        found = assess(self._topology, [gpu.index for gpu in members], self._connections)
        if not found.ring_bandwidth:
            return None
        over_nvlink, partly = found.ring_over_nvlink, found.link is LinkClass.PARTIAL
        by_switches = _nvls_busbw(members, found.ring_bandwidth) if nvls and found.link is LinkClass.NVSWITCH else None
        return Expected(
            found.link.value,
            by_switches or found.ring_bandwidth,
            over_nvlink,
            _pcie(members),
            partly_nvlink=partly and not over_nvlink,
            ring_gbps=found.ring_bandwidth if by_switches else None,
        )

    def _of(self, uuids: Sequence[str]) -> list[Gpu] | None:
        found = [self._gpus[uuid] for uuid in uuids if uuid in self._gpus]
        return found if len(found) == len(uuids) else None


def _nvls_busbw(gpus: Sequence[Gpu], ring_busbw: float) -> float | None:
    """Returns the busbw of NVLS where NCCL chooses it; None where it chooses rings.

    From Blackwell on NCCL's model prefers rings for the boards that are known.
    """
    if len(gpus) < _FEWEST or any(gpu.sm != _HOPPER for gpu in gpus):
        return None
    links = min(nvlink_bandwidth(gpu, gpu.switch_links) for gpu in gpus)
    rate = next((rate for rate in _CHANNEL_RATES if _CHANNELS * rate <= links), 0.0)
    reduced, factor = _CHANNELS * rate * _EFFICIENCY, 2 * (len(gpus) - 1) / len(gpus)
    return reduced * factor if reduced * _AGAINST_RING > ring_busbw / factor else None


def _pcie(gpus: Sequence[Gpu]) -> float | None:
    if any(gpu.pcie is None for gpu in gpus):
        return None
    return min(link_bandwidth(gpu.pcie) for gpu in gpus)
