"""The values that all decisions of one round of the planner share."""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import TypeVar, cast

from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.place import evidence
from webhook.decisions.place.card_request import Asked, CardsAsked, read_asked, read_asked_as_it_is
from webhook.decisions.place.choice import Chooser, Chosen, is_satisfying
from webhook.decisions.place.group import MOST_PODS, pod_group_of
from webhook.decisions.place.memory import Intents, Memory, NoCards
from webhook.decisions.place.pins import written_pin
from webhook.decisions.place.placed_annotation import UNKNOWN_LINK, Placed
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.reasons import PlaceReason
from webhook.decisions.place.scheduling import NodeNeeds
from webhook.decisions.place.shares import Shares
from webhook.decisions.place.world import PlaceNode, World
from webhook.decisions.request.placement import PodToPlace, has_parts_or_one_card, unplaced, unplaced_as_it_is
from webhook.decisions.request.resources import read_requests
from webhook.objects.pod import MalformedPod, Namespace
from webhook.objects.workload import Workload, WorkloadRef
from webhook.words import names
from webhook.words.errors import FormatError
from webhook.words.outcome import Refused
from webhook.words.timestamp import format_timestamp

SAMPLED_FROM = 100
"""The number of nodes that kube-scheduler always looks at: pkg/scheduler/schedule_one.go, minFeasibleNodesToFind."""
_FAMILY = "hami"
_NOTHING_DETECTED = ClusterFacts()
_Same = tuple[CardsAsked, NodeNeeds | None, frozenset[tuple[str, int]], frozenset[str]]
_T = TypeVar("_T")


WISHES, WISHES_OF_ONE = 1024, 128
"""The most objects for which one round asks, in all and of one namespace."""


class NotReadYet(Exception):
    """An object is not read yet."""


class NotPlaceable(Exception):
    """The planner chooses no cards for a pod; the text is a clause that says why."""


@dataclass(slots=True)
class PlannerReport:
    """The pods that wait, for metrics."""

    waiting: Counter[str] = field(default_factory=Counter)
    """The number of pods that wait behind the gate, by reason."""
    oldest: float = 0.0
    """Seconds that the oldest of these pods has waited."""


class Scene:
    """The world, the memory and the configuration of the planner.

    Args:
        world: The pods and nodes of the cluster.
        policy: The configuration.
        namespaces: Returns the namespace of a name.
        cpu: Returns the seconds of CPU that this thread has spent. Without it a round takes all the time it needs.
    """

    def __init__(
        self,
        world: World,
        policy: AdmitPolicy,
        namespaces: Callable[[str], Namespace],
        cpu: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.world = world
        self.settings = policy.placement
        self.memory = Memory()
        self.intents = Intents(world)
        self.chooser = Chooser(world, _resources_of_hami(policy))
        self.shares = Shares(self.memory, cpu)
        self.wishes: set[WorkloadRef] = set()
        """The objects that this round asks for."""
        self._wished: Counter[str] = Counter()
        self._policy = policy
        self._namespaces = namespaces

    def narrowed(self, pod: PodRecord, chosen: PlaceNode, cards: CardsAsked) -> list[str]:
        """Returns the host names to which a pod is to be limited when its gate opens; empty: the pod stays as it is.

        From 100 nodes on kube-scheduler stops its search when it has found enough nodes, and may never ask HAMi about
        the right node (pkg/scheduler/schedule_one.go, numFeasibleNodesToFind). A limit can be set only while the pod is
        gated, and can never be widened. So the limit leaves as many other nodes as the search takes.
        """
        unbound, nodes = pod.unbound, self.world.nodes.values()
        if unbound is None or not unbound.is_gated or len(self.world.nodes) <= SAMPLED_FROM:
            return []
        fit = (node for node in nodes if not node.refusal(unbound.needs))
        if next(islice(fit, SAMPLED_FROM, None), None) is None:
            return []
        others = (node for node in self.chooser.ranked_nodes(pod, cards) if node is not chosen)
        hosts = [node.host_name for node in (chosen, *islice(others, SAMPLED_FROM - 1))]
        return [host for host in hosts if host] if hosts[0] else []

    def free_cards(self, pod: PodRecord, asked: CardsAsked) -> str:
        """Returns the free cards of the nodes on which a pod can run, and cordoned nodes."""
        if asked.part:
            return evidence.cards_with_room(self.world, self.chooser, pod, asked.part)
        free = evidence.free_cards(self.world, self.chooser, pod)
        cordoned = evidence.cordoned_nodes(self.world, self.chooser, pod, asked)
        return "; ".join(part for part in (free, cordoned) if part)

    def begin_wishes(self) -> None:
        """Forgets what the last round asked for."""
        self.wishes.clear()
        self._wished.clear()

    def workload(self, ref: WorkloadRef) -> Workload | None:
        """Returns what is known of an object; None if there is none, or it cannot be read.

        Raises:
            NotReadYet: nothing is known yet. It may be in a later round.
        """
        if not ref.is_possible:
            return None
        if ref not in self.wishes and len(self.wishes) < WISHES and self._wished[ref.namespace] < WISHES_OF_ONE:
            self.wishes.add(ref)
            self._wished[ref.namespace] += 1
        try:
            return self.world.workloads[ref]
        except KeyError:
            raise NotReadYet from None

    def asked(self, pod: PodRecord) -> Asked:
        """Reads what a pod without a node asks of its cards.

        Args:
            pod: The pod.

        Raises:
            NotPlaceable: HAMi does not give the pod whole cards, the pod chooses its cards itself, or its request
                cannot be read.
        """
        if pod.unbound is None:
            raise NotPlaceable("it has a node")
        if pod.unbound.why_cut:
            raise NotPlaceable(pod.unbound.why_cut)
        found, policy, namespace = pod.unbound.pod, self._policy, self._namespaces(pod.namespace)
        try:
            requests = read_requests(found, policy.resources, policy.default_count)
            is_injected = names.INJECTED in found.annotations or not has_parts_or_one_card(requests)
            read, why_not = (read_asked, unplaced) if is_injected else (read_asked_as_it_is, unplaced_as_it_is)
            asked = read(found, namespace, requests, policy)
            to_place = PodToPlace(
                pod=found,
                options=asked.options,
                profile=asked.profile,
                requests=requests,
                namespace=namespace,
                policy=policy,
                cluster=_NOTHING_DETECTED.overruled_by(policy.versions),
                is_admitted=True,
            )
            hindrance = None if written_pin(pod) or not pod.unbound.is_gated else why_not(to_place)
        except (Refused, FormatError, MalformedPod) as problem:
            raise NotPlaceable(str(problem)) from None
        if hindrance:
            raise NotPlaceable(hindrance.message.text)
        is_told = is_injected and asked.group_size == 1 and pod.group
        return replace(asked, group_size=self._told_size(pod)) if is_told else asked

    def pod_group(self, pod: PodRecord) -> Workload | None:
        """Returns what is known of the PodGroup that a waiting pod names; None: it names none, or it cannot be read.

        Raises:
            NotReadYet: nothing is known yet.
        """
        if pod.unbound is None or not pod.unbound.is_gated or names.INJECTED not in pod.unbound.pod.annotations:
            return None
        try:
            ref = pod_group_of(pod.unbound.pod, pod.namespace)
        except MalformedPod:
            return None
        return self.workload(ref) if ref else None

    def _told_size(self, pod: PodRecord) -> int:
        """Returns the number of pods that get their cards together, as their PodGroup says; 1: nothing is known."""
        try:
            found = self.pod_group(pod)
        except NotReadYet:
            return 1
        return min(MOST_PODS, max(1, found.pods)) if found else 1

    def has_opted_in(self, pod: PodRecord) -> bool:
        """Returns whether the namespace of a pod has opted in."""
        return self._namespaces(pod.namespace).injection_enabled

    def is_taken(self, pod: PodRecord, pin: Placed, asked: Asked | None) -> bool:
        """Returns whether other pods have taken one of the cards that a pod is pinned to, or the room on it."""
        part = asked.cards.part if asked else None
        if part is None:
            return any(self.world.is_held(uuid, pin.node, but=pod.key) for uuid in pin.cards)
        with self.world.without(pod):
            return not self.world.has_room_for(part, pin.node, pin.cards)

    def refused(self, pod: PodRecord) -> NoCards | None:
        """Returns the last answer to a pod for which there were no cards, if it would be the same now."""
        found = self.memory.refused.get(pod.uid)
        is_so_still = found and found.holds(pod, self._namespaces(pod.namespace), self.world.gains)
        return found if is_so_still else None

    def refuse(self, pod: PodRecord, asked: Asked, reason: PlaceReason, *, is_told: bool) -> None:
        """Remembers that there are no cards for a pod, until one becomes free."""
        if pod.unbound is not None:
            namespace = self._namespaces(pod.namespace)
            self.memory.refused[pod.uid] = NoCards(pod.unbound, namespace, self.world.gains, asked, reason, is_told)


@dataclass(slots=True)
class Round:
    """The state of one round."""

    now: float
    """Seconds of a clock that never goes back."""
    at: datetime
    busy: Collection[str]
    """The keys of the pods whose last write is not done."""
    is_thorough: bool = True
    """Whether the round also looks at pods that cannot go on now, because too many are on their way."""
    in_flight: int = 0
    """The number of pods that are pinned and that the scheduler has not looked at yet."""
    releasing: set[str] = field(default_factory=set)
    """Nodes to which a pod is on its way: HAMi locks a node from Bind to Allocate, so other pods would wait for it."""
    closed: set[str] = field(default_factory=set)
    """Nodes that are reserved for a pod that has waited for long."""
    decided: set[str] = field(default_factory=set)
    """The keys of pods about which was decided in this round, with their group."""
    in_vain: set[_Same] = field(default_factory=set)
    """Requests for which no cards were found in this round: no card becomes free during a round."""
    victims_in_vain: set[tuple[_Same, int]] = field(default_factory=set)
    """Requests, and priorities of pods, for which no cards were found in this round that preemption makes usable."""
    answers: dict[tuple[object, ...], tuple[int, object]] = field(default_factory=dict)
    """The answers for pods with the same request, each with the number of changes of the world at that time."""
    report: PlannerReport = field(default_factory=PlannerReport)

    def count(self, reason: PlaceReason, waited: float) -> None:
        """Counts a pod that waits for a reason."""
        self.report.waiting[reason] += 1
        self.report.oldest = max(self.report.oldest, waited)

    def best(self, scene: Scene, pod: PodRecord, asked: Asked) -> Chosen | None:
        """Returns the best cards for a pod; None if no node on which it can run has enough."""
        if pod.unbound is None:
            return None
        cards, closed = asked.cards, self.closed
        nodes = scene.world.nodes_of_mates(pod) if asked.on_one_node else set()
        if nodes:
            return scene.chooser.best(pod, cards, closed=closed, only=nodes)
        same = self._same(pod, asked)
        if same in self.in_vain:
            return None
        chosen = self.once(scene.world, same, lambda: scene.chooser.best(pod, cards, closed=closed))
        if chosen is None:
            self.in_vain.add(same)
        return chosen

    def best_by_preemption(self, scene: Scene, pod: PodRecord, asked: Asked) -> Chosen | None:
        """Returns the best cards on nodes that have room only without pods of lower priority; None if there are none.

        If the pod waits for what it requires, other cards do not count.
        """
        question = self._same(pod, asked), pod.priority
        if not scene.chooser.may_preempt(pod) or question in self.victims_in_vain:
            return None
        if asked.on_one_node and scene.world.nodes_of_mates(pod):
            return None
        chosen = scene.chooser.best_by_preemption(pod, asked.cards, closed=self.closed)
        if chosen and (is_satisfying(chosen) or not asked.waits):
            return chosen
        self.victims_in_vain.add(question)
        return None

    def _same(self, pod: PodRecord, asked: Asked) -> _Same:
        needs = pod.unbound.needs if pod.unbound else None
        return asked.cards, needs, frozenset(pod.amounts.items()), frozenset(self.closed)

    def once(self, world: World, question: tuple[object, ...], answer: Callable[[], _T]) -> _T:
        """Returns the answer to a question of many pods, and works it out again only after a change of the world."""
        changes, found = self.answers.get(question, (-1, None))
        if changes != world.changes:
            found = answer()
            self.answers[question] = world.changes, found
        return cast("_T", found)

    def once_for(self, world: World, what: str, pod: PodRecord, cards: CardsAsked, answer: Callable[[], _T]) -> _T:
        """Returns the answer to a question about a pod, worked out :meth:`once` for all pods with the same request."""
        needs = pod.unbound.needs if pod.unbound else None
        return self.once(world, (what, cards, needs, frozenset(pod.amounts.items())), answer)

    def placed(
        self,
        chosen: Chosen,
        attempt: int = 1,
        refused: tuple[str, ...] = (),
        together: int = 0,
    ) -> Placed:
        """Returns the value of the annotation ``gpu.topology/placed`` for a choice.

        Args:
            chosen: The cards.
            attempt: 1 for the first choice.
            refused: The nodes that the scheduler refused before.
            together: The number of pods of the group that get their cards with this choice; 0: the pod is placed alone.
        """
        gpu_set, is_known = chosen.choice.chosen, chosen.has_known_links
        return Placed(
            node=chosen.node.name,
            cards=chosen.uuids,
            link=gpu_set.link if is_known else UNKNOWN_LINK,
            bandwidth=round(gpu_set.bandwidth, 1) if is_known else 0.0,
            share=round(chosen.share, 3) if is_known else 1.0,
            attempt=attempt,
            at=format_timestamp(self.at),
            gave_up=tuple(unmet.evidence for unmet in chosen.choice.unmet),
            refused=refused,
            together=together,
            preempts=chosen.preempts,
        )


def _resources_of_hami(policy: AdmitPolicy) -> frozenset[str]:
    """Returns the resources that HAMi counts instead of kube-scheduler (HAMi's setting ``ignoredByScheduler``)."""
    return frozenset(
        name
        for family in policy.resources
        if family.family == _FAMILY
        for name in (family.count, family.memory, family.memory_percentage, family.cores)
    )
