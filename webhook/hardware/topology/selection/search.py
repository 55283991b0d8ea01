"""The best sets of one size, found for certain: each set is looked at, or shown to be no better than one that was."""

from bisect import insort
from dataclasses import dataclass
from math import inf
from operator import add
from typing import NamedTuple

from webhook.hardware.topology.selection.order import Order, Rank
from webhook.hardware.topology.selection.pair_table import PairTable, positions
from webhook.hardware.topology.selection.score import Ahead, Part, Scale

MAX_FINALISTS = 4
"""Equally good sets that are kept, so that their rings can be compared: those with the lowest indices."""
SAME = 1e-9
"""Scores no farther apart are equal: sums of the same numbers in another order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Aim:
    """What is looked for: sets of ``count`` GPUs out of ``free`` ones."""

    table: PairTable
    scale: Scale
    order: Order
    free: int
    count: int
    partners: list[int]
    """For each GPU the others with which it may be in a set."""
    least: float
    """GB/s per direction that the weakest pair must have."""
    before: list[int]
    """For each GPU the bit of one that must be in its sets: it is as good, and its index is lower."""


class Finalists:
    """The best sets so far: by rank, then by score, then by what they take from the GPUs that stay free.

    Args:
        free: The free GPUs.
        worths: What each pair is worth, row by row.
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
        """The sets, those with the lowest indices first."""
        return [mask for _, mask in self._sets]

    def accept(self, rank: Rank, score: float) -> bool:
        """Whether a set with this rank and score is as good as these, or better."""
        return rank > self.rank or (rank == self.rank and score >= self.score - SAME)

    def offer(self, mask: int, rank: Rank, score: float) -> None:
        """Take a set that is as good as these; a better one drops them."""
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
        """What the pairs between a set and the other free GPUs are worth."""
        within = sum([sum([row[other] for other in members]) for row in map(self._worths.__getitem__, members)])
        return sum([self._to_free[member] for member in members]) - within


class _Outlook(NamedTuple):
    """What each GPU of the node, by position, would have with a part."""

    gains: list[float]
    """With all of it together."""
    nvlinks: list[float]
    """The same over NVLinks of its own."""
    lows: list[float]
    """With the GPU to which it has least; more if members that are still to come can help."""


class ExactSearch:
    """Goes through the sets GPU by GPU, the lowest first, and turns back where nothing as good can come.

    Args:
        aim: What is looked for.
        finalists: Take the sets.
    """

    def __init__(self, aim: Aim, finalists: Finalists) -> None:
        self._aim, self._table, self._scale, self._finalists = aim, aim.table, aim.scale, finalists
        self._helped = aim.table.with_help(aim.free)
        self._has_nvlinks = any(aim.table.nvlinked)
        self._helps = aim.table.has_bridges and (aim.scale.weakest_counts or aim.least > 0)
        self._ahead: list[list[float]] = []
        self._nvlinks_ahead: list[list[float]] = []

    def run(self, pool: int) -> None:
        """Look at all sets within ``pool``."""
        self._ahead = _most(self._table.bandwidth, pool, self._aim.count)
        self._nvlinks_ahead = _most(self._table.linked, pool, self._aim.count)
        size = len(self._helped)
        outlook = _Outlook([0.0] * size, [0.0] * size, [self._table.best] * size)
        self._descend(self._scale.nothing, [], pool, outlook)

    def _descend(self, part: Part, members: list[int], candidates: int, outlook: _Outlook) -> None:
        """Look at all sets that consist of a part and of candidates.

        Args:
            part: What there is so far.
            members: Its positions.
            candidates: Partners of all of them, each behind all of them.
            outlook: What they have with the part.
        """
        missing = self._aim.count - len(members) - 1
        nvlinks_ahead = self._nvlinks_ahead[missing]
        for position in positions(candidates):
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
        """Whether a part can become as good as the finalists: never wrongly no."""
        rank = self._aim.order.promise(part.mask, missing, candidates)
        if not self._finalists.accept(rank, inf):
            return False
        ahead, chosen = self._ahead[missing - 1], positions(candidates)
        # A pair of two candidates counts by half for each.
        gains = sorted([outlook.gains[position] + ahead[position] / 2 for position in chosen])
        lows = sorted([outlook.lows[position] for position in chosen])
        best = Ahead(missing, candidates, sum(gains[-missing:]), lows[-missing])
        return self._finalists.accept(rank, self._scale.promise(part, best))

    def _finish(self, whole: Part) -> None:
        rank = self._aim.order.rank(whole.mask)
        if not self._finalists.accept(rank, self._scale.score(whole)):
            return
        if self._helps:
            whole.weakest = self._table.weakest(whole.mask)
        if whole.weakest >= self._aim.least:
            self._finalists.offer(whole.mask, rank, self._scale.score(whole))


def _most(bandwidth: list[list[float]], pool: int, count: int) -> list[list[float]]:
    """By a number of others, up to ``count`` - 1: what each GPU has at most with so many of a pool together."""
    members = positions(pool)
    rows = [sorted([row[other] for other in members], reverse=True) for row in bandwidth]
    result = [[0.0] * len(rows)]
    for others in range(min(count, len(members)) - 1):
        result.append([total + row[others] for total, row in zip(result[-1], rows, strict=True)])
    return result
