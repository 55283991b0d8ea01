"""A heuristic search for a good set among too many to examine all: grown or peeled, then improved by exchanges."""

from collections.abc import Iterator

from webhook.hardware.topology.selection.order import Rank
from webhook.hardware.topology.selection.pair_table import positions
from webhook.hardware.topology.selection.search import SAME, Aim, Finalists

MAX_STARTS = 8
"""The most GPUs from which sets are grown: those with the greatest sum of pair worths."""
MAX_TRIES = 500
"""The most sets that one search weighs in its exchanges."""
MAX_WEIGHED = MAX_TRIES * 16**2
"""The most sets that one search weighs, times the square of their GPUs: each pair of a set is looked at."""

_Key = tuple[bool, Rank, float]
"""Whether a set may be taken, its rank and its score."""


class ExchangeSearch:
    """A search for sets that no exchange of one GPU improves, within a number of tries. They need not be the best.

    It starts with two kinds of sets. Some are grown from a single GPU: each step adds the GPU that adds most. One is
    peeled from all GPUs: each step removes the GPU that adds least. Then the search exchanges one GPU of a set for
    another as long as that improves the set.

    Args:
        aim: The aim of the search.
        finalists: The finalists, to which found sets are offered.
        worths: The worth of each pair, row by row.
    """

    def __init__(self, aim: Aim, finalists: Finalists, worths: list[list[float]]) -> None:
        self._aim, self._finalists, self._worths = aim, finalists, worths
        self._tries = 0

    def run(self, pool: int) -> None:
        """Searches the sets within ``pool``."""
        starts = sorted(positions(pool), key=lambda position: -self._adds(position, pool))[:MAX_STARTS]
        begun = {self._peel(pool), *(self._grow(1 << start, pool) for start in starts)}
        weighed = [(self._weigh(mask), -mask, mask) for mask in begun if self._is_complete(mask)]
        self._tries = min(MAX_TRIES, MAX_WEIGHED // self._aim.count**2)
        for key, _, mask in sorted(weighed, reverse=True):
            (fits, rank, score), best = self._exchange(key, mask, pool)
            if fits:
                self._finalists.offer(best, rank, score)

    def _grow(self, mask: int, pool: int) -> int:
        candidates = self._partners(mask, pool)
        for missing in reversed(range(self._aim.count - 1)):
            if not candidates:
                break
            mask |= max((self._growth(mask | 1 << gpu, gpu, missing), 1 << gpu) for gpu in positions(candidates))[1]
            candidates = self._partners(mask, pool)
        return mask

    def _growth(self, mask: int, added: int, missing: int) -> tuple[Rank, float, int]:
        return self._aim.order.rank(mask, missing), self._adds(added, mask), -added

    def _peel(self, mask: int) -> int:
        while mask.bit_count() > self._aim.count:
            mask ^= 1 << min((self._adds(gpu, mask), -gpu, gpu) for gpu in positions(mask))[2]
        return mask

    def _exchange(self, key: _Key, mask: int, pool: int) -> tuple[_Key, int]:
        """Improves a set by exchanges, and returns the last and best set."""
        better: tuple[_Key, int] | None = (key, mask)
        while better:
            key, mask = better
            better = next(
                ((found, other) for found, other in self._neighbours(mask, pool) if _better(found, key)), None
            )
        return key, mask

    def _neighbours(self, mask: int, pool: int) -> Iterator[tuple[_Key, int]]:
        """Yields the sets that differ in one GPU: those that lose least and gain most first."""
        for leaving in sorted(positions(mask), key=lambda gpu: self._adds(gpu, mask)):
            rest = mask ^ 1 << leaving
            entering = positions(self._partners(rest, pool) & ~mask)
            for gpu in sorted(entering, key=lambda gpu: -self._adds(gpu, rest)):
                if not self._tries:
                    return
                self._tries -= 1
                yield self._weigh(rest | 1 << gpu), rest | 1 << gpu

    def _weigh(self, mask: int) -> _Key:
        whole = self._aim.scale.measure(mask)
        return whole.weakest >= self._aim.least, self._aim.order.rank(mask), self._aim.scale.score(whole)

    def _adds(self, gpu: int, mask: int) -> float:
        """Returns the sum of the worths of the pairs between a GPU and a set."""
        row = self._worths[gpu]
        return sum(row[other] for other in positions(mask))

    def _partners(self, mask: int, pool: int) -> int:
        """Returns the GPUs that may be in a set together with all of its members."""
        found = pool & ~mask
        for gpu in positions(mask):
            found &= self._aim.partners[gpu]
        return found

    def _is_complete(self, mask: int) -> bool:
        members = positions(mask)
        return len(members) == self._aim.count and all(
            not mask & ~self._aim.partners[member] & ~(1 << member) for member in members
        )


def _better(one: _Key, other: _Key) -> bool:
    return one[:2] > other[:2] or (one[:2] == other[:2] and one[2] > other[2] + SAME)
