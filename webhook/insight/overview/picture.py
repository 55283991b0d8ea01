"""The overview of a cluster, made of its snapshot and the findings of ``analyze``."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from webhook.cluster.snapshot.model import KnownPod, Snapshot, Unread
from webhook.cluster.snapshot.nodes import ClusterNode
from webhook.decisions.place.pins import pinned_cards
from webhook.decisions.place.pod import PodRecord
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.traffic.model import PodTraffic, is_recent, pod_traffic
from webhook.insight.analyze.analyzers import Analysis
from webhook.insight.analyze.free_cards import FilledWorld
from webhook.insight.overview.cards import BareCard, bare_cards
from webhook.insight.overview.findings import SortedFindings, sort_findings
from webhook.insight.overview.holdings import CardTable, Held, held_by
from webhook.insight.overview.links import UNKNOWN, Linked
from webhook.insight.overview.model import Card, CardState, Finding, Node, Overview, Pod
from webhook.insight.overview.pods import NOT_JUDGED, Asked, Subject, asked, malformed_pod, pod_of
from webhook.objects.pod import MalformedPod
from webhook.objects.pod import Pod as DecodedPod
from webhook.words.catalogue.rights import READER_MISSING
from webhook.words.printable import fitted
from webhook.words.timestamp import format_timestamp

_LEAST = 2
"""The number of cards of a pair."""


def overview(snapshot: Snapshot, found: Analysis | None, *, are_all_pods: bool = True) -> Overview:
    """Returns the overview of a cluster.

    Args:
        snapshot: The cluster.
        found: The findings and judgements of ``analyze``; None: they are not computed yet.
        are_all_pods: Whether the pods of all namespaces were read. If not, a card without a pod need not be free.
    """
    return _Picture(snapshot, sort_findings(found or Analysis((), {})), are_all_pods).overview(
        are_judged=found is not None
    )


class _NodeCards(msgspec.Struct, frozen=True):
    """A node with its cards, without the pods that hold them."""

    node: ClusterNode
    topology: NodeTopology | None
    """The topology with the cards, even if it is not relied on for links."""
    linked: Linked | None
    cards: tuple[BareCard, ...]


class _Holders(msgspec.Struct):
    """The pods of one card."""

    keys: list[str] = msgspec.field(default_factory=list)
    has_slices: bool = False
    are_chosen: bool = True
    """Whether the card is only chosen for all of these pods."""


class _Picture:
    def __init__(self, snapshot: Snapshot, findings: SortedFindings, are_all_pods: bool) -> None:
        self._snapshot, self._findings, self._are_all_pods = snapshot, findings, are_all_pods
        self._filled = FilledWorld(snapshot)
        every = {name: self._bare(snapshot.nodes[name]) for name in sorted(snapshot.nodes)}
        self._nodes = {name: node for name, node in every.items() if node.cards or self._offers_gpus(node.node)}
        self._tables = {name: CardTable(node.cards) for name, node in self._nodes.items()}
        self._holders: dict[tuple[str, int], _Holders] = {}

    def overview(self, *, are_judged: bool) -> Overview:
        snapshot = self._snapshot
        pods = tuple(self._pods())
        at = format_timestamp(snapshot.at) if snapshot.at else ""
        return Overview(
            at=at,
            nodes=tuple(self._node(node) for node in self._nodes.values()),
            pods=pods,
            findings=(*self._findings.others, *self._of_no_picture(pods)),
            are_judged=are_judged,
            unread=tuple(f"{each.what}: {each.problem}" for each in snapshot.unread),
            nodes_problem="" if snapshot.nodes else snapshot.problems.get("nodes", ""),
            remedy=READER_MISSING.say().advice if any(map(_is_for_readers, snapshot.unread)) else "",
        )

    def _bare(self, node: ClusterNode) -> _NodeCards:
        there = self._filled.world.nodes.get(node.name)
        relied_on = there.topology if there else None
        build = there.build if there else None
        linked = Linked(relied_on, build) if relied_on and build else None
        topology = relied_on or _told(node)
        return _NodeCards(node, topology, linked, bare_cards(node, topology, linked))

    def _offers_gpus(self, node: ClusterNode) -> bool:
        """Returns whether a node without known cards has GPUs."""
        if node.published_problem:
            return True
        amounts = node.record.allocatable if node.record else {}
        return any(amounts.get(resources.count, 0) > 0 for resources in self._snapshot.policy.resources)

    @cached_property
    def _records(self) -> Mapping[str, PodRecord]:
        return {record.key: record for _, record in self._filled.records}

    def _pods(self) -> list[Pod]:
        """Returns the pods by key, and notes the holders of each card."""
        found = [pod for known in self._snapshot.pods if (pod := self._pod(known)) is not None]
        return sorted(found, key=lambda pod: pod.key)

    def _pod(self, known: KnownPod) -> Pod | None:
        key = f"{known.namespace}/{known.name}"
        findings = self._findings.of_pods.get(key, ())
        try:
            pod = known.pod
            ask = asked(pod, self._snapshot)
            held = self._held(known, pod, key)
            if ask is None and not held.sets:
                return None
            ask = ask or Asked(None, has_slices=True, profile="")
            self._note(key, ask, held)
            node = self._nodes.get(held.node)
            linked = node.linked if node else None
            subject = Subject(known, pod, ask, held, linked, self._moved(pod, ask, held))
            return pod_of(subject, self._snapshot.planner, findings, self._findings.judgements.get(key, NOT_JUDGED))
        except MalformedPod:
            return malformed_pod(known, findings) if findings else None

    def _held(self, known: KnownPod, pod: DecodedPod, key: str) -> Held:
        record = self._records.get(key)
        pinned = pinned_cards(record) if record is not None and not record.held else ()
        where = self._filled.world.node_with(pinned) if pinned else None
        return held_by(pod, known.node, record, where.name if where else "", self._tables)

    def _moved(self, pod: DecodedPod, ask: Asked, held: Held) -> PodTraffic | None:
        node = self._nodes.get(held.node)
        if node is None or ask.has_slices or held.is_chosen:  # traffic is counted for cards, not for pods
            return None
        traffic, at = node.node.traffic, self._snapshot.at
        if traffic is None or at is None or not is_recent(traffic, at):
            return None
        own = set(held.cards)
        return pod_traffic(traffic, [card.uuid for card in node.cards if card.index in own], pod.running_since)

    def _note(self, key: str, ask: Asked, held: Held) -> None:
        for index in held.cards:
            there = self._holders.setdefault((held.node, index), _Holders())
            there.keys.append(key)
            there.has_slices |= ask.has_slices
            there.are_chosen &= held.is_chosen

    def _of_no_picture(self, pods: Sequence[Pod]) -> list[Finding]:
        """Returns the findings about nodes and pods that are not in the overview, with their objects."""
        shown = {pod.key for pod in pods}
        return [
            msgspec.structs.replace(finding, about=fitted(f"{kind} {name}"))
            for kind, sorted_ones, known in (
                ("Node", self._findings.of_nodes, self._nodes.keys()),
                ("Pod", self._findings.of_pods, shown),
            )
            for name, found in sorted_ones.items()
            if name not in known
            for finding in found
        ]

    def _node(self, found: _NodeCards) -> Node:
        name, record = found.node.name, found.node.record
        cards = tuple(self._card(name, card) for card in found.cards)
        linked = found.linked
        return Node(
            name=name,
            product=", ".join(sorted({card.product for card in cards if card.product})),
            cards=cards,
            links=tuple(linked.links()) if linked else (),
            nvlink=linked.nvlink if linked else UNKNOWN,
            best=linked.best(_LEAST) if linked else 0.0,
            is_schedulable=not (record and record.is_cordoned),
            problem=self._problem(found),
            findings=self._findings.of_nodes.get(name, ()),
        )

    def _problem(self, found: _NodeCards) -> str:
        node = found.node
        if node.published_problem:
            return fitted(node.published_problem)
        if found.linked is None:
            said = found.topology.problem if found.topology else ""
            return fitted(said) or "how its GPUs are linked is not known"
        return fitted(found.linked.topology.problem)

    def _card(self, node: str, card: BareCard) -> Card:
        there = self._holders.get((node, card.index))
        return Card(
            index=card.index,
            uuid=card.uuid,
            product=card.product,
            state=self._state(card, there),
            health=card.health,
            why=card.why,
            holders=tuple(sorted(there.keys)) if there else (),
            is_mig=card.is_mig,
        )

    def _state(self, card: BareCard, there: _Holders | None) -> CardState:
        if there is None:
            return CardState.FREE if self._are_all_pods else CardState.UNKNOWN
        if there.are_chosen:
            return CardState.CHOSEN
        return CardState.SHARED if len(there.keys) > 1 or there.has_slices or card.is_mig else CardState.HELD


def _told(node: ClusterNode) -> NodeTopology | None:
    """Returns the topology that agent or HAMi report for a node, although it is not relied on for links."""
    sources = node.sources()
    known = sources.published or sources.annotated
    return known.topology if known else None


def _is_for_readers(gap: Unread) -> bool:
    """Returns whether the role for people who only look would close the gap. It has no Secrets."""
    return gap.is_denied and gap.what != "secrets"
