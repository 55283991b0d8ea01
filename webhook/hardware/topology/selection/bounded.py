"""The search for good sets among too many to look at each: the most promising ones first, within a limit of work."""

from collections.abc import Callable
from operator import add
from typing import NamedTuple

from webhook.hardware.topology.selection.pair_table import PairTable, mask_of, positions
from webhook.hardware.topology.selection.request import Policy, Request

MAX_FINALISTS = 8
"""The most equally good sets that are found; one where all pairs of the node have the same bandwidth."""
MAX_WORK = 250 * 16
"""The most partial sets that one search extends, times the GPUs of the node: 250 on a node of 16 GPUs."""

Rank = tuple[float, ...]
"""The value of a set, or an upper bound for it; the greater, the better."""


class _Part(NamedTuple):
    """A partial set."""

    mask: int
    weakest: float
    """GB/s of its weakest pair at most."""
    classes: int
    """The class bits of its pairs."""
    met: tuple[bool, ...]
    """For each constraint whether greater sets may meet it."""
    lows: list[float]
    """For each GPU of the node, GB/s to the GPU of the set to which it has least, at most."""
    gains: list[float]
    """For each GPU of the node, GB/s to all GPUs of the set together."""


class BoundedSearch:
    """A search that extends the most promising partial set first, and leaves out those that cannot be good enough.

    The value of a set is made of its constraints, its spread if the policy asks for that, its class, its weakest pair
    and its NUMA nodes.

    Args:
        table: The GPUs of the node.
        request: The request, for two GPUs or more.
        free: The GPUs of which a set may consist.
        met: Returns for each constraint whether a set meets it.
    """

    def __init__(self, table: PairTable, request: Request, free: int, met: Callable[[int], tuple[bool, ...]]) -> None:
        self._table, self._request, self._free, self._met = table, request, free, met
        self._helped = table.with_help(free)
        self._left = MAX_WORK // len(table.gpus)
        self._most = 1 if table.is_uniform(table.everything) else MAX_FINALISTS
        self._spreads = request.policy is Policy.SPREAD
        self._best: Rank = ()
        self._found: list[int] = []
        asked = request.constraints
        fast = [mask_of(most >= asked.min_bandwidth for most in row) for row in self._helped]
        on_node = [sum(node for node in table.numa.values() if node >> gpu & 1) for gpu in range(len(table.gpus))]
        self._mates = [
            *([table.nvlinked] if asked.require_nvlink else []),
            *([table.near(asked.min_level)] if asked.min_level else []),
            *([fast] if asked.min_bandwidth else []),
            *([on_node] if asked.same_numa else []),
        ]
        """For each constraint the GPUs with which each GPU may meet it."""
        self.exact = True
        """Whether no set that was left out has a better value."""

    def run(self) -> list[int]:
        """Returns the best sets that were found, at least one."""
        table, size = self._table, len(self._table.gpus)
        gains = [table.between(1 << gpu, self._free) for gpu in range(size)]
        self._descend(_Part(0, table.best, 0, (True,) * len(self._mates), [table.best] * size, gains), self._free)
        return self._found

    def _descend(self, part: _Part, candidates: int) -> None:
        """Looks at the sets that consist of a partial set and of candidates."""
        self._left -= 1
        missing, chosen = self._request.count - part.mask.bit_count(), positions(candidates)
        # The weakest pair is no better than the missing GPUs allow that fit best.
        weakest = min(part.weakest, sorted([part.lows[gpu] for gpu in chosen])[-missing])
        part = part._replace(weakest=weakest)
        ranked = []
        for gpu in chosen:
            spread = spread_rank(self._table, part.mask | 1 << gpu) if self._spreads else ()
            rank = self._rank(part, gpu, (missing - 1, candidates), spread)
            ranked.append((spread, rank, part.gains[gpu], -gpu))
        for _, rank, _, gpu in sorted(ranked, reverse=True):
            if self._left < 0 and self._found:
                self.exact = False
                return
            candidates &= ~(1 << -gpu)
            if rank < self._best or (rank == self._best and len(self._found) >= self._most):
                continue
            if missing == 1:
                self._offer(part.mask | 1 << -gpu, rank)
            elif candidates.bit_count() >= missing - 1:
                self._descend(self._extend(part, -gpu), candidates)

    def _offer(self, mask: int, rank: Rank) -> None:
        if self._table.has_bridges:
            met, weakest = self._met(mask), self._table.weakest(mask)
            rank = (*met, *rank[len(met) : -2], weakest, rank[-1])
        if rank > self._best:
            self._best, self._found = rank, []
        if rank == self._best:
            self._found.append(mask)

    def _extend(self, part: _Part, gpu: int) -> _Part:
        """Returns a partial set with one more GPU."""
        gains = self._table.bandwidth[gpu]
        return _Part(
            part.mask | 1 << gpu,
            min(part.weakest, part.lows[gpu]),
            part.classes | self._table.classes_to(gpu, part.mask),
            self._may_meet(part, gpu),
            list(map(min, part.lows, self._helped[gpu])),
            list(map(add, part.gains, gains)) if part.mask else gains,
        )

    def _may_meet(self, part: _Part, gpu: int) -> tuple[bool, ...]:
        return tuple([was and not part.mask & ~mates[gpu] for was, mates in zip(part.met, self._mates, strict=True)])

    def _rank(self, part: _Part, gpu: int, ahead: tuple[int, int], spread: Rank) -> Rank:
        """Returns an upper bound for the value of sets with one more GPU, and others that are missing then.

        Args:
            part: The partial set.
            gpu: The GPU.
            ahead: How many are missing then, and the GPUs that they can be.
            spread: The spread of the set with the GPU; empty if it does not matter.
        """
        table, mask, (missing, candidates) = self._table, part.mask | 1 << gpu, ahead
        touched = [node for node in table.numa_parts if node & mask]
        room = sum([(node & candidates).bit_count() for node in touched]) - 1
        if spread:
            numa, most_on_one, switches, most_below_one = spread
            numa, switches = min(numa + missing, len(table.numa_parts)), min(switches + missing, len(table.switches))
            spread = (numa, most_on_one, switches, most_below_one)
        link = table.links_ahead[part.classes | table.classes_to(gpu, part.mask)]
        weakest = min(part.weakest, part.lows[gpu])
        return (*self._may_meet(part, gpu), *spread, link, weakest, -len(touched) - (room < missing))


def spread_rank(table: PairTable, mask: int) -> tuple[int, int, int, int]:
    """Returns the rank of a set by its spread: the most NUMA nodes, the fewest GPUs on each; then PCIe switches."""
    on_node = [share for part in table.numa_parts if (share := (part & mask).bit_count())]
    below = [share for part in table.switches if (share := (part & mask).bit_count())]
    return len(on_node), -max(on_node), len(below), -max(below)
