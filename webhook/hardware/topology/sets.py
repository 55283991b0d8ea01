"""The quality of a set of GPUs for a job that uses all of them together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import combinations, permutations
from math import inf
from typing import NamedTuple

from webhook.hardware.topology.connections import Connection, Connections, PathType
from webhook.hardware.topology.model import Gpu, NodeTopology
from webhook.hardware.topology.pcie import AMD, PciePath, PcieTree
from webhook.hardware.topology.ring import (
    all_reduce_bandwidth,
    both_ways,
    cut_bandwidth,
    neighbours,
    ring_order,
    weakest_hop,
)
from webhook.words.errors import FormatError

SLOWEST_STEP, STEPS_END_FROM = 18.0, 100
"""GB/s below which NCCL does not search for a ring, and the sm from which on this limit applies (NCCL 2.30
src/graph/search.cc, sm100SpeedArrayIntra)."""


class LinkClass(StrEnum):
    """The link class of a set of GPUs: the values of the annotation ``gpu.topology/link``, best first."""

    SINGLE = "single"
    NVSWITCH = "NVSwitch"
    NVLINK = "NVLink"
    """Every pair has direct links."""
    PARTIAL = "NVLink-partial"
    """Some pairs have links, others do not."""
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    SYS = "SYS"


LINK_VALUES: Mapping[LinkClass, float] = {
    LinkClass.SINGLE: 1.0,
    LinkClass.NVSWITCH: 1.0,
    LinkClass.NVLINK: 1.0,
    LinkClass.PARTIAL: 0.6,
    LinkClass.PIX: 0.5,
    LinkClass.PXB: 0.4,
    LinkClass.PHB: 0.3,
    LinkClass.SYS: 0.1,
}
"""The order of the link classes; the greater, the better. NVSwitches and NVLinks between all pairs are equal."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two GPUs of a set, by index, and the connection between them: the slower of both directions."""

    gpus: tuple[int, int]
    connection: Connection


@dataclass(frozen=True, kw_only=True, slots=True)
class NicAffinity:
    """A NIC and the GPUs of a set that have no nearer NIC."""

    name: str
    path: PciePath
    gpus: tuple[int, ...]
    """Indices."""


@dataclass(frozen=True, kw_only=True)
class GpuSet:
    """A set of GPUs with its quality. GPUs are named by their index."""

    gpus: tuple[int, ...]
    """Ascending."""
    link: LinkClass
    weakest: Pair | None
    """The pair with the least bandwidth; None in a set of one."""
    unlinked: Pair | None
    """The pair with the least bandwidth among those without direct NVLink; None if every pair has it."""
    mean_bandwidth: float
    """GB/s per direction, over all pairs; 0 for a set of one."""
    ring: tuple[int, ...]
    """The order of the best ring."""
    ring_bandwidth: float
    """GB/s that each GPU can pass on in all rings together; 0 for a set of one.

    It is an estimate of the result of NCCL's search, which goes by the steps of a table and so is mostly lower.
    """
    ring_over_nvlink: bool
    """Whether rings over NVLink alone have that bandwidth, also in a ``PARTIAL`` set whose NVLinks close a ring."""
    nccl_finds_ring: bool
    """Whether NCCL's search finds a ring; if not, NCCL uses the order of the ranks (``SLOWEST_STEP``)."""
    numa_nodes: tuple[int, ...]
    """Known NUMA nodes of the GPUs, ascending."""
    nics: tuple[NicAffinity, ...]
    """Nearest first."""

    @cached_property
    def bandwidth(self) -> float:
        """GB/s per direction of the weakest pair; 0 for a set of one."""
        return self.weakest.connection.bandwidth if self.weakest else 0.0

    @property
    def all_reduce(self) -> float:
        """GB/s of data reduced by an all-reduce; 0 for a set of one."""
        return all_reduce_bandwidth(self.ring_bandwidth, len(self.gpus))

    @cached_property
    def bandwidth_text(self) -> str:
        """The bandwidth with at most one decimal: the annotation ``gpu.topology/bandwidth``."""
        return f"{self.bandwidth:.1f}".removesuffix(".0")

    @cached_property
    def ring_text(self) -> str:
        """The ring with commas: the annotation ``gpu.topology/ring-order`` of a pod with one set."""
        return ",".join(map(str, self.ring))

    @property
    def ring_sentence(self) -> str:
        """The order of the ring and its bandwidth, with the origin of that figure."""
        said = f"{self.ring_bandwidth:.1f} GB/s ({'-'.join(map(str, (*self.ring, self.ring[0])))}), estimated"
        if self.nccl_finds_ring:
            return said
        return (
            f"{said}, but NCCL finds no ring: from compute capability {STEPS_END_FROM / 10} on it looks for none below "
            f"{SLOWEST_STEP:.0f} GB/s, and goes in the order of the ranks"
        )

    @cached_property
    def every_pair_has_nvlink(self) -> bool:
        """Whether ``require-nvlink`` is met; always by a single GPU."""
        return self.link in (LinkClass.SINGLE, LinkClass.NVSWITCH, LinkClass.NVLINK)


def assess(topology: NodeTopology, gpus: Sequence[int], connections: Connections | None = None) -> GpuSet:
    """Returns a set of GPUs with its quality.

    Args:
        topology: The node.
        gpus: Indices of its GPUs, in any order; at least one.
        connections: The connections of the node, if the caller has them already.

    Raises:
        FormatError: the node does not have one of the GPUs, a GPU is listed twice, or none is given.
    """
    members = _members(topology, gpus)
    between = connections or Connections(topology)
    indices = tuple(gpu.index for gpu in members)
    paths = {(one, other): between.within(one, other, indices) for one, other in permutations(indices, 2)}
    pairs = [_pair(paths, one, other) for one, other in combinations(indices, 2)]
    bandwidth = [[paths[one, other].bandwidth if one != other else 0.0 for other in indices] for one in indices]
    order = ring_order(_for_ring(paths, indices), _bridged(paths, indices))
    ring = tuple(indices[position] for position in order)
    slowest = weakest_hop(order, bandwidth)
    nvlink = _over_nvlink(members, between, order) if pairs else 0.0
    return GpuSet(
        gpus=indices,
        link=_link_class(members, pairs),
        weakest=_weakest(pairs),
        unlinked=_weakest([pair for pair in pairs if pair.connection.type is not PathType.NVL]),
        mean_bandwidth=sum(pair.connection.bandwidth for pair in pairs) / len(pairs) if pairs else 0.0,
        ring=ring,
        ring_bandwidth=nvlink or max(slowest, _both_ways(paths, ring, between)),
        ring_over_nvlink=nvlink > 0,
        nccl_finds_ring=not pairs
        or max(nvlink, slowest) >= SLOWEST_STEP
        or min(gpu.sm for gpu in members) < STEPS_END_FROM,
        numa_nodes=tuple(sorted({gpu.numa_node for gpu in members if gpu.numa_node is not None})),
        nics=_near_nics(topology, members, between.tree),
    )


def _members(topology: NodeTopology, gpus: Sequence[int]) -> list[Gpu]:
    known = {gpu.index: gpu for gpu in topology.gpus}
    for index in gpus:
        if index not in known or list(gpus).count(index) > 1:
            listed = ", ".join(map(str, known)) or "it has none"
            raise FormatError(
                f"node {topology.node}", expected=f"indices of its GPUs ({listed}), each once", found=index
            )
    if not gpus:
        raise FormatError(f"node {topology.node}", expected="at least one GPU", found="none")
    return [known[index] for index in sorted(gpus)]


def _weakest(pairs: Sequence[Pair]) -> Pair | None:
    return min(pairs, key=lambda pair: pair.connection.bandwidth, default=None)


_Paths = Mapping[tuple[int, int], Connection]
"""Connections by the indices of both ends, once for each direction."""


def _pair(paths: _Paths, one: int, other: int) -> Pair:
    both = (paths[one, other], paths[other, one])
    return Pair((one, other), min(both, key=lambda connection: connection.bandwidth))


def _for_ring(paths: _Paths, indices: Sequence[int]) -> list[list[float]]:
    """Returns the GB/s of each hop. A hop through a third GPU counts no more than the slowest direct NVLink of the set.

    So a ring over direct NVLinks never loses to a ring through third GPUs. NCCL uses such a ring if it finds one.
    """
    slowest = min((path.bandwidth for path in paths.values() if path.type is PathType.NVL), default=0.0)

    def hop(path: Connection) -> float:
        return min(path.bandwidth, slowest) if path.type is PathType.NVB else path.bandwidth

    return [[hop(paths[index, other]) if index != other else 0.0 for other in indices] for index in indices]


def _bridged(paths: _Paths, indices: Sequence[int]) -> frozenset[tuple[int, int]]:
    """Returns the positions of the pairs that have NVLink only through a third GPU."""
    numbered = combinations(enumerate(indices), 2)
    return frozenset((i, j) for (i, one), (j, other) in numbered if paths[one, other].type is PathType.NVB)


_WITHOUT_NVLINK: Mapping[PathType, LinkClass] = {
    PathType.C2C: LinkClass.PHB,  # through the CPU: the class names what NCCL_P2P_LEVEL can allow
    PathType.PIX: LinkClass.PIX,
    PathType.PXB: LinkClass.PXB,
    PathType.PHB: LinkClass.PHB,
    PathType.SYS: LinkClass.SYS,
}


def _link_class(members: Sequence[Gpu], pairs: Sequence[Pair]) -> LinkClass:
    if not pairs:
        return LinkClass.SINGLE
    types = {pair.connection.type for pair in pairs}
    if types == {PathType.NVL}:
        return LinkClass.NVSWITCH if all(gpu.switch_links for gpu in members) else LinkClass.NVLINK
    if PathType.NVL in types:
        return LinkClass.PARTIAL
    return _WITHOUT_NVLINK[max(types, key=lambda kind: kind.rank)]


def _over_nvlink(members: Sequence[Gpu], between: Connections, order: Sequence[int]) -> float:
    """Returns the GB/s of rings over NVLink alone; 0 if there is none."""
    direct = [[_direct_bandwidth(between, one, other) for other in members] for one in members]
    indices = [gpu.index for gpu in members]
    switched = [between.into_switches(index, indices) for index in indices]
    return cut_bandwidth(direct, switched, order)


def _both_ways(paths: _Paths, ring: Sequence[int], between: Connections) -> float:
    """Returns the GB/s of a ring with channels in both directions; 0 if that is no more than its slowest hop."""
    hops = list(neighbours(ring))
    types = {paths[hop].type for hop in hops if hop in paths}
    if len(types) < 2 and PathType.SYS not in types:
        return 0.0  # links of one kind are as full in one direction as in the other
    if PathType.SYS in types and between.tree.cpu_vendor == AMD:
        return 0.0  # NCCL gives all channels one order, through an AMD CPU to another NUMA node: src/graph/search.cc
    ways = (*hops, *((other, one) for one, other in hops))
    return both_ways(load for one, other in ways for load in between.loads(one, other, ring))


def _direct_bandwidth(between: Connections, gpu: Gpu, other: Gpu) -> float:
    if gpu is other or (gpu.switch_links and other.switch_links):
        return 0.0
    connection = between.direct(gpu.index, other.index)
    return connection.bandwidth if connection.type is PathType.NVL else 0.0


def _near_nics(topology: NodeTopology, members: Sequence[Gpu], tree: PcieTree) -> tuple[NicAffinity, ...]:
    near: dict[tuple[int, str], list[int]] = {}
    for gpu in members:
        paths = {nic.name: tree.path(gpu, nic) for nic in topology.nics}
        nearest = min((path.rank for path in paths.values()), default=0)
        for name, path in paths.items():
            if path.rank == nearest:
                near.setdefault((path.rank, name), []).append(gpu.index)
    order = [nic.name for nic in topology.nics]
    return tuple(
        NicAffinity(name=name, path=list(PciePath)[rank], gpus=tuple(gpus))
        for (rank, name), gpus in sorted(near.items(), key=lambda entry: (entry[0][0], order.index(entry[0][1])))
    )


def links_doubt(topology: NodeTopology, gpu_set: GpuSet) -> str:
    """Return why it is not known how GPUs of a node are linked, in a sentence; empty if it is known."""
    if gpu_set.every_pair_has_nvlink or len(gpu_set.gpus) < 2 or topology.unread.isdisjoint(gpu_set.gpus):
        return ""
    problem = next((gpu.links_problem for gpu in topology.gpus if gpu.index in gpu_set.gpus and gpu.links_problem), "")
    labels = " ".join(f"GPU{index}" for index in gpu_set.gpus)
    return f"how {labels} of node {topology.node} are linked is not known: {problem or topology.problem}"


class Quality(NamedTuple):
    """The quality of one set or of the worst of several; the greater, the better."""

    link: float
    """The link class as a number from 0 to 1. NVSwitches and NVLinks between all pairs have the same value."""
    weakest: float
    """GB/s per direction of the weakest pair; infinite for a single GPU, which has no pairs."""
    mean: float
    """GB/s per direction over all pairs; infinite for a single GPU."""


def quality_of(chosen: GpuSet) -> Quality:
    """Returns the quality of a set."""
    link = LINK_VALUES[chosen.link]
    if chosen.weakest is None:
        return Quality(link, inf, inf)
    return Quality(link, round(chosen.bandwidth, 3), round(chosen.mean_bandwidth, 3))


def models_of(topology: NodeTopology, indices: Iterable[int]) -> frozenset[str]:
    """Returns the models of some GPUs of a node, without those that are not known."""
    wanted = frozenset(indices)
    return frozenset(gpu.name for gpu in topology.gpus if gpu.index in wanted and gpu.name)
