"""The pairs of a node's GPUs, and the parts of the node, as rows and bit masks: for a fast choice among many sets.

Inside a table a GPU is identified by its position among the usable GPUs, in the order of their indices. A set is a mask
with the bits of its positions. Bandwidths are GB/s per direction, of the slower direction.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations

from webhook.hardware.topology.connections import Connections, PathType
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.pcie import PciePath
from webhook.hardware.topology.sets import LINK_VALUES, LinkClass
from webhook.words.choices import Level

_NVL = 1
"""The bit of pairs with direct NVLinks; each farther class has the next bit."""
_CLASS_BITS = {
    PathType.NVL: _NVL,
    PathType.C2C: 2,
    PathType.PIX: 4,
    PathType.PXB: 8,
    PathType.PHB: 16,
    PathType.SYS: 32,
}

_TYPES = {Level.NVLINK: PathType.NVL, Level.PIX: PathType.PIX, Level.PXB: PathType.PXB, Level.PHB: PathType.PHB}
"""The farthest type of connection of each level."""

_BY_BIT = (LinkClass.NVLINK, LinkClass.PHB, LinkClass.PIX, LinkClass.PXB, LinkClass.PHB, LinkClass.SYS)
"""Link classes in the order of ``_CLASS_BITS``. C2C goes through the CPU, as PHB does."""
_LINKS = tuple(
    LINK_VALUES[LinkClass.PARTIAL if bits & _NVL and bits != _NVL else _BY_BIT[bits.bit_length() - 1]]
    if bits
    else LINK_VALUES[LinkClass.SINGLE]
    for bits in range(2 ** len(_BY_BIT))
)
"""The link value of a set by the class bits of its pairs."""

_Levels = tuple[tuple[float, int], ...]
"""Values, each with the positions that have it, in the order in which they are searched."""


class PairTable:
    """The usable GPUs of a node, pair by pair, without lost GPUs and those in MIG mode.

    Args:
        topology: The node.
        connections: The connections between its GPUs.
    """

    def __init__(self, topology: NodeTopology, connections: Connections) -> None:
        self.gpus = tuple(gpu for gpu in topology.gpus if gpu.mig_mode is not MigMode.ENABLED)
        self.everything = (1 << len(self.gpus)) - 1
        self._directions: list[list[tuple[float, float, int]]] = []
        """Bandwidth sent, bandwidth received and class bit of each pair, row by row."""
        same_switch: list[int] = []
        for one in self.gpus:
            links = [connections.direct(one.index, other.index) if one is not other else None for other in self.gpus]
            back = [connections.direct(other.index, one.index) if one is not other else None for other in self.gpus]
            self._directions.append(
                [
                    (there.bandwidth, again.bandwidth, _CLASS_BITS[there.type]) if there and again else (0.0, 0.0, 0)
                    for there, again in zip(links, back, strict=True)
                ]
            )
            same_switch.append(mask_of(link is not None and link.pcie is PciePath.PIX for link in links))
        self.bandwidth = [[min(sent, received) for sent, received, _ in row] for row in self._directions]
        """The bandwidth of each pair without a third GPU, row by row."""
        self.best = max(map(max, self.bandwidth), default=0.0)
        """The greatest bandwidth of all pairs."""
        self.nvlinked = [mask_of(bit == _NVL for _, _, bit in row) for row in self._directions]
        """For each GPU the GPUs to which it has direct NVLinks."""
        self.linked = [
            [bandwidth if linked >> other & 1 else 0.0 for other, bandwidth in enumerate(row)]
            for row, linked in zip(self.bandwidth, self.nvlinked, strict=True)
        ]
        """The bandwidth of each pair over direct NVLinks; 0 without."""
        classes = [[bit for _, _, bit in row] for row in self._directions]
        self._farthest = [_levels(bits, self.everything)[::-1] for bits in classes]
        self._slowest = [_levels(row, linked) for row, linked in zip(self.bandwidth, self.nvlinked, strict=True)]
        self._bridges = dict(self._find_bridges())
        self.has_bridges = bool(self._bridges)
        """Whether a pair without direct NVLinks can use NVLinks through a third GPU."""
        only = topology.cpus[0].numa_node if len(topology.cpus) == 1 else None
        numa_of = [only if gpu.numa_node is None else gpu.numa_node for gpu in self.gpus]
        known = sorted({node for node in numa_of if node is not None})
        self.numa = {node: mask_of(value == node for value in numa_of) for node in known}
        """The GPUs of each known NUMA node, by its number. A machine with one NUMA node need not name it."""
        self.unknown_numa = mask_of(value is None for value in numa_of)
        self.numa_parts = (*self.numa.values(), *([self.unknown_numa] if self.unknown_numa else []))
        """The NUMA nodes, and one more part for all GPUs of unknown NUMA node."""
        self.switches = _joined(same_switch)
        """The GPUs of each PCIe switch. A GPU without a switch, or alone below one, is a part by itself."""

    def near(self, level: Level) -> list[int]:
        """Returns for each GPU the GPUs to which its connection is no farther than a level."""
        farthest = _CLASS_BITS[_TYPES[level]]
        return [mask_of(0 < bit <= farthest for _, _, bit in row) for row in self._directions]

    def type_of(self, one: int, other: int) -> PathType:
        """Returns the type of the connection between two GPUs."""
        bit = self._directions[one][other][2]
        return next(path for path, its in _CLASS_BITS.items() if its == bit)

    def mask(self, indices: Iterable[int]) -> int:
        """Returns the set of the GPUs with these indices, without those that are not usable."""
        wanted = frozenset(indices)
        return mask_of(gpu.index in wanted for gpu in self.gpus)

    def indices(self, mask: int) -> tuple[int, ...]:
        """Returns the indices of the GPUs of a set, ascending."""
        return tuple(self.gpus[position].index for position in positions(mask))

    def total(self, mask: int) -> float:
        """Returns the sum of the bandwidths of the pairs of a set, without third GPUs."""
        return sum(self.bandwidth[one][other] for one, other in combinations(positions(mask), 2))

    def between(self, one: int, other: int) -> float:
        """Returns the sum of the bandwidths between the GPUs of two sets, without third GPUs."""
        others = positions(other)
        return sum([sum([row[gpu] for gpu in others]) for row in map(self.bandwidth.__getitem__, positions(one))])

    def link(self, mask: int) -> float:
        """Returns the value of the class of a set in ``LINK_VALUES``."""
        classes = 0
        for gpu in positions(mask):
            classes |= self.classes_to(gpu, mask ^ 1 << gpu)
        return _LINKS[classes]

    @cached_property
    def links_ahead(self) -> list[float]:
        """The most that ``link`` can be for a set whose pairs have certain class bits, and for greater sets."""
        present = 0
        for gpu in range(len(self.gpus)):
            present |= self.classes_to(gpu, self.everything ^ 1 << gpu)
        return [
            max(value for more, value in enumerate(_LINKS) if more & bits == bits and not more & ~(bits | present))
            for bits in range(len(_LINKS))
        ]

    def weakest(self, mask: int) -> float:
        """Returns the bandwidth of a set's weakest pair, through a third member if need be; ``best`` without pairs."""
        least = self.best
        for gpu in positions(mask):
            others = mask ^ 1 << gpu
            least = min(least, _first(self._slowest[gpu], others, least))
            for other in positions((others & ~self.nvlinked[gpu]) >> gpu):
                least = min(least, self._through(gpu, gpu + other, mask))
        return least

    def is_uniform(self, mask: int) -> bool:
        """Returns whether all pairs of a set have the same bandwidth, without third GPUs."""
        chosen = positions(mask)
        return len({self.bandwidth[one][other] for one, other in combinations(chosen, 2)}) <= 1

    def classes_to(self, gpu: int, others: int) -> int:
        """Returns the class bits between a GPU and others: NVLink if any pair has it, and the farthest other class."""
        linked = others & self.nvlinked[gpu]
        far = int(_first(self._farthest[gpu], others ^ linked, 0))
        return far | _NVL if linked else far

    def with_help(self, among: int) -> list[list[float]]:
        """Returns the most bandwidth that each pair can have in a set out of ``among``, row by row.

        The bandwidth is direct or through a third GPU.
        """
        result = [list(row) for row in self.bandwidth]
        for one, other in self._bridges:
            result[one][other] = result[other][one] = max(self.bandwidth[one][other], self._through(one, other, among))
        return result

    def _through(self, one: int, other: int, members: int) -> float:
        """Returns the bandwidth of a pair without direct NVLinks in a set: through the best member, else direct."""
        directions = self._bridges.get((one, other))
        helped = min([_first(levels, members, 0.0) for levels in directions]) if directions else 0.0
        return helped or self.bandwidth[one][other]

    def _find_bridges(self) -> Iterator[tuple[tuple[int, int], tuple[_Levels, ...]]]:
        """Yields for each pair without direct NVLinks its bandwidths through third GPUs, best first.

        There is one list for each direction, or one for both if they are equal.
        """
        for one, other in combinations(range(len(self.gpus)), 2):
            middles = self.nvlinked[one] & self.nvlinked[other]
            if middles and not self.nvlinked[one] >> other & 1:
                ends = list(zip(self._directions[one], self._directions[other], strict=True))
                there = _levels([min(first[0], second[1]) for first, second in ends], middles)[::-1]
                back = _levels([min(first[1], second[0]) for first, second in ends], middles)[::-1]
                yield (one, other), (there,) if there == back else (there, back)


def positions(mask: int) -> list[int]:
    """Returns the positions of a set, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def mask_of(members: Iterable[bool]) -> int:
    """Returns the set of the positions at which ``members`` is true."""
    return sum(1 << position for position, member in enumerate(members) if member)


def _joined(neighbours: Sequence[int]) -> tuple[int, ...]:
    """Returns the groups of positions that reach each other over neighbours, of which each position has a mask."""
    groups, left = [], (1 << len(neighbours)) - 1
    while left:
        group, new = 0, left & -left
        while new:
            group |= new
            reached = 0
            for position in positions(new):
                reached |= neighbours[position]
            new = reached & left & ~group
        groups.append(group)
        left &= ~group
    return tuple(groups)


def _levels(row: Sequence[float], among: int) -> _Levels:
    """Returns the values at the positions of a set, ascending, each with its positions."""
    found: dict[float, int] = {}
    for position in positions(among):
        found[row[position]] = found.get(row[position], 0) | 1 << position
    return tuple(sorted(found.items()))


def _first(levels: _Levels, mask: int, default: float) -> float:
    for value, holders in levels:
        if holders & mask:
            return value
    return default
