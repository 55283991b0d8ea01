"""The choice of GPUs of one node for a job."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, compress, product
from typing import NamedTuple

from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.selection.candidates import Candidates
from webhook.hardware.topology.selection.domains import Domains
from webhook.hardware.topology.selection.evidence import Unmet, shortage, unmet
from webhook.hardware.topology.selection.pair_table import PairTable, mask_of, positions
from webhook.hardware.topology.selection.request import Constraints, Request, Weights
from webhook.hardware.topology.selection.score import Scale, ScoreTerms, link_value
from webhook.hardware.topology.sets import GpuSet, assess, links_doubt

_RATED_KEPT = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The GPUs that fit a request best."""

    chosen: GpuSet
    score: float
    """The weighted terms together, from 0 to 1."""
    terms: ScoreTerms
    weights: Weights
    """The weights of the terms."""
    unmet: tuple[Unmet, ...]
    """Constraints that the set does not meet. The caller decides whether it takes the set all the same."""
    loss: float
    """Share of ring bandwidth that this set lacks, compared with the best set if all usable GPUs were free."""
    doubt: str
    """Why it is not known how the GPUs are linked, in a sentence; empty if it is known."""
    exact: bool
    """Whether all sets were considered; see ``candidates.MAX_SETS`` and ``search.MAX_WORK``.

    If not, a better set may exist.
    """

    @property
    def gpus(self) -> tuple[int, ...]:
        """The indices of the GPUs, ascending."""
        return self.chosen.gpus


class Rated(NamedTuple):
    """A set and its quality."""

    gpus: tuple[int, ...]
    """Indices, ascending."""
    link: float
    """The value of its class in ``LINK_VALUES``."""
    weakest: float
    """GB/s per direction of its weakest pair; 0 for a set of one."""
    narrowest: float
    """GB/s of the GPU with the least to all others of the set together, over direct NVLinks. It limits the rings."""
    score: float


@dataclass(frozen=True, slots=True)
class NoChoice:
    """The answer if too few GPUs are free."""

    reason: str


def select(topology: NodeTopology, request: Request, connections: Connections | None = None) -> Choice | NoChoice:
    """Chooses GPUs of a node by the policy of the request, among the sets that meet its constraints.

    If no set meets them, the least important constraints are given up: the same NUMA node; else the bandwidth; else
    both; else NVLink, and so on. Lost GPUs and GPUs in MIG mode are never chosen.

    Args:
        topology: The node.
        request: The request.
        connections: The connections of the node, if the caller has them already. For several requests a ``Selector``
            saves more.
    """
    return Selector(topology, connections).select(request)


class Selector:
    """A selector of GPUs of one node, for several requests.

    Args:
        topology: The node.
        connections: The connections of the node, if the caller has them already.
    """

    def __init__(self, topology: NodeTopology, connections: Connections | None = None) -> None:
        self._topology = topology
        self._connections = connections or Connections(topology)
        self.table = PairTable(topology, self._connections)
        """The usable GPUs of the node, pair by pair."""
        self._domains = Domains(topology, self.table)
        self._ideals: dict[int, float] = {}
        self._judged: dict[int, GpuSet] = {}
        self._rated: dict[int, Rated] = {}

    def select(self, request: Request) -> Choice | NoChoice:
        """Chooses GPUs; see the function ``select``."""
        free = mask_of(request.may_use(gpu) for gpu in self.table.gpus)
        if free.bit_count() < request.count:
            return NoChoice(shortage(self._topology, request, free.bit_count()))
        candidates = Candidates(self.table, self._domains, request, free)
        # A single GPU meets all constraints: it has no pairs and is on one NUMA node.
        asked = request.constraints if request.count > 1 else Constraints()
        kept, masks = next((kept, masks) for kept in _fallbacks(asked) if (masks := candidates.best(kept)))
        mask, chosen = self._with_best_ring(masks)
        if replace(request, constraints=kept).is_plain and free == self.table.everything:
            self._ideals[request.count] = chosen.ring_bandwidth
        whole = candidates.scale.measure(mask)
        return Choice(
            chosen=chosen,
            score=candidates.scale.score(whole),
            terms=candidates.scale.terms(whole),
            weights=request.scored_by,
            unmet=tuple(unmet(candidates, asked, kept, chosen)),
            loss=self._loss(chosen),
            doubt=links_doubt(self._topology, chosen),
            exact=candidates.exact,
        )

    def rated(self, free: int, count: int) -> list[Rated]:
        """Returns all sets of one size with their class, bandwidth and score by the usual weights.

        Args:
            free: The GPUs of which the sets consist, as a mask; with more than about ten this takes long.
            count: The size.
        """
        scale = Scale(self.table, self._domains, Weights(), count)
        return [self._rate(scale, sum(chosen)) for chosen in combinations([1 << gpu for gpu in positions(free)], count)]

    def _rate(self, scale: Scale, mask: int) -> Rated:
        if mask not in self._rated:
            if len(self._rated) >= _RATED_KEPT:
                self._rated.clear()
            whole = scale.measure(mask)
            link = link_value(whole.classes)
            weakest = whole.weakest if mask & (mask - 1) else 0.0
            self._rated[mask] = Rated(self.table.indices(mask), link, weakest, whole.narrowest, scale.score(whole))
        return self._rated[mask]

    def _with_best_ring(self, masks: list[int]) -> tuple[int, GpuSet]:
        """Returns the first of equally good sets whose rings have the greatest bandwidth."""
        different = masks if len(masks) > 1 and not self.table.is_uniform(masks[0]) else masks[:1]
        sets = [(mask, self._judge(mask)) for mask in different]
        return max(sets, key=lambda entry: round(entry[1].ring_bandwidth, 6))

    def _judge(self, mask: int) -> GpuSet:
        if mask not in self._judged:
            self._judged[mask] = assess(self._topology, self.table.indices(mask), self._connections)
        return self._judged[mask]

    def _loss(self, chosen: GpuSet) -> float:
        ideal = self._ideal(len(chosen.gpus))
        return max(0.0, 1 - chosen.ring_bandwidth / ideal) if ideal else 0.0

    def _ideal(self, count: int) -> float:
        """Returns the GB/s of the rings of the best set if all usable GPUs are free."""
        if count not in self._ideals:
            masks = Candidates(self.table, self._domains, Request(count=count), self.table.everything).best(
                Constraints()
            )
            self._ideals[count] = self._with_best_ring(masks)[1].ring_bandwidth
        return self._ideals[count]


def _fallbacks(constraints: Constraints) -> Iterator[Constraints]:
    """Yields the constraints to try in turn: all, all but the least important one, and so on down to none."""
    for kept in product((True, False), repeat=len(constraints.asked)):
        yield constraints.only(*compress(constraints.asked, kept))
