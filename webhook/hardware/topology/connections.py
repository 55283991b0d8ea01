"""Connections between two GPUs of a node and their bandwidths, as NCCL computes them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from webhook.hardware.topology.model import Gpu, MigMode, NodeTopology
from webhook.hardware.topology.pcie import DOWN, INTEL, UP, PciePath, PcieTree, link_bandwidth


class PathType(StrEnum):
    """NCCL's words for the paths between two GPUs, best first: src/graph/topo.cc, topoPathTypeStr."""

    NVL = "NVL"
    """NVLink, direct or through NVSwitches."""
    NVB = "NVB"
    """NVLink through a third GPU, which must take part in the job."""
    C2C = "C2C"
    """NVLink-C2C through the CPU that both GPUs share."""
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    """Through the CPU, also between host bridges of one NUMA node."""
    SYS = "SYS"

    @property
    def rank(self) -> int:
        """The rank of the type; 0 for the best."""
        return list(PathType).index(self)


@dataclass(frozen=True, slots=True)
class Connection:
    """The connection from one GPU to another."""

    type: PathType
    bandwidth: float
    """GB/s per direction."""
    links: int
    """NVLinks that are up; 0 unless the type is ``NVL``."""
    pcie: PciePath
    """The path that would remain without NVLink."""
    share: float = 1.0
    """Share of the computed bandwidth that the connection has: below 1 where less was measured."""

    @property
    def word(self) -> str:
        """The connection in the words of ``nvidia-smi topo -m``."""
        return f"NV{self.links}" if self.links else self.pcie.value


# GB/s per NVLink and direction, from this sm on: NCCL src/graph/topo.h, ncclTopoNVLinkBw.
_RATES = ((100, 40.1), (90, 20.6), (87, 20.0), (86, 12.0), (70, 20.0), (60, 18.0))
# For GPUs of unknown compute capability: the slowest generation that has more than this number of links.
_ASSUMED = ((12, 20.6, "9.0"), (4, 20.0, "7.0 or 8.0"), (0, 12.0, "8.6"))


def nvlink_rate(gpu: Gpu) -> float:
    """Returns the GB/s per direction of one NVLink.

    Without a compute capability this is a lower bound: the rate of the slowest generation with that many links.
    """
    if gpu.sm:
        return next((rate for sm, rate in _RATES if gpu.sm >= sm), 0.0)
    return _assumed(gpu)[0]


def assumed_generation(gpu: Gpu) -> str:
    """Returns the compute capability assumed for a GPU that does not report one; empty if the GPU reports it."""
    return "" if gpu.sm else _assumed(gpu)[1]


def _assumed(gpu: Gpu) -> tuple[float, str]:
    links = sum(link.count for link in gpu.nvlinks)
    return next(((rate, capability) for more_than, rate, capability in _ASSUMED if links > more_than), (0.0, ""))


def nvlink_bandwidth(gpu: Gpu, links: int) -> float:
    """Returns the GB/s per direction of ``links`` NVLinks of a GPU."""
    return round(links * nvlink_rate(gpu), 3)


def nvlink_capacity(gpu: Gpu) -> float | None:
    """Returns the GB/s per direction that all working NVLinks of a GPU carry together.

    It is None where no traffic between GPUs can go over NVLinks of this GPU, or where its links are not known: no link
    works, they cannot be read, or the GPU is in MIG mode.
    """
    if gpu.links_problem or gpu.mig_mode is MigMode.ENABLED:
        return None
    return nvlink_bandwidth(gpu, gpu.active_links) or None


def c2c_bandwidth(gpu: Gpu) -> float:
    """Returns the GB/s per direction between a GPU and its CPU; 0 without C2C.

    NCCL src/graph/topo.cc: bw x count / 1000.
    """
    return round(gpu.c2c.bandwidth_mbps * gpu.c2c.links / 1000, 3) if gpu.c2c else 0.0


class Load(NamedTuple):
    """The load that a way between two GPUs puts on one of its links."""

    link: tuple[str, str]
    """The link and its direction."""
    capacity: float
    """GB/s of the link in that direction."""
    share: float = 1.0
    """GB/s on the link for each GB/s on the way."""


class Connections:
    """The connections between the GPUs of a node. GPUs are named by their index.

    Args:
        topology: The node. The connection of each pair is computed once, at its first use.
    """

    def __init__(self, topology: NodeTopology) -> None:
        self.gpus = {gpu.index: gpu for gpu in topology.gpus}
        self.tree = PcieTree(topology)
        self._direct: dict[tuple[int, int], Connection] = {}
        self._neighbours: dict[int, frozenset[int]] = {}

    def direct(self, one: int, other: int) -> Connection:
        """Returns the connection from ``one`` to ``other`` without a third GPU."""
        connection = self._direct.get((one, other))
        if connection is None:
            connection = _as_measured(_connect(self.gpus[one], self.gpus[other], self.tree), *self._ends(one, other))
            self._direct[one, other] = connection
        return connection

    def within(self, one: int, other: int, members: Sequence[int]) -> Connection:
        """Returns the connection from ``one`` to ``other`` in a job that uses ``members``.

        Two GPUs without NVLink to each other may go through a third member: type ``NVB``, with the bandwidth of the
        slower hop. NCCL prefers that to any PCIe path (src/graph/paths.cc, ncclTopoSetPaths).
        """
        direct = self.direct(one, other)
        if direct.type is PathType.NVL or len(members) <= 2:
            return direct
        between = self._between(one, other, members)
        bridged = max((self._hop(one, middle, other) for middle in between), default=0.0)
        return Connection(PathType.NVB, bridged, 0, direct.pcie) if bridged else direct

    def loads(self, one: int, other: int, members: Sequence[int]) -> Sequence[Load]:
        """Returns the loads on the links of the way from ``one`` to ``other``, in a job that uses ``members``."""
        way = self.within(one, other, members)
        if way.type is PathType.NVB:
            middle = max(sorted(self._between(one, other, members)), key=lambda middle: self._hop(one, middle, other))
            return (*self.loads(one, middle, ()), *self.loads(middle, other, ()))
        return [load._replace(share=load.share / way.share) for load in self._loads(way, *self._ends(one, other))]

    def into_switches(self, one: int, members: Sequence[int]) -> float:
        """Returns the GB/s that a GPU can send to ``members`` through NVSwitches.

        This is less than its links carry if less was measured to every member.
        """
        gpu = self.gpus[one]
        ways = (self.direct(one, other).share for other in members if other != one)
        return nvlink_bandwidth(gpu, gpu.switch_links) * max(ways, default=1.0)

    def _ends(self, one: int, other: int) -> tuple[Gpu, Gpu]:
        return self.gpus[one], self.gpus[other]

    def _loads(self, way: Connection, gpu: Gpu, peer: Gpu) -> Sequence[Load]:
        if way.type is PathType.NVL:
            return _over_nvlink(gpu, peer)
        if gpu.c2c and peer.c2c:
            return _over_c2c(gpu, peer, self.tree, way.type)
        return _over_pcie(gpu, peer, self.tree, way.type)

    def _between(self, one: int, other: int, members: Sequence[int]) -> frozenset[int]:
        """Returns the members to which both GPUs have NVLink."""
        return (self._linked_to(one) & self._linked_to(other)).intersection(members)

    def _linked_to(self, gpu: int) -> frozenset[int]:
        """Returns the GPUs to which ``gpu`` has NVLink without a third GPU; the relation is symmetric."""
        found = self._neighbours.get(gpu)
        if found is None:
            found = frozenset(
                other for other in self.gpus if other != gpu and self.direct(gpu, other).type is PathType.NVL
            )
            self._neighbours[gpu] = found
        return found

    def _hop(self, one: int, middle: int, other: int) -> float:
        return min(self.direct(one, middle).bandwidth, self.direct(middle, other).bandwidth)


def _as_measured(reckoned: Connection, gpu: Gpu, peer: Gpu) -> Connection:
    """Returns the connection with the measured bandwidth where that is less than the computed one."""
    for label, mbps in gpu.slower:
        if label == peer.label and mbps / 1000 < reckoned.bandwidth:
            return replace(reckoned, bandwidth=mbps / 1000, share=mbps / 1000 / reckoned.bandwidth)
    return reckoned


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
    """Returns the connection of two GPUs that both reach their CPU over C2C."""
    bandwidths = [c2c_bandwidth(gpu) for gpu in (one, other)]
    if pcie is PciePath.SYS:
        return Connection(PathType.SYS, min(*bandwidths, tree.between_sockets), 0, pcie)
    return Connection(PathType.C2C, min(bandwidths), 0, pcie)


_INTEL_OVERHEAD = 6 / 5
"""PCIe bytes for each byte of peer-to-peer through an Intel CPU: NCCL src/graph/topo.h, INTEL_P2P_OVERHEAD."""
_ANSWERS, _ANSWERS_BELOW = 1 / 8, 80
"""Load on the way back for each byte that arrives over PCIe, below this sm: NCCL src/graph/search.cc, followPath."""


def _over_nvlink(one: Gpu, other: Gpu) -> tuple[Load, ...]:
    if one.switch_links and other.switch_links:
        return (
            Load((one.label, "NVSwitch"), nvlink_bandwidth(one, one.switch_links)),
            Load(("NVSwitch", other.label), nvlink_bandwidth(other, other.switch_links)),
        )
    return (Load((one.label, other.label), nvlink_bandwidth(one, one.links_to(other.label))),)


def _over_c2c(one: Gpu, other: Gpu, tree: PcieTree, kind: PathType) -> tuple[Load, ...]:
    between = [Load(*tree.between_numa_nodes(one, other))] if kind is PathType.SYS else []
    up, down = (Load((gpu.label, way), c2c_bandwidth(gpu)) for gpu, way in ((one, UP), (other, DOWN)))
    return (up, *between, down)


def _over_pcie(one: Gpu, other: Gpu, tree: PcieTree, kind: PathType) -> tuple[Load, ...]:
    share = _INTEL_OVERHEAD if kind is PathType.PHB and tree.cpu_vendor == INTEL else 1.0
    loads = [Load(link, bandwidth, share) for link, bandwidth in tree.links(one, other)]
    if other.sm < _ANSWERS_BELOW:
        loads.append(Load((other.label, UP), link_bandwidth(other.pcie), share * _ANSWERS))
    return tuple(loads)
