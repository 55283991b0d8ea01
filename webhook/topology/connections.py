"""How fast two GPUs of a node reach each other, as NCCL reckons it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from webhook.topology.model import Gpu, NodeTopology
from webhook.topology.pcie import PciePath, PcieTree


class PathType(StrEnum):
    """NCCL's words for the path between two GPUs, best first: src/graph/topo.cc, topoPathTypeStr."""

    NVL = "NVL"
    """NVLink, direct or through NVSwitches."""
    NVB = "NVB"
    """NVLink through one other GPU, which must take part in the job."""
    C2C = "C2C"
    """NVLink-C2C through the CPU of both."""
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    """Through the CPU, host bridges of one NUMA node included."""
    SYS = "SYS"

    @property
    def rank(self) -> int:
        """0 for the best."""
        return list(PathType).index(self)


@dataclass(frozen=True, slots=True)
class Connection:
    """From one GPU to another."""

    type: PathType
    bandwidth: float
    """GB/s per direction."""
    links: int
    """NVLinks that are up; 0 unless the type is ``NVL``."""
    pcie: PciePath
    """What would remain without NVLink."""

    @property
    def word(self) -> str:
        """In the words of ``nvidia-smi topo -m``."""
        return f"NV{self.links}" if self.links else self.pcie.value


# GB/s per NVLink and direction, from this sm on: NCCL src/graph/topo.h, ncclTopoNVLinkBw.
_RATES = ((100, 40.1), (90, 20.6), (87, 20.0), (86, 12.0), (70, 20.0), (60, 18.0))
# The slowest generation that has more links than this, for GPUs whose compute capability is not known.
_RATES_BY_LINKS = ((12, 20.6), (4, 20.0), (0, 12.0))


def nvlink_rate(gpu: Gpu) -> float:
    """GB/s per direction of one NVLink.

    Without a compute capability it is a lower bound: the slowest generation that has so many links.
    """
    if gpu.sm:
        return next((rate for sm, rate in _RATES if gpu.sm >= sm), 0.0)
    links = sum(link.count for link in gpu.nvlinks)
    return next((rate for more_than, rate in _RATES_BY_LINKS if links > more_than), 0.0)


def nvlink_bandwidth(gpu: Gpu, links: int) -> float:
    """GB/s per direction of so many NVLinks of a GPU."""
    return round(links * nvlink_rate(gpu), 3)


class Connections:
    """The connections between the GPUs of a node. GPUs are named by their index.

    Args:
        topology: The node; a pair of its GPUs is reckoned once, when it is first asked for.
    """

    def __init__(self, topology: NodeTopology) -> None:
        self.gpus = {gpu.index: gpu for gpu in topology.gpus}
        self._tree = PcieTree(topology)
        self._direct: dict[tuple[int, int], Connection] = {}
        self._neighbours: dict[int, frozenset[int]] = {}

    def direct(self, one: int, other: int) -> Connection:
        """From ``one`` to ``other`` without the help of a third GPU."""
        connection = self._direct.get((one, other))
        if connection is None:
            connection = _connect(self.gpus[one], self.gpus[other], self._tree)
            self._direct[one, other] = connection
        return connection

    def within(self, one: int, other: int, members: Sequence[int]) -> Connection:
        """From ``one`` to ``other`` in a job that uses ``members``.

        Without NVLink of their own they may use that of a third member: type ``NVB``, the lesser of both hops, which
        NCCL prefers to any PCIe path (src/graph/paths.cc, ncclTopoSetPaths).
        """
        direct = self.direct(one, other)
        if direct.type is PathType.NVL or len(members) <= 2:
            return direct
        between = (self._linked_to(one) & self._linked_to(other)).intersection(members)
        bridged = max((self._hop(one, middle, other) for middle in between), default=0.0)
        return Connection(PathType.NVB, bridged, 0, direct.pcie) if bridged else direct

    def _linked_to(self, gpu: int) -> frozenset[int]:
        """The GPUs to which ``gpu`` has NVLink of its own; they have it back."""
        found = self._neighbours.get(gpu)
        if found is None:
            found = frozenset(
                other for other in self.gpus if other != gpu and self.direct(gpu, other).type is PathType.NVL
            )
            self._neighbours[gpu] = found
        return found

    def _hop(self, one: int, middle: int, other: int) -> float:
        return min(self.direct(one, middle).bandwidth, self.direct(middle, other).bandwidth)


def _connect(one: Gpu, other: Gpu, tree: PcieTree) -> Connection:
    pcie = tree.path(one, other)
    if one.switch_links and other.switch_links:
        bandwidth = min(nvlink_bandwidth(gpu, gpu.switch_links) for gpu in (one, other))
        return Connection(PathType.NVL, bandwidth, min(one.switch_links, other.switch_links), pcie)
    links = one.links_to(other.label)
    if links and other.links_to(one.label):
        return Connection(PathType.NVL, nvlink_bandwidth(one, links), links, pcie)
    if one.c2c and other.c2c:
        return _connect_c2c(one, other, pcie, tree)
    kind = PathType.PHB if pcie is PciePath.NODE else PathType(pcie.value)
    return Connection(kind, tree.bandwidth(one, other), 0, pcie)


def _connect_c2c(one: Gpu, other: Gpu, pcie: PciePath, tree: PcieTree) -> Connection:
    """Both GPUs reach their CPU over C2C: NCCL src/graph/topo.cc, bw x count / 1000."""
    bandwidths = [round(gpu.c2c.bandwidth_mbps * gpu.c2c.links / 1000, 3) for gpu in (one, other) if gpu.c2c]
    if pcie is PciePath.SYS:
        return Connection(PathType.SYS, min(*bandwidths, tree.between_sockets), 0, pcie)
    return Connection(PathType.C2C, min(bandwidths), 0, pcie)
