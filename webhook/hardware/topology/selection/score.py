"""The score of a set of GPUs, from 0 to 1, and its terms."""

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
"""The worth of each link class beyond its bandwidth, in the order and roughly the steps of HAMi's pair scores
(pkg/device/nvidia/calculate_score.go)."""

_BY_BIT = (LinkClass.NVLINK, LinkClass.PHB, LinkClass.PIX, LinkClass.PXB, LinkClass.PHB, LinkClass.SYS)
"""Link classes in the order of ``CLASS_BITS``. C2C goes through the CPU, as PHB does."""


def _is_partial(classes: int) -> bool:
    return bool(classes & NVL) and classes != NVL


def link_value(classes: int) -> float:
    """Returns the value in ``LINK_VALUES`` of a set whose pairs have these class bits."""
    if _is_partial(classes):
        return LINK_VALUES[LinkClass.PARTIAL]
    return LINK_VALUES[_BY_BIT[classes.bit_length() - 1] if classes else LinkClass.SINGLE]


_LINKS = tuple(link_value(classes) for classes in range(2 ** len(_BY_BIT)))
_LINKS_AHEAD = tuple(max(value, _LINKS[classes | NVL]) for classes, value in enumerate(_LINKS))
"""Upper bounds for the link values of partial sets with more GPUs. A class other than NVLink only lowers the value."""
_PCIE_AHEAD = tuple(
    max(_LINKS[more] for more in range(len(_LINKS)) if more & classes == classes and (not more & NVL or classes & NVL))
    for classes in range(len(_LINKS))
)
"""The upper bounds on a node without NVLinks."""


@dataclass(frozen=True, slots=True)
class ScoreTerms:
    """The terms of a score, each from 0 to 1; 1 is best."""

    weakest: float
    """Bandwidth of the weakest pair over that of the node's best pair."""
    narrowest: float
    """NVLink bandwidth of the GPU with the least to all others together, over its bandwidth if each pair were the
    node's best. With direct links this limits what passes through the GPU in all rings. 0 if a GPU has no NVLinks."""
    mean: float
    """As ``weakest``, for the mean of all pairs, without ways through a third GPU: other pairs need those links."""
    link: float
    """The value of its class in ``LINK_VALUES``."""
    numa: float
    """1 over the number of NUMA nodes; all GPUs of unknown NUMA node count as one node."""
    memory: float
    """Memory of the smallest GPU over that of the largest; GPUs of unknown memory are ignored."""
    domains: float
    """Spread of the set over the most possible parts: half for NUMA nodes, half for PCIe switches."""


class Ahead(NamedTuple):
    """Upper bounds for the GPUs that a partial set still needs."""

    missing: int
    """Number of the needed GPUs."""
    candidates: int
    """The GPUs from which they can be taken, as a mask."""
    potential: float
    """GB/s per direction that they add at most to the sum over all pairs."""
    weakest: float
    """GB/s per direction at most of the weakest pair between the partial set and them."""


@dataclass(slots=True)
class Part:
    """A whole or partial set, with all values on which its score depends."""

    mask: int
    total: float
    """GB/s per direction: the sum over its pairs, without third GPUs."""
    weakest: float
    """GB/s per direction of its weakest pair; of the node's best pair if it has none."""
    narrowest: float
    """GB/s per direction: the least that one of its GPUs has to all others together, over direct NVLinks."""
    classes: int
    """The class bits of its pairs, as far as they matter."""
    numa: int
    """Its NUMA nodes, as bits."""
    switches: int
    """Its PCIe switches, as bits."""
    least: float
    """MiB of the smallest known memory; infinite if none is known."""
    most: float
    """MiB of the largest memory."""


class Scale:
    """The scale that scores the sets of one size.

    Args:
        table: The GPUs of the node.
        domains: The parts of the node.
        weights: The weights of the terms.
        count: GPUs in a set.
    """

    def __init__(self, table: PairTable, domains: Domains, weights: Weights, count: int) -> None:
        pairs = count * (count - 1) // 2
        # Bandwidths are not compared for a single GPU, or if no pair has any; their terms are then 1.
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
        """Returns a partial set with one more GPU.

        Args:
            part: The partial set so far.
            position: The position of the added GPU.
            total: GB/s per direction: the sum over the pairs of the added GPU, without third GPUs.
            weakest: GB/s per direction of the weakest pair of the new set.
            narrowest: GB/s per direction: the least that one GPU of the new set has to all others over NVLinks.
        """
        least, most = self._memory[position]
        return Part(
            part.mask | 1 << position,
            part.total + total,
            weakest,
            narrowest,
            # Once some pairs have NVLinks and others do not, the class stays the same.
            part.classes if _is_partial(part.classes) else part.classes | self._table.classes_to(position, part.mask),
            part.numa | self._numa[position],
            part.switches | self._switches[position],
            min(part.least, least),
            max(part.most, most),
        )

    def measure(self, mask: int) -> Part:
        """Returns a whole set with its values."""
        part = self.nothing
        for position in positions(mask):
            part = self.extend(part, position, 0.0, 0.0, 0.0)
        part.total, part.weakest = self._table.total(mask), self._table.weakest(mask)
        part.narrowest = self._table.narrowest(mask)
        return part

    def terms(self, whole: Part) -> ScoreTerms:
        """Returns the terms of a set."""
        return ScoreTerms(*self._terms(whole))

    def score(self, whole: Part) -> float:
        """Returns the score of a set."""
        total: float = sum(map(mul, self._weights, self._terms(whole)))
        return total

    def promise(self, part: Part, ahead: Ahead) -> float:
        """Returns an upper bound for the score of a partial set with the GPUs that it still needs."""
        total: float = sum(map(mul, self._weights, self._best_terms(part, ahead)))
        return total

    def _terms(self, whole: Part) -> tuple[float, ...]:
        """Returns the terms in the order of ``ScoreTerms``."""
        numa = whole.numa.bit_count()
        return (
            *self._bandwidths(whole.weakest, whole.narrowest, whole.total),
            _LINKS[whole.classes],
            1 / (numa or 1),
            whole.least / whole.most if whole.most else 1.0,
            self._reach(numa, whole.switches.bit_count()),
        )

    def _best_terms(self, part: Part, ahead: Ahead) -> tuple[float, ...]:
        """Returns upper bounds for the terms of a partial set, in the order of ``ScoreTerms``."""
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
        """Returns the fewest NUMA nodes that the needed GPUs add to those of the partial set."""
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
    """Returns for each position its domain, as a bit."""
    return [
        sum(1 << number for number, domain in enumerate(domains) if domain >> position & 1) for position in range(count)
    ]


def pair_worths(table: PairTable, domains: Domains, weights: Weights) -> list[list[float]]:
    """Returns the score of each pair as a set of two, row by row, without memory and spread; 0 for a GPU and itself."""
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
