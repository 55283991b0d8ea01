"""The islands of a node: sets of GPUs of which any subset of the requested size is linked as the claim requires."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from webhook.decisions.claim_templates.cliques import maximal_cliques
from webhook.hardware.topology.planning.fleet import Build
from webhook.hardware.topology.selection.choice import NoChoice, Selector
from webhook.hardware.topology.selection.pair_table import PairTable, positions
from webhook.hardware.topology.selection.request import Request
from webhook.hardware.topology.sets import LinkClass, assess

MAX_LEVELS = 8
"""The most bandwidths of pairs that are distinguished on one node: the fastest, and the slowest that is enough."""
_CLASSES = list(LinkClass)


@dataclass(frozen=True, slots=True)
class Quality:
    """The least quality that a claim gets: the link class, and GB/s per direction of the weakest pair."""

    link: LinkClass
    bandwidth: float

    @property
    def rank(self) -> tuple[int, float]:
        """The rank of the quality, less is better: the class comes first, as in the choice of GPUs."""
        return _CLASSES.index(self.link), -self.bandwidth

    def __str__(self) -> str:
        return f"{self.link.value}, {self.bandwidth:.1f}".removesuffix(".0") + " GB/s"


def least(qualities: Sequence[Quality]) -> Quality:
    """Returns the least quality of all: the worst class, and the least bandwidth even if that is of another class."""
    return Quality(max(qualities, key=lambda each: each.rank).link, min(each.bandwidth for each in qualities))


@dataclass(frozen=True, slots=True)
class Island:
    """GPUs of one node, by index and ascending, of which any subset of the requested size meets the requirements."""

    gpus: tuple[int, ...]
    quality: Quality


class Islands:
    """The islands of nodes that are built alike.

    Args:
        build: The common build of the nodes.
        request: The number of GPUs, at least two, and the requirements for their pairs.
    """

    def __init__(self, build: Build, request: Request) -> None:
        self._build, self._request = build, request
        self._table = PairTable(build.topology, build.connections)
        self._known: dict[int, Quality | None] = {}

    def quality(self, gpus: Iterable[int]) -> Quality | None:
        """Returns the least quality of the subsets of the requested size; None if one is not linked as required.

        If the number of GPUs is the requested one, there is one such set. Otherwise either every pair must have NVLink
        or none: a third GPU through which a pair would be joined may be missing, or stand in the way of a faster path.

        Args:
            gpus: Indices. GPUs in MIG mode are skipped; at least as many as requested must be left.
        """
        mask = self._table.mask(gpus)
        if mask not in self._known:
            self._known[mask] = self._judge(mask)
        return self._known[mask]

    def usable(self, gpus: Iterable[int]) -> tuple[int, ...]:
        """Returns the GPUs that are not in MIG mode, ascending."""
        return self._table.indices(self._table.mask(gpus))

    def linked_part(self, gpus: tuple[int, ...]) -> tuple[int, ...]:
        """Returns all of these GPUs if they are an island, else their greatest island, else nothing.

        Args:
            gpus: Usable GPUs, by index and ascending, at least as many as requested.
        """
        if self.quality(gpus):
            return gpus
        inside = [island.gpus for island in self.found if set(island.gpus) <= set(gpus)]
        return max(inside, key=len, default=())

    @cached_property
    def found(self) -> list[Island]:
        """The islands, best first. Smaller islands of better quality may lie in greater ones."""
        masks = dict.fromkeys(self._joined())
        if not self._request.constraints.require_nvlink:
            masks |= dict.fromkeys(mask for mask in self._chosen() if not any(not mask & ~other for other in masks))
        judged = [(mask, self.quality(self._table.indices(mask))) for mask in masks]
        islands = [Island(self._table.indices(mask), quality) for mask, quality in judged if quality]
        return sorted(islands, key=lambda island: (island.quality.rank, -len(island.gpus), island.gpus))

    def _judge(self, mask: int) -> Quality | None:
        members, asked = positions(mask), self._request.constraints
        if len(members) == self._request.count:
            found = assess(self._build.topology, self._table.indices(mask), self._build.connections)
            linked = found.every_pair_has_nvlink or not asked.require_nvlink
            return Quality(found.link, found.bandwidth) if linked and found.bandwidth >= asked.min_bandwidth else None
        pairs = list(combinations(members, 2))
        nvlinks = {bool(self._table.nvlinked[one] >> other & 1) for one, other in pairs}
        weakest = min(self._table.bandwidth[one][other] for one, other in pairs)
        if len(nvlinks) > 1 or weakest < asked.min_bandwidth or (asked.require_nvlink and nvlinks != {True}):
            return None
        whole = assess(self._build.topology, self._table.indices(mask), self._build.connections)
        return Quality(whole.link, weakest)

    def _joined(self) -> Iterator[int]:
        """Yields for each bandwidth the greatest groups with NVLink in all pairs, or, where allowed, in none."""
        table, asked = self._table, self._request.constraints
        others = [table.everything & ~linked & ~(1 << gpu) for gpu, linked in enumerate(table.nvlinked)]
        for kind in [table.nvlinked] if asked.require_nvlink else [table.nvlinked, others]:
            found = {table.bandwidth[gpu][other] for gpu, mates in enumerate(kind) for other in positions(mates)}
            levels = sorted((level for level in found if level >= asked.min_bandwidth), reverse=True)
            for level in dict.fromkeys([*levels[: MAX_LEVELS - 1], *levels[-1:]]):
                fast = [
                    sum(1 << other for other in positions(mates) if table.bandwidth[gpu][other] >= level)
                    for gpu, mates in enumerate(kind)
                ]
                yield from maximal_cliques(fast, self._request.count)

    def _chosen(self) -> Iterator[int]:
        """Yields the single sets that are fast enough only as a whole, as they would be chosen one after the other."""
        selector = Selector(self._build.topology, self._build.connections)
        busy: frozenset[int | str] = frozenset()
        for _ in range(len(self._table.gpus) // self._request.count):
            asked = Request(count=self._request.count, constraints=self._request.constraints, busy=busy)
            choice = selector.select(asked)
            if isinstance(choice, NoChoice) or choice.unmet:
                return
            busy |= frozenset(choice.gpus)
            yield self._table.mask(choice.gpus)
