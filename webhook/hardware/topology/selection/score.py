"""The score of a set of GPUs, from 0 to 1, and the terms that it is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from webhook.hardware.topology.selection.domains import Domains
from webhook.hardware.topology.selection.pair_table import NVL, PairTable, positions
from webhook.hardware.topology.selection.request import Weights
from webhook.hardware.topology.sets import LinkClass

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
"""What a link class is worth beyond the bandwidth that it brings, in the order and about in the steps of HAMi's pair
scores (pkg/device/nvidia/calculate_score.go)."""

_BY_BIT = (LinkClass.NVLINK, LinkClass.PHB, LinkClass.PIX, LinkClass.PXB, LinkClass.PHB, LinkClass.SYS)
"""In the order of ``CLASS_BITS``; C2C goes through the CPU, as PHB does."""


def _is_partial(classes: int) -> bool:
    return bool(classes & NVL) and classes != NVL


def _link_value(classes: int) -> float:
    """Of a set whose pairs have these class bits."""
    if _is_partial(classes):
        return LINK_VALUES[LinkClass.PARTIAL]
    return LINK_VALUES[_BY_BIT[classes.bit_length() - 1] if classes else LinkClass.SINGLE]


_LINKS = tuple(_link_value(classes) for classes in range(2 ** len(_BY_BIT)))
_LINKS_AHEAD = tuple(max(value, _LINKS[classes | NVL]) for classes, value in enumerate(_LINKS))
"""The most that more GPUs can make of it: any other class than NVLink only makes it worse."""
_PCIE_AHEAD = tuple(
    max(_LINKS[more] for more in range(len(_LINKS)) if more & classes == classes and (not more & NVL or classes & NVL))
    for classes in range(len(_LINKS))
)
"""The same where no pair has NVLinks."""


@dataclass(frozen=True, slots=True)
class ScoreTerms:
    """What a set is like, each from 0 to 1; 1 is best."""

    weakest: float
    """Bandwidth of the weakest pair over that of the node's best pair."""
    narrowest: float
    """NVLinks of the GPU that has least to the others together, over what it would have if each pair were the node's
    best: where links are direct, no more than that passes through it in all rings. 0 if one GPU has no NVLinks."""
    mean: float
    """As ``weakest``, of the mean pair. What goes through a third GPU does not count: other pairs need those links."""
    link: float
    """Its class in ``LINK_VALUES``."""
    numa: float
    """1 over the number of NUMA nodes; GPUs whose node is not known count as one node."""
    memory: float
    """Memory of the smallest GPU over that of the largest; those of unknown size are passed over."""
    domains: float
    """How far the set is spread, of the most that is possible: half for NUMA nodes, half for PCIe switches."""


class Ahead(NamedTuple):
    """What is known of the GPUs that a part of a set still misses; the part gets no more than this."""

    missing: int
    candidates: int
    """The GPUs that come into question."""
    potential: float
    """GB/s per direction that they add to the sum over all pairs."""
    weakest: float
    """GB/s per direction of the weakest pair between the part and them."""


@dataclass(slots=True)
class Part:
    """A set, or what there is of it so far, with all that its score depends on."""

    mask: int
    total: float
    """GB/s per direction: the sum of what its pairs have by themselves."""
    weakest: float
    """GB/s per direction of its weakest pair; of the node's best pair if it has none."""
    narrowest: float
    """GB/s per direction: the least that one of its GPUs has to the others together, over NVLinks of its own."""
    classes: int
    """The class bits of its pairs, as far as they matter."""
    numa: int
    """Its NUMA nodes, as bits."""
    switches: int
    """Its PCIe switches, as bits."""
    least: float
    """MiB of the smallest memory, infinite if none is known."""
    most: float
    """MiB of the largest memory."""


class Scale:
    """Weighs the sets of one size.

    Args:
        table: The GPUs of the node.
        domains: Its parts.
        weights: Of the terms.
        count: GPUs in a set.
    """

    def __init__(self, table: PairTable, domains: Domains, weights: Weights, count: int) -> None:
        pairs = count * (count - 1) // 2
        # A single GPU misses nothing, nor do GPUs that have no bandwidth to compare.
        self._compares = bool(pairs and table.best)
        self._table = table
        self._weights = tuple(value / weights.total for value in weights.values)
        self._numa = _bits(domains.any_numa, len(table.gpus))
        self._switches = _bits(domains.switch, len(table.gpus))
        self._numa_nodes = domains.any_numa
        self._links_ahead = _LINKS_AHEAD if any(table.nvlinked) else _PCIE_AHEAD
        self._numa_reach = min(count, len(domains.any_numa))
        self._switch_reach = min(count, len(domains.switch))
        self._best = table.best or 1.0
        self._best_narrowest = self._best * (count - 1) or 1.0
        self._best_total = self._best * pairs or 1.0
        self._memory = [(gpu.memory_mib or float("inf"), float(gpu.memory_mib)) for gpu in table.gpus]
        self.weakest_counts = self._compares and weights.weakest > 0
        """Whether the score depends on the weakest pair."""
        self.nothing = Part(0, 0.0, table.best, table.best * (count - 1), 0, 0, 0, float("inf"), 0.0)

    def extend(self, part: Part, position: int, total: float, weakest: float, narrowest: float) -> Part:
        """A part and one more GPU.

        Args:
            part: What there is so far.
            position: The GPU.
            total: What its pairs have by themselves, GB/s per direction.
            weakest: Of the weakest pair then, GB/s per direction.
            narrowest: Least that one of the GPUs then has to the others together over NVLinks, GB/s per direction.
        """
        least, most = self._memory[position]
        return Part(
            part.mask | 1 << position,
            part.total + total,
            weakest,
            narrowest,
            # Once some pairs have NVLinks and others not, nothing changes that.
            part.classes if _is_partial(part.classes) else part.classes | self._table.classes_to(position, part.mask),
            part.numa | self._numa[position],
            part.switches | self._switches[position],
            min(part.least, least),
            max(part.most, most),
        )

    def measure(self, mask: int) -> Part:
        """A whole set."""
        part = self.nothing
        for position in positions(mask):
            part = self.extend(part, position, 0.0, 0.0, 0.0)
        part.total, part.weakest = self._table.total(mask), self._table.weakest(mask)
        part.narrowest = self._table.narrowest(mask)
        return part

    def terms(self, whole: Part) -> ScoreTerms:
        """The terms of a set."""
        return ScoreTerms(*self._terms(whole))

    def score(self, whole: Part) -> float:
        """The score of a set."""
        total: float = sum(map(mul, self._weights, self._terms(whole)))
        return total

    def promise(self, part: Part, ahead: Ahead) -> float:
        """No less than the score that a part of a set gets with what it misses."""
        total: float = sum(map(mul, self._weights, self._best_terms(part, ahead)))
        return total

    def _terms(self, whole: Part) -> tuple[float, ...]:
        """In the order of ``ScoreTerms``."""
        numa = whole.numa.bit_count()
        return (
            *self._bandwidths(whole.weakest, whole.narrowest, whole.total),
            _LINKS[whole.classes],
            1 / (numa or 1),
            whole.least / whole.most if whole.most else 1.0,
            self._reach(numa, whole.switches.bit_count()),
        )

    def _best_terms(self, part: Part, ahead: Ahead) -> tuple[float, ...]:
        """The best that the terms of a part can become."""
        numa = part.numa.bit_count()
        return (
            *self._bandwidths(min(part.weakest, ahead.weakest), part.narrowest, part.total + ahead.potential),
            self._links_ahead[part.classes],
            1 / (numa + self._more_numa_nodes(part, ahead) or 1),
            part.least / part.most if part.most else 1.0,
            self._reach(numa + ahead.missing, part.switches.bit_count() + ahead.missing),
        )

    def _bandwidths(self, weakest: float, narrowest: float, total: float) -> tuple[float, float, float]:
        if not self._compares:
            return 1.0, 1.0, 1.0
        return weakest / self._best, narrowest / self._best_narrowest, total / self._best_total

    def _reach(self, numa: int, switches: int) -> float:
        reach = min(numa, self._numa_reach) / self._numa_reach
        return (reach + min(switches, self._switch_reach) / self._switch_reach) / 2

    def _more_numa_nodes(self, part: Part, ahead: Ahead) -> int:
        """The fewest NUMA nodes that what is missing takes beside those of the part."""
        missing, rooms = ahead.missing, []
        for number, node in enumerate(self._numa_nodes):
            room = (node & ahead.candidates).bit_count()
            if part.numa >> number & 1:
                missing -= room
            else:
                rooms.append(room)
        if missing <= 0:
            return 0
        rooms.sort(reverse=True)
        return next((more for more, room in enumerate(accumulate(rooms), start=1) if room >= missing), len(rooms))


def _bits(domains: Sequence[int], count: int) -> list[int]:
    """For each position the domain that it is in, as a bit."""
    return [
        sum(1 << number for number, domain in enumerate(domains) if domain >> position & 1) for position in range(count)
    ]


def pair_worths(table: PairTable, domains: Domains, weights: Weights) -> list[list[float]]:
    """Row by row the score of each pair as a set of two, but for memory and spread; 0 for a GPU with itself."""
    per_bandwidth = (weights.weakest + weights.mean) / weights.total / (table.best or 1.0)
    per_nvlink = weights.narrowest / weights.total / (table.best or 1.0)
    link, numa = weights.link / weights.total, weights.numa / weights.total
    size = range(len(table.gpus))
    return [
        [
            per_bandwidth * table.bandwidth[one][other]
            + per_nvlink * table.linked[one][other]
            + link * _LINKS[table.classes_to(one, 1 << other)]
            + numa / (1 if domains.numa_of[one] == domains.numa_of[other] else 2)
            if one != other
            else 0.0
            for other in size
        ]
        for one in size
    ]
