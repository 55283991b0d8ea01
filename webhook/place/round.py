"""What the decisions of one round share."""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime

from webhook.config import AdmitPolicy
from webhook.model.errors import FormatError
from webhook.model.outcome import Refused
from webhook.model.pod import Namespace
from webhook.place.asked import Asked, CardsAsked, read_asked
from webhook.place.choose import Chooser, Chosen
from webhook.place.memory import Intents, Memory
from webhook.place.placed import Placed
from webhook.place.pod import PodRecord
from webhook.place.reasons import PlaceReason
from webhook.place.scheduling import NodeNeeds
from webhook.place.world import World
from webhook.request.resources import read_requests

_FAMILY = "hami"
_Same = tuple[CardsAsked, NodeNeeds, frozenset[tuple[str, int]]]


class Unreadable(Exception):
    """What a pod asks cannot be read; the text says why."""


@dataclass(slots=True)
class PlannerReport:
    """How it stands, for metrics."""

    waiting: Counter[str] = field(default_factory=Counter)
    """Pods that wait behind the gate, by reason."""
    oldest: float = 0.0
    """Seconds that the oldest of them has waited."""


class Scene:
    """What there is, what is remembered, and what is configured.

    Args:
        world: What there is.
        policy: The configuration.
        namespaces: Gives what is known of a namespace.
    """

    def __init__(self, world: World, policy: AdmitPolicy, namespaces: Callable[[str], Namespace]) -> None:
        self.world = world
        self.settings = policy.placement
        self.memory = Memory()
        self.intents = Intents(world)
        self.chooser = Chooser(world, _resources_of_hami(policy))
        self._policy = policy
        self._namespaces = namespaces

    def asked(self, pod: PodRecord) -> Asked:
        """What a pod asks of its cards.

        Raises:
            Unreadable: it asks for none of HAMi's, or what it asks cannot be read.
        """
        if pod.unbound is None:
            raise Unreadable("it has a node")
        policy = self._policy
        try:
            requests = read_requests(pod.unbound.pod, policy.resources, policy.default_count)
            families = {container.request.names.family for container in requests.containers if container.request}
            if families != {_FAMILY}:
                raise Unreadable("it requests no cards of HAMi's")
            return read_asked(pod.unbound.pod, self._namespaces(pod.namespace), requests, policy)
        except (Refused, FormatError) as problem:
            raise Unreadable(str(problem)) from None


@dataclass(slots=True)
class Round:
    """One round."""

    now: float
    """Seconds of a clock that never goes back."""
    at: datetime
    busy: Collection[str]
    """Keys of the pods whose last write is not done."""
    in_flight: int = 0
    """Pods that are pinned and that the scheduler has not looked at yet."""
    releasing: set[str] = field(default_factory=set)
    """Nodes of which one is on its way: HAMi locks a node from Bind to Allocate, and others would wait in its queue."""
    closed: set[str] = field(default_factory=set)
    """Nodes that are kept for a pod that has waited for long."""
    kept: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Nodes that are kept for the rest of a group, with its namespace and name."""
    groups: set[tuple[str, str]] = field(default_factory=set)
    """Groups that had their turn."""
    in_vain: set[_Same] = field(default_factory=set)
    """What was looked for already without success: no card gets free in a round."""
    report: PlannerReport = field(default_factory=PlannerReport)

    def count(self, reason: PlaceReason, waited: float) -> None:
        """A pod waits for that reason."""
        self.report.waiting[reason] += 1
        self.report.oldest = max(self.report.oldest, waited)

    def closed_to(self, pod: PodRecord) -> set[str]:
        """The names of the nodes that a pod does not get."""
        group = (pod.namespace, pod.group)
        return self.closed.union(name for name, owner in self.kept.items() if owner != group)

    def best(self, scene: Scene, pod: PodRecord, asked: Asked) -> Chosen | None:
        """The best cards for a pod; None if no node on which it can run has enough."""
        if pod.unbound is None:
            return None
        cards, closed = asked.cards, self.closed_to(pod)
        mates = {mate.node for mate in scene.world.mates(pod) if mate.node} if asked.on_one_node else set()
        if mates:
            return scene.chooser.best(pod, cards, closed=closed, only=mates)
        same = (cards, pod.unbound.needs, frozenset(pod.amounts.items()))
        if same in self.in_vain:
            return None
        chosen = scene.chooser.best(pod, cards, closed=closed)
        if chosen is None:
            self.in_vain.add(same)
        return chosen

    def placed(self, chosen: Chosen, attempt: int = 1, refused: tuple[str, ...] = ()) -> Placed:
        """What is written of a choice.

        Args:
            chosen: The cards.
            attempt: 1 for the first choice.
            refused: Nodes that the scheduler did not take before.
        """
        gpu_set = chosen.choice.chosen
        return Placed(
            node=chosen.node.name,
            cards=chosen.uuids,
            link=gpu_set.link,
            bandwidth=round(gpu_set.bandwidth, 1),
            share=round(chosen.share, 3),
            attempt=attempt,
            at=self.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            gave_up=tuple(unmet.evidence for unmet in chosen.choice.unmet),
            refused=refused,
        )


def _resources_of_hami(policy: AdmitPolicy) -> frozenset[str]:
    """The resources that HAMi reckons with instead of kube-scheduler (``ignoredByScheduler`` in its configuration)."""
    return frozenset(
        name
        for family in policy.resources
        if family.family == _FAMILY
        for name in (family.count, family.memory, family.memory_percentage, family.cores)
    )
