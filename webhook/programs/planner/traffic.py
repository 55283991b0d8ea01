"""The pods behind the traffic of GPUs, the bandwidth of their cards, and hints about unused NVLinks.

The leader looks at a few nodes each second. The decisions about waiting pods are separate, and never wait for this.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import NamedTuple, NoReturn

from webhook.cluster.api.pod_events import PodEvents, PodReference
from webhook.decisions.node_record import NodeRecord
from webhook.decisions.place.bandwidth_ratio import bandwidth_ratio
from webhook.decisions.place.occupancy import Occupied, hint_message, occupied, unused_nvlink
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.planning.fleet import Build, Builds
from webhook.hardware.traffic.judgement import Sign
from webhook.objects.binding import PodEvent
from webhook.objects.pod import Namespace
from webhook.programs.log import Log
from webhook.programs.planner.clock import Clock
from webhook.programs.planner.mirrors import Mirrors
from webhook.words import names

EVERY_SECONDS = 1.0
LOOKS = 60
"""Looks in which the traffic of all nodes is judged once. Agents renew their Leases once a minute."""
CHANGED_AT_A_TIME = 100
"""Most nodes for which one look finds the holders of cards anew after a change of their pods."""
LONGEST_LOOK = 0.1
"""Seconds after which one look finds no more holders. The best set is chosen once for each kind of node and number of
cards, which takes up to 0.02 s for 8 cards and more for 16."""
MOST_SERIES = 20_000
"""Most series of the metric that says which pod holds which card, and of that of the bandwidth of pods."""
TOLD_SECONDS = 3600.0
"""Shortest time between two hints about one pod."""
MOST_TOLD = 10_000
"""Most pods whose last hint is remembered. For a forgotten pod the time starts again."""
REASON = "NVLinkUnused"


class PodGpu(NamedTuple):
    """The labels of one card that a pod holds."""

    namespace: str
    pod: str
    container: str
    node: str
    gpu: str
    uuid: str
    link: str


class PodOnNode(NamedTuple):
    """The labels of a pod that holds cards."""

    namespace: str
    pod: str
    node: str
    link: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribution:
    """The cards that pods hold, and the pods with unused NVLinks. It is replaced as a whole, for scrapes."""

    cards: tuple[PodGpu, ...] = ()
    left_out: int = 0
    """Cards beyond :data:`MOST_SERIES`."""
    bandwidths: Mapping[PodOnNode, float] = field(default_factory=dict)
    """Bandwidths of pods as ratios of the best; see :mod:`webhook.decisions.place.bandwidth_ratio`."""
    bandwidths_left_out: int = 0
    """Pods beyond :data:`MOST_SERIES`."""
    unused: Mapping[str, int] = field(default_factory=dict)
    """Pods with unused NVLinks, by :class:`webhook.hardware.traffic.judgement.Sign`."""


@dataclass(slots=True)
class _Node:
    """The state of one node."""

    record: NodeRecord | None = None
    known: KnownNode | None = None
    build: Build | None = None
    pods: dict[str, PodRecord] = field(default_factory=dict)
    """The pods with cards."""
    found: tuple[Occupied, ...] = ()
    """The pods with whole cards for themselves, as of the last look after a change."""
    cards: tuple[PodGpu, ...] = ()
    bandwidths: Mapping[PodOnNode, float] = field(default_factory=dict)
    signs: tuple[Sign, ...] = ()


class TrafficWatch:
    """A follower of the mirrors that finds the holders of cards. Other threads may read ``attribution``.

    Args:
        mirrors: The mirrors of the cluster.
        events: Takes hints.
        counts: Names of the resources by which pods ask for numbers of HAMi's GPUs.
        expects: Whether hints are given where neither pod nor namespace says it.
        leads: Returns whether this replica leads. Only the leader gives hints and metrics.
        log: Takes hints.
        clock: The clocks.
    """

    def __init__(  # noqa: PLR0913 - it stands between the parts of the program
        self,
        mirrors: Mirrors,
        events: PodEvents,
        *,
        counts: Collection[str],
        expects: bool,
        leads: Callable[[], bool],
        log: Log,
        clock: Clock,
    ) -> None:
        self._mirrors = mirrors
        self._events = events
        self._counts = counts
        self._expects = expects
        self._leads = leads
        self._log = log
        self._clock = clock
        self._builds = Builds()
        self._nodes: dict[str, _Node] = {}
        self._changed: dict[str, None] = {}
        """Names of nodes whose holders of cards are to be found anew, in the order of their changes."""
        self._turn: list[str] = []
        """Names of nodes whose traffic is still to be judged in this turn."""
        self._told: dict[str, float] = {}
        """Times of the last hints, by UID of the pod."""
        self.attribution = Attribution()
        self.turns = 0
        """Number of turns in which the traffic of all nodes was judged."""
        mirrors.follow(self)

    def pod_changed(self, _: str, before: PodRecord | None, after: PodRecord | None) -> None:
        """Take the new state of a pod; see :class:`webhook.programs.planner.decisions.Follower`."""
        node = self._nodes.get(before.node) if before is not None else None
        if before is not None and node is not None and before.key in node.pods:
            del node.pods[before.key]
            self._changed[before.node] = None
            self._drop_if_empty(before.node)
        if after is not None and after.node and after.held:
            self._nodes.setdefault(after.node, _Node()).pods[after.key] = after
            self._changed[after.node] = None

    def node_changed(self, name: str, record: NodeRecord | None, topology: NodeTopology | None) -> None:
        """Take the new state of a node; see :class:`webhook.programs.planner.decisions.Follower`."""
        node = self._nodes.setdefault(name, _Node())
        node.record = record
        if topology is None:
            node.known = node.build = None
        elif node.known is None or node.known.topology is not topology:
            node.known, node.build = KnownNode(topology, origin=Origin.AGENT), self._builds.of(topology)
        self._changed[name] = None
        self._drop_if_empty(name)

    async def run(self) -> NoReturn:
        """Look again and again until this is cancelled."""
        while True:
            self.look()
            await asyncio.sleep(EVERY_SECONDS)

    def look(self) -> None:
        """Find the holders of cards on changed nodes, and judge the traffic of the next nodes."""
        if not self._leads():
            self._turn, self._changed = [], dict.fromkeys(self._nodes)
            self.attribution = Attribution()
            return
        is_changed = self._find_next()
        if self._judge_next(self._clock.now()) or is_changed:
            self.attribution = self._attribution()

    def _find_next(self) -> bool:
        """Find the holders of the cards of the next changed nodes; return whether there was one."""
        changed, since = list(islice(self._changed, CHANGED_AT_A_TIME)), self._clock.monotonic()
        for name in changed:
            del self._changed[name]
            if node := self._nodes.get(name):
                self._find(name, node)
            if self._clock.monotonic() - since > LONGEST_LOOK:
                break
        return bool(changed)

    def _find(self, name: str, node: _Node) -> None:
        """Find the pods that hold cards of a node, and the bandwidths of these cards."""
        found = occupied(node.pods.values(), node.record, self._counts) if node.record else []
        node.found = tuple(found)
        node.cards = tuple(card for each in found for card in _cards(name, node, each))
        node.bandwidths = dict(_bandwidths(name, node))

    def _judge_next(self, at: datetime) -> bool:
        """Judge the traffic of the next nodes; return whether a sign is new or gone."""
        if not self._turn:
            self._turn = sorted(self._nodes)
        count = -(-len(self._nodes) // LOOKS)
        is_new = False
        for name in self._turn[:count]:
            if node := self._nodes.get(name):
                before, node.signs = node.signs, tuple(self._signs(name, node, at))
                is_new |= before != node.signs
        self._turn = self._turn[count:]
        self.turns += not self._turn
        return is_new

    def _signs(self, name: str, node: _Node, at: datetime) -> Iterator[Sign]:
        candidates = [each for each in node.found if len(each.cards) > 1 and self._is_expected(each)]
        traffic = self._mirrors.traffic(name, at) if candidates else None
        if traffic is None or node.known is None:
            return
        for each in candidates:
            if suspect := unused_nvlink(each, traffic, node.known):
                hint, uuids = suspect
                self._tell(each.pod, str(hint.sign), hint_message(hint, _labels(node.known, uuids)).advice)
                yield hint.sign

    def _is_expected(self, found: Occupied) -> bool:
        namespace: Namespace = self._mirrors.namespace(found.pod.namespace)
        said = found.occupant.expects_nvlink or namespace.annotations.get(names.EXPECT_NVLINK, "")
        return said == "true" if said in ("true", "false") else self._expects

    def _tell(self, pod: PodRecord, sign: str, text: str) -> None:
        now, last = self._clock.monotonic(), self._told.get(pod.uid)
        if last is not None and now - last < TOLD_SECONDS:
            return
        self._told.pop(pod.uid, None)
        self._told[pod.uid] = now
        if len(self._told) > MOST_TOLD:
            del self._told[next(iter(self._told))]
        event = PodEvent(REASON, text, is_warning=False)
        self._events.tell(event, PodReference(pod.namespace, pod.name, pod.uid))
        self._log.say("info", "traffic", namespace=pod.namespace, name=pod.name, uid=pod.uid, result=sign, text=text)

    def _attribution(self) -> Attribution:
        cards = [card for node in self._nodes.values() for card in node.cards]
        bandwidths = [entry for node in self._nodes.values() for entry in node.bandwidths.items()]
        signs = [sign for node in self._nodes.values() for sign in node.signs]
        return Attribution(
            cards=tuple(cards[:MOST_SERIES]),
            left_out=max(0, len(cards) - MOST_SERIES),
            bandwidths=dict(bandwidths[:MOST_SERIES]),
            bandwidths_left_out=max(0, len(bandwidths) - MOST_SERIES),
            unused={str(sign): signs.count(sign) for sign in Sign},
        )

    def _drop_if_empty(self, name: str) -> None:
        node = self._nodes[name]
        if node.record is None and node.known is None and not node.pods:
            del self._nodes[name]


def _cards(name: str, node: _Node, found: Occupied) -> list[PodGpu]:
    return [
        PodGpu(
            namespace=found.pod.namespace,
            pod=found.pod.name,
            container=card.container,
            node=name,
            gpu=_index(node.known, card.uuid),
            uuid=card.uuid,
            link=found.occupant.link,
        )
        for card in found.cards
    ]


def _bandwidths(name: str, node: _Node) -> Iterator[tuple[PodOnNode, float]]:
    if node.known is None or node.build is None:
        return
    for found in node.found:
        ratio = bandwidth_ratio(found, node.known, node.build)
        if ratio is not None:
            yield PodOnNode(found.pod.namespace, found.pod.name, name, found.occupant.link), ratio


def _index(known: KnownNode | None, uuid: str) -> str:
    gpu = known.gpu(uuid, None) if known else None
    return str(gpu.index) if gpu else ""


def _labels(known: KnownNode, uuids: Collection[str]) -> str:
    return ", ".join(gpu.label for uuid in uuids if (gpu := known.gpu(uuid, None)))
