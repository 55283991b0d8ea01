"""The choice of the node and of the free cards for a pod."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import chain, groupby, repeat
from operator import attrgetter, itemgetter

from webhook.decisions.place.card_request import CardsAsked
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.ranking import Ranked, grade, rank_of
from webhook.decisions.place.world import PlaceNode, Stock, World
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.hardware.topology.model import HAMI
from webhook.hardware.topology.planning.fleet import Build, Grade
from webhook.hardware.topology.selection.choice import Choice

_ASKED_KEPT = 128
_GONE_KEPT = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Cards of one node."""

    node: PlaceNode
    choice: Choice
    preempts: bool = False
    """Whether kube-scheduler has to evict pods of lower priority, because the node has no room for the pod now."""

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
        stocks = self._stocks(asked, only)
        for node, choice in chain.from_iterable(self._tiers(asked, stocks)):
            if node.name not in closed and not self.refusal(node, pod):
                return Chosen(node, choice)
        return None

    def best_of_node(self, name: str, asked: CardsAsked) -> Ranked | None:
        """Returns the best cards of a node; None if it has not enough of them."""
        return next(iter(self._ranked(asked, self._stocks(asked, {name}))), None)

    def may_preempt(self, pod: PodRecord) -> bool:
        """Returns whether there are pods that kube-scheduler may evict for a pod."""
        return pod.unbound is not None and pod.unbound.may_preempt and self._world.has_pods_below(pod.priority)

    def best_by_preemption(
        self,
        pod: PodRecord,
        asked: CardsAsked,
        *,
        closed: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> Chosen | None:
        """Returns the best free cards on nodes that have room only without pods of lower priority; None if none has.

        No card is taken from another pod. Of equally good nodes, the one whose most important victim has the least
        priority comes first, as in kube-scheduler (pkg/scheduler/framework/preemption, pickOneNodeForPreemption).

        Args:
            pod: A pod without a node, for which :meth:`best` found nothing.
            asked: What the pod asks of its cards.
            closed: Names of nodes that the pod does not get.
            only: Names of the nodes that the pod may get; None: all others.
        """
        if not self.may_preempt(pod):
            return None
        stocks = self._stocks(asked, only)
        for tier in self._tiers(asked, stocks):
            open_nodes = (entry for entry in tier if entry[0].name not in closed)
            found = [(*entry, victims) for entry in open_nodes if (victims := self._victims(entry[0], pod)) is not None]
            if found:
                node, choice, _ = min(found, key=itemgetter(2))
                return Chosen(node, choice, preempts=True)
        return None

    def _victims(self, node: PlaceNode, pod: PodRecord) -> int | None:
        """Returns the priority of the most important victims on a node; None if their eviction gives no room."""
        if pod.unbound is None or node.refusal(pod.unbound.needs):
            return None
        return node.victims(pod, self._not_counted)

    def ranked_nodes(self, pod: PodRecord, asked: CardsAsked) -> Iterator[PlaceNode]:
        """Yields all nodes on which a pod can run and that have enough free cards, the best first."""
        for node, _ in chain.from_iterable(self._tiers(asked, self._stocks(asked))):
            if not self.refusal(node, pod):
                yield node

    def refusal(self, node: PlaceNode, pod: PodRecord) -> str:
        """Returns why a pod cannot run on a node, in a clause about the node; empty if it can."""
        if pod.unbound is None:
            return "has it already"
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
                found[key] = grade(ranked.choice, asked) if ranked else None
        return max((grade for grade in found.values() if grade), default=None)

    def would_do(self, node: PlaceNode, asked: CardsAsked) -> bool:
        """Returns whether a set of the cards of a node would meet what a pod requires if all were free."""
        if node.build is None:
            return False
        ranked = self._ranked(asked, [Stock(node.build, frozenset(node.uuids))])
        return bool(ranked) and not ranked[0].choice.unmet

    def _stocks(self, asked: CardsAsked, only: Collection[str] | None = None) -> Mapping[Stock, list[str]]:
        """Returns the stocks of all nodes, or of some, for a request."""
        world = self._world
        world.refresh()
        if asked.part is None:
            return world.stocks if only is None else world.stocks_of(only)
        return world.stocks_of_parts(asked.part, only)

    def _tiers(
        self, asked: CardsAsked, stocks: Mapping[Stock, list[str]]
    ) -> Iterator[Iterator[tuple[PlaceNode, Choice]]]:
        """Yields the nodes with enough cards and the best set of each: equally good ones together, by their names.

        The order in which the world came to know them has no influence.
        """
        nodes = self._world.nodes
        for _, equal in groupby(self._ranked(asked, stocks), key=_by_rank):
            named = merge(*(zip(stocks[ranked.stock], repeat(ranked.choice)) for ranked in equal), key=itemgetter(0))
            yield ((nodes[name], choice) for name, choice in named)

    def _ranked(self, asked: CardsAsked, stocks: Iterable[Stock]) -> list[Ranked]:
        """Returns the best cards of these stocks for a request, the best stock first."""
        known, found = self._known_for(asked), []
        for stock in stocks:
            try:
                ranked = known[stock]
            except KeyError:
                ranked = known[stock] = rank_of(stock, asked)
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
    return grade(chosen.choice, asked)
