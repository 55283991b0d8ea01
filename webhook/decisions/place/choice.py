"""The choice of the node and of the free cards for a pod."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from operator import attrgetter

from webhook.decisions.place.card_request import CardsAsked
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.world import PlaceNode, Stock, World
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.hardware.topology.model import HAMI
from webhook.hardware.topology.planning.fleet import Build, Grade
from webhook.hardware.topology.selection.choice import Choice
from webhook.hardware.topology.selection.request import Constraint, Constraints
from webhook.hardware.topology.selection.score import LINK_VALUES
from webhook.words.choices import NodePolicy

SIZES = (2, 4, 8)
"""Sizes of the sets of cards that a choice should leave to other pods."""
LOOK = 200
"""The visits of a node that take as long as the ranking of one stock for a new request: 0.2 to 0.5 ms."""
_ASKED_KEPT = 128
_GONE_KEPT = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Cards of one node."""

    node: PlaceNode
    choice: Choice

    @property
    def uuids(self) -> tuple[str, ...]:
        """The UUIDs of the cards, in the order of their indices."""
        return tuple(self.node.uuids[index] for index in self.choice.gpus)

    @property
    def has_known_links(self) -> bool:
        """Whether the topology of the node tells how the cards are linked. HAMi's annotations may not."""
        topology = self.node.topology
        if topology is None:
            return False
        origin = Origin.HAMI if topology.source == HAMI else Origin.AGENT
        return not KnownNode(topology, origin=origin).doubt(self.choice.chosen)

    @property
    def share(self) -> float:
        """The ring bandwidth, as a share of what the best set of this size has on such a node if all cards are free."""
        return 1.0 - self.choice.loss

    @property
    def given_up(self) -> float:
        """The ring bandwidth in GB/s per direction that the best set has more than the chosen one."""
        ring = self.choice.chosen.ring_bandwidth
        return ring / self.share - ring if self.share else 0.0


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best cards of one stock for a pod."""

    rank: tuple[float, ...]
    """The greater, the better."""
    stock: Stock
    choice: Choice


_by_rank = attrgetter("rank")


class Chooser:
    """Chooses among the free cards of a world; it changes nothing.

    Args:
        world: The pods and nodes of the cluster.
        not_counted: Resources that the device plugin's scheduler counts, and kube-scheduler does not.
    """

    def __init__(self, world: World, not_counted: frozenset[str]) -> None:
        self._world = world
        self._not_counted = not_counted
        self._known: dict[CardsAsked, dict[Stock, Ranked | None]] = {}
        """The best cards of each stock, by request. Single pods change the stocks of few nodes; most stocks stay."""
        self.work = 0
        """The work so far, in visits of a node. The caller sets it to 0 before a round."""

    def best(
        self,
        pod: PodRecord,
        asked: CardsAsked,
        *,
        closed: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> Chosen | None:
        """Returns the best cards for a pod; None if no node on which it can run has enough.

        Args:
            pod: A pod without a node.
            asked: What the pod asks of its cards.
            closed: Names of nodes that the pod does not get.
            only: Names of the nodes that the pod may get; None: all others.
        """
        self._world.refresh()
        stocks = self._world.stocks if only is None else self._world.stocks_of(only)
        for ranked in self._ranked(asked, stocks):
            for name in stocks[ranked.stock]:
                node = self._world.nodes[name]
                if name not in closed and not self.refusal(node, pod):
                    return Chosen(node, ranked.choice)
        return None

    def ranked_nodes(self, pod: PodRecord, asked: CardsAsked) -> Iterator[PlaceNode]:
        """Yields all nodes on which a pod can run and that have enough free cards, the best first."""
        self._world.refresh()
        for ranked in self._ranked(asked, self._world.stocks):
            for name in self._world.stocks[ranked.stock]:
                node = self._world.nodes[name]
                if not self.refusal(node, pod):
                    yield node

    def refusal(self, node: PlaceNode, pod: PodRecord) -> str:
        """Returns why a pod cannot run on a node, in a clause about the node; empty if it can."""
        if pod.unbound is None:
            return "has it already"
        self.work += 1
        return node.refusal(pod.unbound.needs) or node.shortage(pod, self._not_counted)

    def is_only_cordoned(self, node: PlaceNode, pod: PodRecord) -> bool:
        """Returns whether the pod could run on the node if it were not cordoned."""
        needs = pod.unbound.needs if pod.unbound else None
        return needs is not None and node.is_only_cordoned(needs) and not node.shortage(pod, self._not_counted)

    def ideal(self, pod: PodRecord, asked: CardsAsked) -> Grade | None:
        """Returns the best class and bandwidth of a set if all cards were free; None if no node has enough cards."""
        found: dict[tuple[Build, frozenset[int]], Grade | None] = {}
        for node in self._world.known_nodes():
            if node.build is None or self.refusal(node, pod):
                continue
            key = (node.build, frozenset(node.uuids))
            if key not in found:
                ranked = rank_of(Stock(*key), asked)
                found[key] = _grade(ranked.choice, asked) if ranked else None
        return max((grade for grade in found.values() if grade), default=None)

    def _ranked(self, asked: CardsAsked, stocks: Iterable[Stock]) -> list[Ranked]:
        """Returns the best cards of these stocks for a request, the best stock first."""
        known, found = self._known_for(asked), []
        for stock in stocks:
            try:
                ranked = known[stock]
            except KeyError:
                ranked = known[stock] = rank_of(stock, asked)
                self.work += LOOK if ranked else 1
            if ranked:
                found.append(ranked)
        found.sort(key=_by_rank, reverse=True)
        return found

    def _known_for(self, asked: CardsAsked) -> dict[Stock, Ranked | None]:
        known = self._known.pop(asked, {})
        if len(self._known) >= _ASKED_KEPT:
            del self._known[next(iter(self._known))]  # the request that was not used for the longest time
        self._known[asked] = known
        if len(known) > 2 * len(self._world.stocks) + _GONE_KEPT:
            known.clear()
        return known


def is_satisfying(chosen: Chosen) -> bool:
    """Returns whether the cards meet all that the pod requires of them."""
    return not chosen.choice.unmet


def grade_of(chosen: Chosen, asked: CardsAsked) -> Grade:
    """Returns the class and bandwidth of the set, as far as they matter to the pod."""
    return _grade(chosen.choice, asked)


def rank_of(stock: Stock, asked: CardsAsked) -> Ranked | None:
    """Returns the best cards of a stock for a request; None if the stock has too few."""
    usable = _usable(stock, asked)
    if len(usable) < asked.count:
        return None
    choice = stock.build.choice(usable, asked.count, _constraints(asked), asked.policy)
    if asked.one_numa_node and any(unmet.constraint is Constraint.SAME_NUMA for unmet in choice.unmet):
        return None
    left = len(stock.free) - asked.count
    rest = preference(asked.node_policy, damage=_damage(stock, choice.gpus), left=left)
    return Ranked((float(not choice.unmet), *_grade(choice, asked), *rest), stock, choice)


def preference(policy: NodePolicy, *, damage: float, left: int) -> tuple[float, float]:
    """Returns the rank of a node among nodes with equally good sets; the greater, the better.

    Args:
        policy: The node policy of the pod.
        damage: GB/s that other pods lose.
        left: Cards that stay free on the node.
    """
    match policy:
        case NodePolicy.PACK:
            return -left, -damage
        case NodePolicy.SPREAD:
            return left, -damage
        case _:
            return -damage, -left


def _constraints(asked: CardsAsked) -> Constraints:
    if not asked.one_numa_node or asked.constraints.same_numa:
        return asked.constraints
    return replace(asked.constraints, same_numa=True)


def _usable(stock: Stock, asked: CardsAsked) -> frozenset[int]:
    """Returns the free cards whose names the request allows."""
    if not asked.types and not asked.not_types:
        return stock.free
    return stock.free & _named(stock.build, asked)


@lru_cache(1024)
def _named(build: Build, asked: CardsAsked) -> frozenset[int]:
    return frozenset(gpu.index for gpu in build.topology.gpus if asked.takes(gpu.name))


def _grade(choice: Choice, asked: CardsAsked) -> Grade:
    if not asked.linked:
        return 1.0, inf
    return LINK_VALUES[choice.chosen.link], round(choice.chosen.bandwidth, 3)


def _damage(stock: Stock, gpus: tuple[int, ...]) -> float:
    """Returns the GB/s that the best pair, four and eight of the free cards lose with these, each times its size."""
    left = stock.free.difference(gpus)
    return sum(size * (_worth(stock.build, stock.free, size) - _worth(stock.build, left, size)) for size in SIZES)


def _worth(build: Build, free: frozenset[int], size: int) -> float:
    """Returns the GB/s per direction of the weakest pair of the best set of a size; 0 if there is no such set."""
    return build.choice(free, size).chosen.bandwidth if len(free) >= size else 0.0
