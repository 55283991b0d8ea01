"""The cluster of a simulation: its time, its cards, HAMi's lock of each node, and the pods on it."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bench.fleet.arrivals import Job
from bench.fleet.links import Cards, Links
from tests.control_plane.hami.nodes import SLOTS
from webhook.decisions.allocation.model import WHOLE
from webhook.hardware.topology.model import NodeTopology


class GivenTwiceError(Exception):
    """A contender gave a card that another pod has, or a slice for which a card has no room."""


@dataclass(eq=False)
class Node:
    """A node."""

    topology: NodeTopology
    links: Links
    free: frozenset[int]
    parts: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """For each card the memory, in per cent, that each of its pods has."""
    locked: bool = False
    """Whether a pod of the node is between Bind and Allocate."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.topology.node

    def with_room(self, memory: int) -> frozenset[int]:
        """Returns the cards of which so many per cent can be had; the whole of a card only if nobody uses it."""
        if memory == WHOLE:
            return self.free
        cards = ((card, self.parts[card]) for card in range(self.links.count))
        return frozenset(card for card, parts in cards if len(parts) < SLOTS and sum(parts) + memory <= WHOLE)


@dataclass(eq=False)
class Pod:
    """A pod."""

    job: Job
    member: int
    """Its number in the job."""
    node: Node | None = None
    cards: Cards = ()
    """The cards that HAMi counts as its own."""
    grade: tuple[float, float] = (0.0, 0.0)
    """Whether the cards that it was bound with are linked, and their weakest pair."""
    best: tuple[float, float] = (0.0, 0.0)
    """The same of the best set of its size on its node, if all cards were free."""
    running: float | None = None
    """The time at which it got its cards; None: it waits."""

    @property
    def name(self) -> str:
        """Its name."""
        return f"job-{self.job.number}-{self.member}"

    @property
    def lock(self) -> float:
        """Seconds from its Bind to Allocate."""
        return self.job.locks[self.member]


class Contender(Protocol):
    """What decides which pods get which cards."""

    def came(self, pods: Sequence[Pod]) -> None:
        """Takes on the pods of a new job."""

    def ended(self, pods: Sequence[Pod]) -> None:
        """Learns that pods are gone and their cards are free."""

    def unlocked(self, node: Node) -> None:
        """Learns that a node takes the next pod."""

    def act(self) -> None:
        """Decides what follows from all that happened at this moment."""


@dataclass
class Cluster:
    """The cluster."""

    nodes: Sequence[Node]
    now: float = 0.0
    running: dict[int, list[Pod]] = field(default_factory=dict)
    """The pods of each job, by its number."""
    busy_until: float = 0.0
    """The time at which the last of the running jobs ends."""
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _made: int = 0

    def at(self, time: float, happens: Callable[[], None]) -> None:
        """Has something happen at a time."""
        self._made += 1
        heapq.heappush(self._events, (time, self._made, happens))

    def moments(self) -> Iterator[float]:
        """Lets happen all events of one moment after the other, and yields each time."""
        while self._events:
            self.now = self._events[0][0]
            while self._events and self._events[0][0] == self.now:
                heapq.heappop(self._events)[2]()
            yield self.now

    def take(self, pod: Pod, node: Node, cards: Cards) -> None:
        """Gives cards or slices to a pod, as HAMi's filter does.

        Raises:
            GivenTwiceError: one of them has no room for the pod.
        """
        if len(set(cards)) != pod.job.cards or not node.with_room(pod.job.memory).issuperset(cards):
            raise GivenTwiceError(f"{pod.name}: {node.name} {cards}, free: {sorted(node.free)}")
        for card in cards:
            node.parts[card].append(pod.job.memory)
        node.free -= set(cards)
        pod.node, pod.cards = node, cards

    def give_back(self, pods: Iterable[Pod]) -> None:
        """Takes the cards and slices of pods back."""
        for pod in pods:
            if node := pod.node:
                for card in pod.cards:
                    node.parts[card].remove(pod.job.memory)
                node.free |= {card for card in pod.cards if not node.parts[card]}
            pod.node, pod.cards = None, ()

    def bind(self, pod: Pod, contender: Contender) -> None:
        """Binds a pod that has its cards to a node that is not locked; its job begins when all its pods have theirs."""
        node = pod.node
        if node is None or node.locked:
            raise GivenTwiceError(f"{pod.name}: bound to a locked node")
        node.locked, pod.grade = True, node.links.grade(pod.cards)
        pod.best = node.links.best_grade(frozenset(range(node.links.count)), pod.job.cards)
        self.busy_until = max(self.busy_until, self.now + pod.lock)
        self.at(self.now + pod.lock, lambda: self._allocated(pod, node, contender))

    def _allocated(self, pod: Pod, node: Node, contender: Contender) -> None:
        node.locked, pod.running = False, self.now
        contender.unlocked(node)
        mates = self.running.setdefault(pod.job.number, [])
        mates.append(pod)
        if len(mates) == len(pod.job.locks):
            ends = self.now + pod.job.life
            self.busy_until = max(self.busy_until, ends)
            self.at(ends, lambda: contender.ended(mates))


def cluster_of(topologies: Sequence[NodeTopology], known: dict[object, Links]) -> Cluster:
    """Returns an idle cluster.

    Args:
        topologies: Its nodes.
        known: The tables of machines that were made before; nodes that are built alike share one.
    """
    nodes = []
    for topology in topologies:
        build = tuple((gpu.name, gpu.numa_node, gpu.nvlinks) for gpu in topology.gpus)
        if build not in known:
            known[build] = Links(topology)
        nodes.append(Node(topology, known[build], frozenset(range(len(topology.gpus)))))
    return Cluster(nodes)
