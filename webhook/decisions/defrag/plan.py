"""The plan of moves: which pods give linked cards back if they are created anew, and where the planner puts them.

The planner chooses the cards of the new pods, by the same rules as for any pod. So a move is planned only where its
choice differs from the cards that the pod has. A few pods of one node are moved together where that gains more for
each eviction than any one of them. Each step makes the free cards of the cluster worth more (``Packing.worth``), so no
sequence of steps leads back to where it began.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

import msgspec

from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.defrag.budgets import Budgets
from webhook.decisions.defrag.movable import Limits, RunningPod, Stays, stays
from webhook.decisions.place.card_request import Asked
from webhook.decisions.place.choice import Chosen, grade_of, is_satisfying
from webhook.decisions.place.pins import pin_of
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.ranking import harm, wanted_of
from webhook.decisions.place.round import NotPlaceable, Scene
from webhook.decisions.place.world import Stock, World
from webhook.hardware.topology.selection.packing import SIZES
from webhook.hardware.topology.selection.request import Request
from webhook.objects.pod import Namespace

LONGEST_CHAIN = 4
"""The most pods of one node that are moved together."""


@dataclass(frozen=True, slots=True)
class LinkedSets:
    """The disjoint sets into which free cards can be divided so that every pair of each set has direct NVLinks."""

    pairs: int = 0
    fours: int = 0
    eights: int = 0

    def __add__(self, other: "LinkedSets") -> "LinkedSets":
        return LinkedSets(self.pairs + other.pairs, self.fours + other.fours, self.eights + other.eights)

    def __sub__(self, other: "LinkedSets") -> "LinkedSets":
        return LinkedSets(self.pairs - other.pairs, self.fours - other.fours, self.eights - other.eights)

    @property
    def total(self) -> int:
        """The number of all of them."""
        return self.pairs + self.fours + self.eights


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """One pod that is evicted, and the cards that the planner would give to the pod in its place."""

    pod: RunningPod
    cards: tuple[int, ...]
    """The indices of its cards."""
    node: str
    """The node of the new pod."""
    to_cards: tuple[int, ...]
    """The indices of the cards of the new pod."""
    to_uuids: tuple[str, ...]
    gain: float
    """GB/s that other pods win: what the free cards of both nodes are worth afterwards, less what they are now."""
    back: LinkedSets
    """The linked sets that come back, less those that are lost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DefragPlan:
    """Moves in their order, each of which counts on those before it."""

    moves: tuple[Move, ...]
    before: LinkedSets
    """The linked sets of all free cards of the cluster."""
    after: LinkedSets
    staying: Counter[Stays]
    """The number of pods that are not moved whatever that would gain, by reason."""
    waiting: tuple[str, ...]
    """Pods without cards that wait for the planner, as ``namespace/name``. They may take what a move frees."""


class Defragmenter:
    """Plans moves in a world, and carries them out in that world alone.

    Args:
        world: The pods and nodes of the cluster.
        policy: The configuration.
        namespaces: Returns the namespace of a name.
        budgets: The PodDisruptionBudgets.
        limits: The limits of the plan.
        now: The time by the clock of the API server.
    """

    def __init__(
        self,
        world: World,
        policy: AdmitPolicy,
        *,
        namespaces: Callable[[str], Namespace],
        budgets: Budgets,
        limits: Limits,
        now: datetime,
    ) -> None:
        self._world, self._scene = world, Scene(world, policy, namespaces)
        self._budgets, self._limits, self._now = budgets, limits, now
        self._spent = Counter[str]()
        self._staying = Counter[Stays]()

    def plan(self, pods: Sequence[RunningPod]) -> DefragPlan:
        """Returns the moves that gain most, the best first.

        Args:
            pods: The pods of the world that run with cards.
        """
        before, moves = self._linked_sets(), list[Move]()
        left = dict(self._candidates(pods))
        while following := self._following(left, self._limits.evictions - len(moves)):
            for move in following:
                self._carry_out(move)
                del left[move.pod]
            moves += following
        return DefragPlan(
            moves=tuple(moves),
            before=before,
            after=self._linked_sets(),
            staying=self._staying,
            waiting=self.waiting,
        )

    def holds(self, moves: Sequence[Move], pods: Sequence[RunningPod]) -> bool:
        """Returns whether moves of an earlier plan would come out as planned now, and together still gain something.

        Args:
            moves: The moves that are left, in their order.
            pods: The pods of the world that run with cards.
        """
        candidates = {pod.record.uid: (pod, asked) for pod, asked in self._candidates(pods)}
        found = list[Move]()
        for move in moves:
            known = candidates.get(move.pod.record.uid)
            now = self._move(*known) if known else None
            if now is None or now.to_uuids != move.to_uuids:
                return False
            found.append(now)
            self._carry_out(now)
        return _gains(found)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The pods without cards that wait for the planner, as ``namespace/name``."""
        return tuple(sorted(key for key, pod in self._world.unbound.items() if not pin_of(pod)))

    def _following(self, left: Mapping[RunningPod, Asked], most: int) -> list[Move]:
        """Returns the moves that come next: the few moves off one node that gain most for each eviction, or one."""
        by_node = defaultdict[str, dict[RunningPod, Asked]](dict)
        for pod, asked in left.items():
            by_node[pod.record.node][pod] = asked
        chains = [chain for pods in by_node.values() if (chain := self._chain(pods, min(most, LONGEST_CHAIN)))]
        return min(chains, key=_rank_of_chain, default=[])

    def _chain(self, pods: Mapping[RunningPod, Asked], most: int) -> list[Move]:
        """Returns the moves off one node that gain most for each eviction; empty if none gain."""
        moves, left = list[Move](), dict(pods)
        while len(moves) < most and (found := self._moves(left)):
            best = min(found, key=_rank)
            moves.append(best)
            del left[best.pod]
            self._carry_out(best)
        for move in reversed(moves):
            self._take_back(move)
        parts = (moves[: count + 1] for count in range(len(moves)))
        return min((part for part in parts if _gains(part)), key=_rank_of_chain, default=[])

    def _moves(self, pods: Mapping[RunningPod, Asked]) -> list[Move]:
        return [move for pod, asked in pods.items() if (move := self._move(pod, asked))]

    def _candidates(self, pods: Sequence[RunningPod]) -> Iterator[tuple[RunningPod, Asked]]:
        for pod in pods:
            try:
                asked = self._scene.asked(pod.again)
            except NotPlaceable:
                self._staying[Stays.NOT_CHOSEN] += 1
                continue
            cause = stays(pod, asked, self._limits, self._now)
            if asked.cards.count != len(pod.record.held):
                cause = cause or Stays.NOT_CHOSEN
            if cause is None and not self._budgets.allow(pod.record.key, {}):
                cause = Stays.BUDGET
            if cause:
                self._staying[cause] += 1
            else:
                yield pod, asked

    def _move(self, pod: RunningPod, asked: Asked) -> Move | None:
        """Returns the move of a pod; None if its new pod would not get other cards that are as good, or it stays."""
        node = self._world.nodes.get(pod.record.node)
        if node is None or not self._budgets.allow(pod.record.key, self._spent):
            return None
        index_of = {uuid: index for index, uuid in node.uuids.items()}
        cards = tuple(sorted(index_of[uuid] for uuid in pod.record.held if uuid in index_of))
        if len(cards) < len(pod.record.held):
            return None
        chosen = self._chosen(pod, asked)
        with self._world.without(pod.record):
            here, there = self._world.free_of(node.name), self._world.free_of(chosen.node.name) if chosen else None
        if chosen is None or here is None or there is None or not _is_no_worse(chosen, here, cards, asked):
            return None
        if (chosen.node.name, chosen.choice.gpus) == (node.name, cards):
            return None
        return Move(
            pod=pod,
            cards=cards,
            node=chosen.node.name,
            to_cards=chosen.choice.gpus,
            to_uuids=chosen.uuids,
            gain=round(harm(here, cards) - harm(there, chosen.choice.gpus), 3),
            back=_lost(here, cards) - _lost(there, chosen.choice.gpus),
        )

    def _chosen(self, pod: RunningPod, asked: Asked) -> Chosen | None:
        """Returns the cards of the new pod, which is created while the old one has its cards, or afterwards."""
        with nullcontext() if pod.is_created_first else self._world.without(pod.record):
            return self._scene.chooser.best(pod.again, asked.cards)

    def _carry_out(self, move: Move) -> None:
        record = move.pod.record
        self._world.pod_changed(record.key, record, _moved(move))
        self._spent.update(self._budgets.of.get(record.key, ()))

    def _take_back(self, move: Move) -> None:
        record = move.pod.record
        self._world.pod_changed(record.key, _moved(move), record)
        self._spent.subtract(self._budgets.of.get(record.key, ()))

    def _linked_sets(self) -> LinkedSets:
        self._world.refresh()
        stocks = (stock for node in self._world.known_nodes() if (stock := self._world.free_of(node.name)))
        return sum((_sets(stock, stock.free) for stock in stocks), LinkedSets())


def _moved(move: Move) -> PodRecord:
    """Returns the pod as it stands in the world after its move."""
    return msgspec.structs.replace(move.pod.record, node=move.node, held=move.to_uuids, parts=(), held_on=move.node)


def _gains(moves: Sequence[Move]) -> bool:
    """Returns whether moves together give linked sets back, and make the free cards worth more."""
    return sum(move.gain for move in moves) > 0 and sum(move.back.total for move in moves) > 0


def _rank(move: Move) -> tuple[float, int, str]:
    """Returns the sort key of a move, the best first: much gained, few cards moved."""
    return -move.gain, len(move.cards), move.pod.record.key


def _rank_of_chain(moves: Sequence[Move]) -> tuple[float, tuple[float, int, str]]:
    """Returns the sort key of moves that belong together: by what they gain for each eviction."""
    return -sum(move.gain for move in moves) / len(moves), _rank(moves[0])


def _is_no_worse(chosen: Chosen, here: Stock, cards: tuple[int, ...], asked: Asked) -> bool:
    """Returns whether the pod loses nothing that it wants."""
    own = here.build.choice(frozenset(cards), Request(count=len(cards), constraints=asked.cards.constraints))
    now = Chosen(chosen.node, own)
    better = wanted_of(grade_of(chosen, asked.cards), asked.cards) >= wanted_of(grade_of(now, asked.cards), asked.cards)
    return better and (is_satisfying(chosen) or not is_satisfying(now))


def _lost(stock: Stock, cards: tuple[int, ...]) -> LinkedSets:
    """Returns the linked sets that the free cards lose with these."""
    return _sets(stock, stock.free) - _sets(stock, stock.free.difference(cards))


def _sets(stock: Stock, free: frozenset[int]) -> LinkedSets:
    return LinkedSets(*(stock.build.linked(free, size) for size in SIZES))
