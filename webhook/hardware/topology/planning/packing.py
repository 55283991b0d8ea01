"""The worth of the free GPUs of a node to jobs that come later: the sets into which they can be divided."""

from collections.abc import Sequence
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
        self._table = table
        self._is_uniform = table.is_uniform(table.everything)
        self._worths: dict[int, float] = {}
        self._divided: dict[tuple[int, int], float] = {}

    @property
    def is_uniform(self) -> bool:
        """Whether all pairs are alike, so that it does not matter which GPUs a job takes."""
        return self._is_uniform

    def worth(self, free: int) -> float:
        """Returns the worth of a set of free GPUs: that of the best division into pairs, into fours and into eights.

        Args:
            free: The positions of the free GPUs in the table, as a mask.
        """
        if free not in self._worths:
            if len(self._worths) >= _KEPT:
                self._worths.clear()
                self._divided.clear()
            self._worths[free] = sum(size * self._division(free, size) for size in SIZES)
        return self._worths[free]

    def _division(self, free: int, size: int) -> float:
        """Returns the greatest sum of the bandwidths of disjoint sets of one size."""
        number = free.bit_count() // size
        if not number:
            return 0.0
        if self._is_uniform:
            return number * self._table.best
        return self._best(free, size) if free.bit_count() <= EXACT else self._in_turn(free, size, number)

    def _best(self, free: int, size: int) -> float:
        if free.bit_count() < size:
            return 0.0
        known = self._divided.get((free, size))
        if known is None:
            known = self._divided[free, size] = max(self._with_or_without_lowest(free, size))
        return known

    def _with_or_without_lowest(self, free: int, size: int) -> list[float]:
        lowest, *others = positions(free)
        found = [self._best(free & free - 1, size)] if free.bit_count() % size else []
        for mates in combinations(others, size - 1):
            members = (lowest, *mates)
            rest = free & ~sum(1 << member for member in members)
            found.append(self._weakest(members) + self._best(rest, size))
        return found

    def _in_turn(self, free: int, size: int, number: int) -> float:
        """Returns the sum for sets that are taken away one after the other, each grown from the best pair left."""
        total, left = 0.0, positions(free)
        for _ in range(number):
            row = self._table.bandwidth
            members = [*max(combinations(left, 2), key=lambda pair: row[pair[0]][pair[1]])]
            while len(members) < size:
                others = [other for other in left if other not in members]
                members.append(max(others, key=lambda other: min(row[other][member] for member in members)))
            total += self._weakest(members)
            left = [other for other in left if other not in members]
        return total

    def _weakest(self, members: Sequence[int]) -> float:
        return min(self._table.bandwidth[one][other] for one, other in combinations(members, 2))
