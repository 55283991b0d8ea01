"""The worth of the free GPUs of a node to jobs that come later: the sets into which they can be divided."""

from collections.abc import Callable, Sequence
from itertools import combinations

from webhook.hardware.topology.selection.pair_table import PairTable, positions

SIZES = (2, 4, 8)
"""The sizes of jobs that share a node; a job of three takes a set of four apart."""
EXACT = 8
"""The most free GPUs for which the best division is found. With more, the best set of each size is taken away in turn.
On NVSwitches every division is the same."""
_KEPT = 4096


class Packing:
    """The sets into which the GPUs of a node can be divided.

    A set is worth the bandwidth of its weakest pair in GB/s per direction, times its size. Links through a third GPU do
    not count, because several sets would share them.

    Args:
        table: The GPUs of the node.
    """

    def __init__(self, table: PairTable) -> None:
        self.is_uniform = table.is_uniform(table.everything)
        """Whether all pairs have the same bandwidth, so that it does not matter to others which GPUs a job takes."""
        self._worths: dict[int, float] = {}
        self._by_bandwidth = _Division(table.bandwidth)
        self._by_links = _Division([[float(value > 0) for value in row] for row in table.linked])

    def worth(self, free: int) -> float:
        """Returns the worth of a set of free GPUs: that of the best division into pairs, into fours and into eights.

        Args:
            free: The positions of the free GPUs in the table, as a mask.
        """
        if free not in self._worths:
            if len(self._worths) >= _KEPT:
                self._worths.clear()
            self._worths[free] = sum(size * self._by_bandwidth.sum_of(free, size) for size in SIZES)
        return self._worths[free]

    def linked(self, free: int, size: int) -> int:
        """Returns the most disjoint sets of one size in which every pair has direct NVLinks.

        Args:
            free: The positions of the free GPUs in the table, as a mask.
            size: The number of GPUs in a set.
        """
        return round(self._by_links.sum_of(free, size))


class _Division:
    """The best division of GPUs into sets of one size, by the least value between any two GPUs of each set."""

    def __init__(self, values: Sequence[Sequence[float]]) -> None:
        self._values = values
        different = {values[one][other] for one, other in combinations(range(len(values)), 2)}
        self._common = different.pop() if len(different) == 1 else None
        self._known: dict[tuple[int, int], float] = {}

    def sum_of(self, free: int, size: int) -> float:
        """Returns the greatest sum of the least values of disjoint sets."""
        number = free.bit_count() // size
        if not number:
            return 0.0
        if self._common is not None:
            return number * self._common
        if free.bit_count() > EXACT:
            return self._in_turn(free, size, number)
        if len(self._known) >= _KEPT:
            self._known.clear()
        return self._best(free, size)

    def _best(self, free: int, size: int) -> float:
        if free.bit_count() < size:
            return 0.0
        known = self._known.get((free, size))
        if known is None:
            known = self._known[free, size] = max(self._with_or_without_lowest(free, size))
        return known

    def _with_or_without_lowest(self, free: int, size: int) -> list[float]:
        lowest, *others = positions(free)
        found = [self._best(free & free - 1, size)] if free.bit_count() % size else []
        for mates in combinations(others, size - 1):
            members = (lowest, *mates)
            rest = free & ~sum(1 << member for member in members)
            found.append(self._least(members) + self._best(rest, size))
        return found

    def _in_turn(self, free: int, size: int, number: int) -> float:
        """Returns the sum for sets that are taken away one after the other, each grown from the best pair left."""
        total, left, values = 0.0, positions(free), self._values
        for _ in range(number):
            members = [*max(combinations(left, 2), key=lambda pair: values[pair[0]][pair[1]])]
            while len(members) < size:
                others = [other for other in left if other not in members]
                members.append(max(others, key=_least_to(values, members)))
            total += self._least(members)
            left = [other for other in left if other not in members]
        return total

    def _least(self, members: Sequence[int]) -> float:
        return min(self._values[one][other] for one, other in combinations(members, 2))


def _least_to(values: Sequence[Sequence[float]], members: Sequence[int]) -> Callable[[int], float]:
    return lambda other: min(values[other][member] for member in members)
