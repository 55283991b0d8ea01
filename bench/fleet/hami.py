"""HAMi's scheduler: how it chooses node and cards, and how kube-scheduler's queue treats pods that it refuses.

HAMi 2.10 (pkg/scheduler/policy, pkg/device/nvidia/device.go, Fit): nodes are sorted by use, and the policy of nodes
takes the last: the fullest with ``binpack``, its default, the emptiest with ``spread``. Use is that of slots, cores and
memory. The policy of cards gives slices the least used card with ``spread``, its default, and the most used with
``binpack``. Whole cards that are free all have one score, so cards come by the highest NUMA node, then in the order of
the register, which is by chance. With ``topology-aware`` the set with the greatest sum of the scores of its pairs is
taken, and of single cards that with the least sum, of all cards that have room.

kube-scheduler 1.33 or later (pkg/scheduler/backend/queue): a pod that HAMi refuses is looked at again when cards became
free, those whose back-off is over first, then the others, since an empty queue takes them from their back-off. A pod
whose Bind meets HAMi's lock is tried again after an error back-off, which nothing shortens. Back-offs double from 1 to
10 seconds. A scheduling cycle takes no time.
"""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import fmean
from typing import Protocol

from bench.fleet.arrivals import Job
from bench.fleet.cluster import Cluster, Contender, Node, Pod
from bench.fleet.links import Cards, total_score
from tests.control_plane.hami.nodes import SLOTS
from webhook.decisions.allocation.model import WHOLE

Named = tuple[Node, Cards]
"""Cards of a node, such as ``nvidia.com/use-gpuuuid`` names them."""
FIRST_BACK_OFF, LONGEST_BACK_OFF = 1.0, 10.0


class Policy(StrEnum):
    """HAMi's policies that are compared."""

    BINPACK = "binpack"
    """Of nodes ``binpack``, of cards ``spread``: HAMi's defaults."""
    SPREAD = "spread"
    """Of nodes and cards ``spread``."""
    TOPOLOGY_AWARE = "topology-aware"
    """Of nodes ``binpack``, of cards ``topology-aware``."""
    BINPACK_CARDS = "binpack-cards"
    """Of nodes and cards ``binpack``. To whole cards it is what ``BINPACK`` is."""


@dataclass
class Queued:
    """A pod in the queue of the scheduler."""

    pod: Pod
    only: Named | None = None
    """The cards that ``nvidia.com/use-gpuuuid`` names."""
    refusals: int = 0
    errors: int = 0
    until: float = 0.0
    """The end of its back-off."""


class Result(StrEnum):
    """The result of a scheduling cycle."""

    BOUND = "Scheduled"
    UNSCHEDULABLE = "Unschedulable"
    LOCKED = "SchedulerError"


class Asker(Contender, Protocol):
    """Whose pods the scheduler schedules."""

    def told(self, pod: Pod, result: Result) -> None:
        """Learns the result of a scheduling cycle."""


class Scheduler:
    """kube-scheduler with HAMi's extender.

    Args:
        cluster: The cluster.
        policy: The policy of nodes and cards.
        seed: The seed of what is chance with HAMi.
        asker: Whose pods it schedules.
    """

    def __init__(self, cluster: Cluster, policy: Policy, seed: int, asker: Asker) -> None:
        self._cluster, self._policy, self._asker = cluster, policy, asker
        self._chance = random.Random(f"hami {seed}")  # noqa: S311 - no secret
        self._active: deque[Queued] = deque()
        self._refused: dict[Pod, Queued] = {}
        self._entries: dict[Pod, Queued] = {}
        self._order = {node: self._listed(node) for node in cluster.nodes}

    def add(self, pod: Pod, only: Named | None = None) -> None:
        """Queues a new pod, which may name its cards."""
        self._entries[pod] = Queued(pod, only)
        self._active.append(self._entries[pod])

    def limit(self, pod: Pod, only: Named | None) -> None:
        """Changes the cards that a queued pod names. A pod that was refused is then looked at again."""
        self._entries[pod].only = only
        if entry := self._refused.pop(pod, None):
            self._active.append(entry)

    def cards_are_free(self) -> None:
        """Has all refused pods looked at again."""
        now = self._cluster.now
        self._active += sorted(self._refused.values(), key=lambda entry: max(entry.until, now))
        self._refused.clear()

    def run(self) -> None:
        """Makes scheduling cycles until nobody is to be looked at."""
        while self._active:
            self._cycle(self._active.popleft())

    def _cycle(self, entry: Queued) -> None:
        pod = entry.pod
        self._cluster.give_back([pod])
        found = self._filter(entry)
        if found is None:
            entry.refusals += 1
            entry.until = self._cluster.now + _back_off(entry.refusals)
            self._refused[pod] = entry
            self._asker.told(pod, Result.UNSCHEDULABLE)
            return
        self._cluster.take(pod, *found)
        if found[0].locked:
            entry.errors += 1
            self._cluster.at(self._cluster.now + _back_off(entry.errors), lambda: self._active.append(entry))
            self._asker.told(pod, Result.LOCKED)
            return
        del self._entries[pod]
        self._cluster.bind(pod, self._asker)
        self._asker.told(pod, Result.BOUND)

    def _filter(self, entry: Queued) -> Named | None:
        job = entry.pod.job
        if entry.only:
            node, cards = entry.only
            return entry.only if node.with_room(job.memory).issuperset(cards) and len(cards) == job.cards else None
        fitting = [node for node in self._cluster.nodes if len(node.with_room(job.memory)) >= job.cards]
        if not fitting:
            return None
        sign = -1 if self._policy is Policy.SPREAD else 1
        use = {node: sign * fmean(use_of(node, card) for card in range(node.links.count)) for node in fitting}
        most = max(use.values())
        node = self._chance.choice([node for node in fitting if use[node] == most])
        return node, self._cards(node, job)

    def _cards(self, node: Node, job: Job) -> Cards:
        room, links, count = node.with_room(job.memory), node.links, job.cards
        cards = [card for card in self._order[node] if card in room]
        cards.sort(key=lambda card: use_of(node, card), reverse=self._policy is Policy.BINPACK_CARDS)
        if self._policy is not Policy.TOPOLOGY_AWARE or len(cards) == count:
            return tuple(cards[:count])
        if count == 1:
            return (min(cards, key=lambda card: sum(links.pair_scores[card, each] for each in cards if each != card)),)
        return max(combinations(cards, count), key=lambda chosen: total_score(links, chosen))

    def _listed(self, node: Node) -> list[int]:
        """Returns the cards of a node in the order in which HAMi tries equally used ones."""
        cards = self._chance.sample(range(node.links.count), node.links.count)
        return sorted(cards, key=lambda card: -node.links.numa[card])


class HamiAlone:
    """A contender without a planner: all pods go to the scheduler at once.

    Args:
        cluster: The cluster.
        policy: HAMi's policy.
        seed: The seed of what is chance with HAMi.
    """

    def __init__(self, cluster: Cluster, policy: Policy, seed: int) -> None:
        self._cluster = cluster
        self._scheduler = Scheduler(cluster, policy, seed, self)
        self.cpu = 0.0

    def came(self, pods: Sequence[Pod]) -> None:
        """Queues the pods."""
        for pod in pods:
            self._scheduler.add(pod)

    def ended(self, pods: Sequence[Pod]) -> None:
        """Takes the cards back."""
        self._cluster.give_back(pods)
        self._scheduler.cards_are_free()

    def unlocked(self, node: Node) -> None:
        """Does nothing: no event tells the scheduler."""

    def told(self, pod: Pod, result: Result) -> None:
        """Does nothing."""

    def act(self) -> None:
        """Has the scheduler run."""
        self._scheduler.run()


def use_of(node: Node, card: int) -> int:
    """Returns HAMi's score of a card: the sum of its slots, cores and memory in use, each in per cent.

    Slices ask for no cores here. HAMi adds what the pod asks for, which is the same for all cards of a node.
    """
    parts = node.parts[card]
    return len(parts) * WHOLE // SLOTS + (WHOLE if WHOLE in parts else 0) + sum(parts)


def _back_off(times: int) -> float:
    doublings = min(times - 1, 4)  # more make no difference
    return min(LONGEST_BACK_OFF, FIRST_BACK_OFF * 2.0**doublings)
