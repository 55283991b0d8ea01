"""The pairs of a node's GPUs as rows and bit masks, for a fast choice among thousands of sets.

Inside a table a GPU is identified by its position among the usable GPUs, in the order of their indices. A set is a mask
with the bits of its positions. Bandwidths are GB/s per direction, of the slower direction.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from webhook.hardware.topology.connections import Connections, PathType
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.pcie import PciePath
from webhook.words.choices import Level

NVL = 1
"""The bit of pairs with direct NVLinks; each farther class has the next bit."""
CLASS_BITS = {PathType.NVL: NVL, PathType.C2C: 2, PathType.PIX: 4, PathType.PXB: 8, PathType.PHB: 16, PathType.SYS: 32}

_TYPES = {Level.NVLINK: PathType.NVL, Level.PIX: PathType.PIX, Level.PXB: PathType.PXB, Level.PHB: PathType.PHB}
"""The farthest type of connection of each level."""

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
        self.same_switch: list[int] = []
        """For each GPU the other GPUs below its PCIe switch."""
        for one in self.gpus:
            links = [connections.direct(one.index, other.index) if one is not other else None for other in self.gpus]
            back = [connections.direct(other.index, one.index) if one is not other else None for other in self.gpus]
            self._directions.append(
                [
                    (there.bandwidth, again.bandwidth, CLASS_BITS[there.type]) if there and again else (0.0, 0.0, 0)
                    for there, again in zip(links, back, strict=True)
                ]
            )
            self.same_switch.append(mask_of(link is not None and link.pcie is PciePath.PIX for link in links))
        self.bandwidth = [[min(sent, received) for sent, received, _ in row] for row in self._directions]
        """The bandwidth of each pair without a third GPU, row by row."""
        self.best = max(map(max, self.bandwidth), default=0.0)
        """The greatest bandwidth of all pairs."""
        self.nvlinked = [mask_of(bit == NVL for _, _, bit in row) for row in self._directions]
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

    def near(self, level: Level) -> list[int]:
        """Returns for each GPU the GPUs to which its connection is no farther than a level."""
        farthest = CLASS_BITS[_TYPES[level]]
        return [mask_of(0 < bit <= farthest for _, _, bit in row) for row in self._directions]

    def type_of(self, one: int, other: int) -> PathType:
        """Returns the type of the connection between two GPUs."""
        bit = self._directions[one][other][2]
        return next(path for path, its in CLASS_BITS.items() if its == bit)

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

    def narrowest(self, mask: int) -> float:
        """Returns the least bandwidth that a GPU of a set has to all others together, over direct NVLinks."""
        chosen = positions(mask)
        return min(sum([self.linked[one][other] for other in chosen]) for one in chosen)

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
        return far | NVL if linked else far

    def with_help(self, among: int) -> list[list[float]]:
        """Returns the most bandwidth that each pair can have in a set out of ``among``, row by row.

        The bandwidth is direct or through a third GPU.
        """
        result = [list(row) for row in self.bandwidth]
        for one, other in self._bridges:
            result[one][other] = result[other][one] = max(self.bandwidth[one][other], self._through(one, other, among))
        return result

    def interchangeable(self, one: int, other: int, among: int) -> bool:
        """Returns whether two GPUs have the same connections to all others of ``among``, PCIe switches included."""
        others = among & ~(1 << one | 1 << other)
        if (self.same_switch[one] ^ self.same_switch[other]) & others:
            return False
        row, second = self._directions[one], self._directions[other]
        return all(row[third] == second[third] for third in positions(others))

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
