"""Which GPUs of a node a job gets."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import compress, product

from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.selection.candidates import Candidates
from webhook.hardware.topology.selection.domains import Domains
from webhook.hardware.topology.selection.evidence import Unmet, shortage, unmet
from webhook.hardware.topology.selection.pair_table import PairTable, mask_of
from webhook.hardware.topology.selection.request import Constraints, Request
from webhook.hardware.topology.selection.score import ScoreTerms
from webhook.hardware.topology.sets import GpuSet, assess


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The GPUs that fit a request best."""

    chosen: GpuSet
    score: float
    """From 0 to 1: the weighted terms."""
    terms: ScoreTerms
    unmet: tuple[Unmet, ...]
    """Constraints that the set does not meet; whether it will do is for the caller to say."""
    loss: float
    """Share of the ring bandwidth of the best set of this size, if all usable GPUs were free, that this one lacks."""
    exact: bool
    """Whether all sets were considered; see ``candidates.MAX_SETS``. If not, a better one may exist."""

    @property
    def gpus(self) -> tuple[int, ...]:
        """Indices, ascending."""
        return self.chosen.gpus


@dataclass(frozen=True, slots=True)
class NoChoice:
    """Too few GPUs are free."""

    reason: str


def select(topology: NodeTopology, request: Request, connections: Connections | None = None) -> Choice | NoChoice:
    """Choose GPUs of a node by the policy of the request, among the sets that meet its constraints.

    If there are none, constraints are given up, as few and as unimportant ones as possible: the same NUMA node; else
    the bandwidth; else both; else NVLink, and so on. Lost GPUs and those in MIG mode are never chosen.

    Args:
        topology: The node.
        request: What is asked for.
        connections: Of the node, if the caller has them already; for several requests a ``Selector`` saves more.
    """
    return Selector(topology, connections).select(request)


class Selector:
    """Answers requests for the GPUs of one node.

    Args:
        topology: The node.
        connections: Of the node, if the caller has them already.
    """

    def __init__(self, topology: NodeTopology, connections: Connections | None = None) -> None:
        self._topology = topology
        self._connections = connections or Connections(topology)
        self._table = PairTable(topology, self._connections)
        self._domains = Domains(topology, self._table)
        self._ideals: dict[int, float] = {}
        self._judged: dict[int, GpuSet] = {}

    def select(self, request: Request) -> Choice | NoChoice:
        """Choose GPUs; see the function ``select``."""
        free = mask_of(request.may_use(gpu) for gpu in self._table.gpus)
        if free.bit_count() < request.count:
            return NoChoice(shortage(self._topology, request, free.bit_count()))
        candidates = Candidates(self._table, self._domains, request, free)
        # A single GPU has no pairs that could miss anything, and is on one NUMA node.
        asked = request.constraints if request.count > 1 else Constraints()
        kept, masks = next((kept, masks) for kept in _fallbacks(asked) if (masks := candidates.best(kept)))
        mask, chosen = self._with_best_ring(masks)
        if replace(request, constraints=kept).is_plain and free == self._table.everything:
            self._ideals[request.count] = chosen.ring_bandwidth
        whole = candidates.scale.measure(mask)
        return Choice(
            chosen=chosen,
            score=candidates.scale.score(whole),
            terms=candidates.scale.terms(whole),
            unmet=tuple(unmet(candidates, asked, kept, chosen)),
            loss=self._loss(chosen),
            exact=candidates.exact,
        )

    def _with_best_ring(self, masks: list[int]) -> tuple[int, GpuSet]:
        """Of equally good sets the first whose rings carry most."""
        different = masks if len(masks) > 1 and not self._table.is_uniform(masks[0]) else masks[:1]
        sets = [(mask, self._judge(mask)) for mask in different]
        return max(sets, key=lambda entry: round(entry[1].ring_bandwidth, 6))

    def _judge(self, mask: int) -> GpuSet:
        if mask not in self._judged:
            self._judged[mask] = assess(self._topology, self._table.indices(mask), self._connections)
        return self._judged[mask]

    def _loss(self, chosen: GpuSet) -> float:
        ideal = self._ideal(len(chosen.gpus))
        return max(0.0, 1 - chosen.ring_bandwidth / ideal) if ideal else 0.0

    def _ideal(self, count: int) -> float:
        """GB/s that the rings of the best set carry if all usable GPUs are free."""
        if count not in self._ideals:
            masks = Candidates(self._table, self._domains, Request(count=count), self._table.everything).best(
                Constraints()
            )
            self._ideals[count] = self._with_best_ring(masks)[1].ring_bandwidth
        return self._ideals[count]


def _fallbacks(constraints: Constraints) -> Iterator[Constraints]:
    """What to try one after the other: all, all but the least important one, and so on down to none."""
    for kept in product((True, False), repeat=len(constraints.asked)):
        yield constraints.only(*compress(constraints.asked, kept))
