"""The choice of GPUs of one node for a job."""

from dataclasses import dataclass, replace

from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.selection.evidence import Unmet, shortage, unmet
from webhook.hardware.topology.selection.pair_table import PairTable, mask_of
from webhook.hardware.topology.selection.request import Request
from webhook.hardware.topology.selection.search import Search, Sets
from webhook.hardware.topology.sets import GpuSet, assess, links_doubt


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The GPUs that fit a request best."""

    chosen: GpuSet
    unmet: tuple[Unmet, ...]
    """Constraints that the set does not meet. The caller decides whether it takes the set all the same."""
    of_best_pair: float
    """Bandwidth of the weakest pair over that of the node's best pair; 1 for a single GPU."""
    loss: float
    """Share of ring bandwidth that this set lacks, compared with the best set if all usable GPUs were free."""
    doubt: str
    """Why it is not known how the GPUs are linked, in a sentence; empty if it is known."""
    exact: bool
    """Whether no set meets more constraints, or is of a better class or weakest pair. If not, one may exist."""

    @property
    def gpus(self) -> tuple[int, ...]:
        """The indices of the GPUs, ascending."""
        return self.chosen.gpus


@dataclass(frozen=True, slots=True)
class NoChoice:
    """The answer if too few GPUs are free."""

    reason: str


def select(topology: NodeTopology, request: Request, connections: Connections | None = None) -> Choice | NoChoice:
    """Chooses the best set of GPUs of a node (``search.Search``).

    If no set meets all constraints, the least important ones are given up: the same NUMA node; else the bandwidth; else
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
        self._sets = Sets(self.table, self._assess)
        self.packing = self._sets.packing
        self._ideals: dict[int, float] = {}

    def select(self, request: Request) -> Choice | NoChoice:
        """Chooses GPUs; see the function ``select``."""
        free = mask_of(request.may_use(gpu) for gpu in self.table.gpus)
        if free.bit_count() < request.count:
            return NoChoice(shortage(self._topology, request, free.bit_count()))
        search = Search(self._sets, request, free)
        chosen = self._sets.judge(search.best())
        if free == self.table.everything and replace(request, busy=frozenset()) == Request(count=request.count):
            self._ideals[request.count] = chosen.ring_bandwidth
        ideal = self._ideal(request.count)
        return Choice(
            chosen=chosen,
            unmet=tuple(unmet(search, chosen)),
            of_best_pair=chosen.bandwidth / self.table.best if chosen.weakest and self.table.best else 1.0,
            loss=max(0.0, 1 - chosen.ring_bandwidth / ideal) if ideal else 0.0,
            doubt=links_doubt(self._topology, chosen),
            exact=search.exact,
        )

    def _assess(self, mask: int) -> GpuSet:
        return assess(self._topology, self.table.indices(mask), self._connections)

    def _ideal(self, count: int) -> float:
        """Returns the GB/s of the rings of the best set if all usable GPUs are free."""
        if count not in self._ideals:
            best = Search(self._sets, Request(count=count), self.table.everything).best()
            self._ideals[count] = self._sets.judge(best).ring_bandwidth
        return self._ideals[count]
