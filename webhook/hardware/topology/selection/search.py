"""The exact search for the best sets of one size: each set is examined, or proven no better than an examined set."""

from bisect import insort
from dataclasses import dataclass
from math import inf
from operator import add
from typing import NamedTuple

from webhook.hardware.topology.selection.order import Order, Rank
from webhook.hardware.topology.selection.pair_table import PairTable, positions
from webhook.hardware.topology.selection.score import Ahead, Part, Scale

MAX_FINALISTS = 4
"""The most equally good sets that are kept to compare their rings: those with the lowest indices."""
MAX_WORK = 2_048 * 64**2
"""The most partial sets that one search extends, times the square of the GPUs of the node: 32,768 on a node of 16 GPUs,
where searches need up to about 9,000, and 2,048 on one of 64. A partial set costs time with the number of GPUs,
a whole one whose pairs may go through third GPUs with the number of pairs: it counts as one for each of its GPUs."""
SAME = 1e-9
"""The difference up to which scores are equal, because sums of the same numbers in another order may differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Aim:
    """The aim of a search: sets of ``count`` GPUs out of ``free``."""

    table: PairTable
    scale: Scale
    order: Order
    free: int
    count: int
    partners: list[int]
    """For each GPU the other GPUs with which it may be in a set."""
    least: float
    """GB/s per direction that the weakest pair must have."""
    before: list[int]
    """For each GPU the bit of an equivalent GPU with a lower index, which must be in its sets."""


class Finalists:
    """The best sets so far: by rank, then by score, then by the worth of their pairs with GPUs that stay free.

    Args:
        free: The free GPUs.
        worths: The worth of each pair, row by row.
    """

    def __init__(self, free: int, worths: list[list[float]]) -> None:
        self._worths = worths
        self._to_free = [sum(row[other] for other in positions(free)) for row in worths]
        self._sets: list[tuple[list[int], int]] = []
        self._taken = 0.0
        self.rank: Rank = ()
        self.score = -1.0

    @property
    def masks(self) -> list[int]:
        """The masks of the sets, those with the lowest indices first."""
        return [mask for _, mask in self._sets]

    def accept(self, rank: Rank, score: float) -> bool:
        """Returns whether a set with this rank and score is at least as good as the finalists."""
        return rank > self.rank or (rank == self.rank and score >= self.score - SAME)

    def offer(self, mask: int, rank: Rank, score: float) -> None:
        """Adds a set that is as good as the finalists. A better set replaces them, a worse one is ignored."""
        if not self.accept(rank, score):
            return
        members = positions(mask)
        taken = self._takes(members)
        better = rank > self.rank or score > self.score + SAME
        if better or not self._sets or taken < self._taken - SAME:
            self.rank, self.score, self._taken, self._sets = rank, score, taken, []
        if taken <= self._taken + SAME:
            insort(self._sets, (members, mask))
            del self._sets[MAX_FINALISTS:]

    def _takes(self, members: list[int]) -> float:
        """Returns the sum of the worths of the pairs between a set and the other free GPUs."""
        within = sum([sum([row[other] for other in members]) for row in map(self._worths.__getitem__, members)])
        return sum([self._to_free[member] for member in members]) - within


class _Outlook(NamedTuple):
    """The bandwidths that each GPU of the node, by position, would have with a partial set."""

    gains: list[float]
    """GB/s to all GPUs of the set together."""
    nvlinks: list[float]
    """GB/s to all GPUs of the set together, over direct NVLinks."""
    lows: list[float]
    """GB/s to the GPU of the set to which it has least, with the help of members that may still be added."""


class ExactSearch:
    """A search that builds the sets GPU by GPU, the lowest first, and leaves out those that cannot be good enough.

    It gives up after ``MAX_WORK``.

    Args:
        aim: The aim of the search.
        finalists: The finalists, to which found sets are offered.
    """

    def __init__(self, aim: Aim, finalists: Finalists) -> None:
        self._aim, self._table, self._scale, self._finalists = aim, aim.table, aim.scale, finalists
        self._helped = aim.table.with_help(aim.free)
        self._has_nvlinks = any(aim.table.nvlinked)
        self._helps = aim.table.has_bridges and (aim.scale.weakest_counts or aim.least > 0)
        self._ahead: list[list[float]] = []
        self._nvlinks_ahead: list[list[float]] = []
        self._left = MAX_WORK // max(1, len(aim.table.gpus)) ** 2

    @property
    def gave_up(self) -> bool:
        """Whether the search gave up, so that sets were left out."""
        return self._left < 0

    def run(self, pool: int) -> None:
        """Searches all sets within ``pool``."""
        self._ahead = _most(self._table.bandwidth, pool, self._aim.count)
        self._nvlinks_ahead = _most(self._table.linked, pool, self._aim.count)
        size = len(self._helped)
        outlook = _Outlook([0.0] * size, [0.0] * size, [self._table.best] * size)
        self._descend(self._scale.nothing, [], pool, outlook)

    def _descend(self, part: Part, members: list[int], candidates: int, outlook: _Outlook) -> None:
        """Searches all sets that consist of a partial set and of candidates.

        Args:
            part: The partial set so far.
            members: Its positions.
            candidates: GPUs that are partners of all members and come after all of them.
            outlook: The bandwidths of all GPUs with the partial set.
        """
        self._left -= 1
        missing = self._aim.count - len(members) - 1
        nvlinks_ahead = self._nvlinks_ahead[missing]
        for position in positions(candidates):
            if self.gave_up:
                return
            candidates &= -2 << position
            behind = candidates & self._aim.partners[position]
            if self._aim.before[position] & ~part.mask or behind.bit_count() < missing:
                continue
            extended = [*members, position]
            nvlinks = outlook.nvlinks
            if self._has_nvlinks:
                nvlinks = list(map(add, nvlinks, self._table.linked[position]))
            longer = self._scale.extend(
                part,
                position,
                total=outlook.gains[position],
                weakest=min(part.weakest, outlook.lows[position]),
                narrowest=min([nvlinks[gpu] + nvlinks_ahead[gpu] for gpu in extended]),
            )
            if not missing:
                self._finish(longer)
                continue
            further = _Outlook(
                list(map(add, outlook.gains, self._table.bandwidth[position])),
                nvlinks,
                list(map(min, outlook.lows, self._helped[position])),
            )
            if self._promises(longer, behind, further, missing):
                self._descend(longer, extended, behind, further)

    def _promises(self, part: Part, candidates: int, outlook: _Outlook, missing: int) -> bool:
        """Returns whether a partial set may become as good as the finalists. False is always right."""
        rank = self._aim.order.promise(part.mask, missing, candidates)
        if not self._finalists.accept(rank, inf):
            return False
        ahead, chosen = self._ahead[missing - 1], positions(candidates)
        # A pair of two candidates counts half for each of them.
        gains = sorted([outlook.gains[position] + ahead[position] / 2 for position in chosen])
        lows = sorted([outlook.lows[position] for position in chosen])
        best = Ahead(missing, candidates, sum(gains[-missing:]), lows[-missing])
        return self._finalists.accept(rank, self._scale.promise(part, best))

    def _finish(self, whole: Part) -> None:
        rank = self._aim.order.rank(whole.mask)
        if not self._finalists.accept(rank, self._scale.score(whole)):
            return
        if self._helps:
            self._left -= self._aim.count
            whole.weakest = self._table.weakest(whole.mask)
        if whole.weakest >= self._aim.least:
            self._finalists.offer(whole.mask, rank, self._scale.score(whole))


def _most(bandwidth: list[list[float]], pool: int, count: int) -> list[list[float]]:
    """Returns the most bandwidth of each GPU to n GPUs of a pool together, for each n below ``count``."""
    members = positions(pool)
    rows = [sorted([row[other] for other in members], reverse=True) for row in bandwidth]
    result = [[0.0] * len(rows)]
    for others in range(min(count, len(members)) - 1):
        result.append([total + row[others] for total, row in zip(result[-1], rows, strict=True)])
    return result
