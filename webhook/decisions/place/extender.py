"""The answers of the scheduler extender: the nodes that a pod may get, and the scores of their cards.

A node passes unless its cards are known not to fit. The scheduler and HAMi decide about what is not known. No cards are
held for a pod, and nothing is remembered from one question to the next.

On nodes that HAMi has registered, the free cards are known. On nodes of a plain device plugin only the number of free
cards is known, because the kubelet does not say which cards a pod has. Such a node passes if some set of its cards with
the right size fits.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.place.card_request import CardsAsked, read_asked
from webhook.decisions.place.evidence import wanted
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.ranking import rank, rank_of
from webhook.decisions.place.world import PlaceNode, Stock, World
from webhook.decisions.request.resources import ContainerRequest, PodRequests, read_requests
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.planning.fleet import Build
from webhook.hardware.topology.selection.request import Constraint
from webhook.hardware.topology.sets import LINK_VALUES, LinkClass
from webhook.objects.pod import MalformedPod, Namespace, Pod
from webhook.words import names
from webhook.words.catalogue import extender as said
from webhook.words.catalogue.entry import Message
from webhook.words.errors import FormatError
from webhook.words.outcome import Refused

BEST, WORST = 10, 1
"""The greatest and the least score of a known node. The extender protocol goes from 0 to 10 (kube-scheduler
extender/v1/types.go, MaxExtenderPriority). Nodes of which nothing is known have 0."""
_FAMILY = "hami"
_INIT = "/spec/initContainers/"
_DIGITS = 3


class LeftAlone(Exception):
    """The pod is not one that the extender judges; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """The request of a pod to the cards of a node."""

    pod: PodRecord
    cards: CardsAsked
    denies: bool
    """Whether the pod may run only where its requirements are met."""
    resource: str
    """The name of the resource by which the pod asks for cards."""
    listed: frozenset[str] | None
    """UUIDs of the only cards that HAMi may give the pod; None: any."""
    not_listed: frozenset[str]
    """UUIDs of cards that HAMi may not give the pod."""

    def may_have(self, uuid: str) -> bool:
        """Returns whether HAMi may give the pod a card."""
        return (self.listed is None or uuid in self.listed) and uuid not in self.not_listed


class Verdict(NamedTuple):
    """The judgement of one node for one pod."""

    refusal: Message | None = None
    """Why the pod cannot run on the node; None: the node passes."""
    lasts: bool = False
    """Whether the refusal holds even if other pods leave the node."""
    rank: tuple[float, ...] | None = None
    """The rank of the cards of the node, the greater the better; None: not known."""


UNKNOWN = Verdict()


def read_question(record: PodRecord, policy: AdmitPolicy, namespaces: Callable[[str], Namespace]) -> Question:
    """Reads the request of a pod.

    Args:
        record: A pod without a node.
        policy: The configuration.
        namespaces: Returns the namespace of a name.

    Raises:
        LeftAlone: the pod was not injected, asks for no whole cards of HAMi's, or its request cannot be read.
    """
    if record.unbound is None or names.INJECTED not in record.unbound.pod.annotations:
        raise LeftAlone("the pod has a node, or was not injected")
    pod = record.unbound.pod
    try:
        requests = read_requests(pod, policy.resources, policy.default_count)
        resource = _resource(requests)
        asked = read_asked(pod, namespaces(record.namespace), requests, policy)
    except (Refused, FormatError, MalformedPod) as problem:
        raise LeftAlone(str(problem)) from None
    return Question(
        pod=record,
        cards=asked.cards,
        denies=asked.waits,
        resource=resource,
        listed=_listed(pod, names.USE_GPU_UUID) or None,
        not_listed=_listed(pod, names.NO_USE_GPU_UUID),
    )


def judge(world: World, question: Question, nodes: Iterable[str], late: Callable[[], bool]) -> dict[str, Verdict]:
    """Judges nodes for a pod.

    Args:
        world: The pods and nodes of the cluster. Cards that the pod itself holds count as free, unless it has a node:
            no scheduler asks about such a pod, and the answer would tell where its cards are.
        question: The request of the pod.
        nodes: The names of the nodes.
        late: Returns whether there is no time for more choices; nodes that need a choice pass then.
    """
    judging = _Judging(world, question, late)
    found = world.pods.get(question.pod.key)
    if found is None or found.uid != question.pod.uid or found.unbound is None:
        return {name: judging.verdict(name) for name in nodes}
    with world.without(found):
        return {name: judging.verdict(name) for name in nodes}


def scores(verdicts: Mapping[str, Verdict]) -> dict[str, int]:
    """Returns a score for each node: :data:`BEST` for the best cards, :data:`WORST` for the worst.

    Nodes with equally good cards have the same score.
    """
    ranks = sorted({verdict.rank for verdict in verdicts.values() if verdict.rank is not None}, reverse=True)
    steps = max(len(ranks) - 1, 1)
    score_of = {rank: BEST - round((BEST - WORST) * place / steps) for place, rank in enumerate(ranks)}
    return {name: score_of[verdict.rank] if verdict.rank else 0 for name, verdict in verdicts.items()}


class _Judging:
    """Judges the nodes for one question; nodes that are alike are judged once."""

    def __init__(self, world: World, question: Question, late: Callable[[], bool]) -> None:
        self._world = world
        self._question = question
        self._plain = replace(question.cards, one_numa_node=False, types=(), not_types=())
        """The request of the pod on nodes without HAMi, where HAMi's annotations have no effect."""
        self._late = late
        self._known: dict[tuple[object, ...], Verdict] = {}

    def verdict(self, name: str) -> Verdict:
        node = self._world.nodes.get(name)
        if node is None or node.record is None:
            return UNKNOWN
        return self._with_hami(node) if node.record.most else self._without_hami(node)

    def _with_hami(self, node: PlaceNode) -> Verdict:
        stock, question = self._world.free_of(node.name), self._question
        if stock is None:
            return UNKNOWN
        usable = frozenset(index for index, uuid in node.uuids.items() if question.may_have(uuid))
        free = Stock(stock.build, stock.free & usable)
        return self._once((free, usable), lambda: self._of_known_cards(free, usable))

    def _of_known_cards(self, free: Stock, usable: frozenset[int]) -> Verdict:
        cards = self._question.cards
        gpus = {gpu.index: gpu for gpu in free.build.topology.gpus}
        fitting = frozenset(index for index in usable if cards.takes(gpus[index].name))
        refused = self._too_few(len(fitting), len(fitting & free.free))
        if refused:
            return refused
        ranked = rank_of(free, cards)
        if ranked is None:  # nvidia.com/numa-bind, to which HAMi holds
            return UNKNOWN
        if not (ranked.choice.unmet and self._question.denies):
            return Verdict(rank=_rounded(ranked.rank))
        ideal = rank_of(Stock(free.build, usable), cards)
        return self._no_such_set(lasts=ideal is None or bool(ideal.choice.unmet))

    def _without_hami(self, node: PlaceNode) -> Verdict:
        build, record, resource = node.build, node.record, self._question.resource
        if build is None or record is None:
            return UNKNOWN
        offered, used = record.allocatable.get(resource, 0), node.all.used.get(resource, 0)
        cards = _cards(build.topology)
        if not 0 < offered <= len(cards):  # another program's nodes; or cards that pods share in turns
            return UNKNOWN
        return self._once((build, offered, used), lambda: self._of_counted_cards(Stock(build, cards), offered, used))

    def _of_counted_cards(self, stock: Stock, offered: int, used: int) -> Verdict:
        cards, left = self._plain, offered - used
        refused = self._too_few(offered, max(left, 0))
        if refused:
            return refused
        best = rank_of(stock, cards)
        if best is None:
            return UNKNOWN
        if best.choice.unmet and self._question.denies:
            return self._no_such_set(lasts=True)
        rank = best.rank if not used else _least(stock.build, cards, left)
        return Verdict(rank=_rounded(rank))

    def _too_few(self, most: int, free: int) -> Verdict | None:
        count = self._question.cards.count
        if most < count:
            return Verdict(said.NODE_TOO_FEW_CARDS.say(most=most, count=count), lasts=True)
        if free < count:
            return Verdict(said.NODE_TOO_FEW_FREE.say(free=free, count=count))
        return None

    def _no_such_set(self, *, lasts: bool) -> Verdict:
        entry, cards = said.NODE_NO_SUCH_SET if lasts else said.NODE_NO_SET_FREE, self._question.cards
        return Verdict(entry.say(count=cards.count, wanted=wanted(cards)), lasts=lasts)

    def _once(self, key: tuple[object, ...], reckon: Callable[[], Verdict]) -> Verdict:
        found = self._known.get(key)
        if found is None:
            if self._late():
                return UNKNOWN
            found = self._known[key] = reckon()
        return found


def _resource(requests: PodRequests) -> str:
    """Returns the name under which all containers of a pod ask for whole cards.

    Raises:
        LeftAlone: the containers do not ask for whole cards under one name.
    """
    asking = [container for container in requests.containers if container.request and container.request.count]
    if not asking or requests.mig or not all(map(_is_whole, asking)):
        raise LeftAlone("the pod does not ask for whole cards")
    if any(container.path.startswith(_INIT) for container in asking):
        raise LeftAlone("init containers of the pod ask for cards")
    resources = {(each.request.family, each.request.resource) for each in asking if each.request}
    family, resource = min(resources)
    if len(resources) > 1 or family != _FAMILY:
        raise LeftAlone("the pod asks for other cards than HAMi's")
    return resource


def _is_whole(container: ContainerRequest) -> bool:
    return container.request is not None and container.request.is_whole


def _listed(pod: Pod, key: str) -> frozenset[str]:
    """Returns the UUIDs in one of HAMi's lists. Blanks are skipped, as HAMi 2.10 does it (pkg/device/devices.go)."""
    return frozenset(filter(None, (uuid.strip() for uuid in pod.annotations.get(key, "").split(","))))


def _cards(topology: NodeTopology) -> frozenset[int]:
    return frozenset(gpu.index for gpu in topology.gpus if gpu.mig_mode is not MigMode.ENABLED)


def _least(build: Build, cards: CardsAsked, free: int) -> tuple[float, ...]:
    """Returns the least rank that a set of cards of a node can have (:class:`webhook.decisions.place.ranking.Ranked`).

    The bandwidth that other pods lose is not known, and counts as 0.
    """
    left = free - cards.count
    if not cards.linked:
        return rank(True, (1.0, inf), cards, lost=0.0, free=free, left=left)
    link, bandwidth = build.least_grade
    asked = cards.constraints
    met = {
        Constraint.REQUIRE_NVLINK: link >= LINK_VALUES[LinkClass.NVLINK],
        Constraint.MIN_LEVEL: link >= LINK_VALUES[LinkClass.NVLINK],
        Constraint.MIN_BANDWIDTH: bandwidth >= asked.min_bandwidth,
        Constraint.SAME_NUMA: len({gpu.numa_node for gpu in build.topology.gpus}) == 1,
    }
    is_met = all(met[constraint] for constraint in asked.asked)
    return rank(is_met, (link, bandwidth), cards, lost=0.0, free=free, left=left)


def _rounded(rank: tuple[float, ...]) -> tuple[float, ...]:
    """Rounds a rank, so that sums of the same numbers in another order are equal."""
    return tuple(round(part, _DIGITS) for part in rank)
