"""The planner's mirrors of the cluster: of pods, nodes, namespaces and the objects that agents publish.

The decisions and the extender follow the mirrors: they are told of all nodes, then of all pods, then of each change.
Topologies are brought up to date once between two decisions, however often a node was written meanwhile.
"""

from collections.abc import Callable
from math import inf
from time import monotonic, time
from typing import NamedTuple

import msgspec

from webhook.cluster import kinds
from webhook.cluster.api.object_version import VersionedObject
from webhook.cluster.state.cache import Cache, Document, Form, Limit, Share
from webhook.cluster.state.keeper import Keeper, blindness, waiting
from webhook.cluster.state.nodes import NodeSources
from webhook.cluster.state.reduction import (
    LEASES,
    NAMESPACE_FORM,
    NODES,
    TOPOLOGY_FORM,
    Heartbeat,
    Packed,
    lease_reader,
    weigh_heartbeat,
    weigh_packed,
)
from webhook.cluster.state.reduction import read_node as read_texts
from webhook.cluster.state.report import CacheReport
from webhook.decisions.node_record import NodeRecord, read_node
from webhook.decisions.place.pod import MOST_OF_SHORT, MOST_SHARED, Occupant, PodRecord, read_pod, shortened
from webhook.decisions.resolve.node import Sources, choose_node
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.pod import Namespace
from webhook.programs.planner.decisions import Follower
from webhook.words.nesting import decode_answer
from webhook.words.node_names import config_map_name

PODS = Limit(objects=300_000, bytes=256 * 1024 * 1024)
"""Limit for the 150,000 pods that Kubernetes supports, 100,000 of them with cards: kubernetes.io, "Considerations for
large clusters". It is half of the memory that the chart gives the planner, so all stays below four fifths of it."""
OF_NAMESPACE = Limit(objects=100_000, bytes=32 * 1024 * 1024)
"""Limit for what is kept of the waiting pods of one namespace; beyond it they go on without a choice."""
OF_ALL = Limit(objects=300_000, bytes=96 * 1024 * 1024)
"""Limit for that of all namespaces, so that pods with a node, whose cards must stay known, always have the rest."""
POD_WEIGHT, HELD_WEIGHT, UNBOUND_WEIGHT, OCCUPANT_WEIGHT = 700, 1000, 2048, 500
"""Bytes as they were measured, with what the worlds of the decisions and of the extender keep of a pod."""
REGISTERED_WEIGHT, AMOUNT_WEIGHT = 60, 360
_FINISHED = ("Succeeded", "Failed")


class KeptNode(NamedTuple):
    """A node, and HAMi's annotations about its GPUs."""

    record: NodeRecord
    texts: Packed


class _Status(msgspec.Struct):
    phase: str | None = None


class _Phased(msgspec.Struct):
    status: _Status | None = None


_PHASED = msgspec.json.Decoder(_Phased)


class Mirrors:
    """The mirrors of the planner.

    Args:
        namespace: The namespace in which the agents publish.
        max_age: ``binding.topologyMaxAgeSeconds``.
        wake: Called after each change that decisions may depend on.
        tell: Takes a text for the log.
        clock: Returns seconds that never go back.
        wall: Returns seconds since the epoch.
    """

    def __init__(
        self,
        namespace: str = "",
        *,
        max_age: float,
        wake: Callable[[], None],
        tell: Callable[[str], None],
        clock: Callable[[], float] = monotonic,
        wall: Callable[[], float] = time,
    ) -> None:
        self._max_age = max_age
        self._wake = wake
        self._followers: list[Follower] = []
        self._names: dict[str, str] = {}
        """The names of nodes, by the names of their ConfigMaps."""
        self._changed: set[str] = set()
        """Nodes with a change that their topology may depend on."""
        self._told: dict[str, tuple[NodeRecord, NodeTopology | None]] = {}
        """The record and the topology of each node, as the followers were told."""
        self._fresh: set[str] = set()
        """Names of the ConfigMaps whose agents gave a sign of life lately."""

        self.keeper = keeper = Keeper(tell=tell, clock=clock)
        self.namespaces: Cache[Namespace] = keeper.keep(
            kinds.NAMESPACES, NAMESPACE_FORM, changed=self._namespace_changed
        )
        self.nodes: Cache[KeptNode] = keeper.keep(
            kinds.WHOLE_NODES, Form(_read_node, _weigh_node, NODES), changed=self._node_changed
        )
        self.topologies: Cache[Packed] = keeper.keep(
            kinds.config_maps(namespace), TOPOLOGY_FORM, changed=self._topology_changed
        )
        read_lease = lease_reader(clock=clock, wall=wall, heard=lambda: self.leases.confirmed)
        self.leases: Cache[Heartbeat] = keeper.keep(kinds.leases(namespace), Form(read_lease, weigh_heartbeat, LEASES))
        self.pods: Cache[PodRecord] = keeper.keep(
            kinds.PODS,
            Form(read_pod, weigh_pod, PODS, Share(_owner, OF_NAMESPACE, OF_ALL, shortened)),
            changed=self._pod_changed,
        )
        self._sources = NodeSources(self.topologies, _Texts(self.nodes), clock=clock, kept=NODES.objects)

    @property
    def waiting_for(self) -> str:
        """The mirrors that were never filled yet, with the reasons that are known; empty when all were filled."""
        return waiting(self.keeper.missing)

    @property
    def blindness(self) -> str:
        """The reason for which no decision can be based on the mirrors at the moment; empty if there is none."""
        if waiting_for := self.waiting_for:
            return f"waiting for {waiting_for}"
        return blindness(self.pods, self.nodes)

    def report(self) -> tuple[CacheReport, ...]:
        """Return the report of each mirror. May be called in any thread."""
        return self.keeper.report()

    def namespace(self, name: str) -> Namespace:
        """Return the namespace; one with ``known`` unset if there is none."""
        return self.namespaces.get(name) or Namespace(name, known=False)

    def take_pod(self, pod: VersionedObject) -> None:
        """Put a pod into the mirror that the API server returned in another answer than the watch."""
        status = decode_answer(_PHASED, pod.document).status
        if status and status.phase in _FINISHED:
            self.pods.drop(pod)
        else:
            self.pods.put(pod)

    def follow(self, follower: Follower) -> None:
        """Tell ``follower`` of all nodes and pods that are known, and from now on of each change."""
        self._followers.append(follower)
        for name, (record, topology) in self._told.items():
            follower.node_changed(name, record, topology)
        for key, pod in self.pods.values().items():
            follower.pod_changed(key, None, pod)

    def leave(self, follower: Follower) -> None:
        """Tell ``follower`` of no more changes. A second call changes nothing."""
        self._followers = [each for each in self._followers if each is not follower]

    def refresh(self) -> None:
        """Bring the topologies up to date, and tell the followers of the nodes that changed."""
        self._compare_ages()
        changed, self._changed = self._changed, set()
        for name in changed:
            self._refresh(name)

    def _refresh(self, name: str) -> None:
        kept = self.nodes.get(name)
        if kept is None:
            self._sources.forget(name)
            if self._told.pop(name, None):
                self._tell_node(name, None, None)
            return
        before, topology = self._told.get(name), self._topology(name, kept.record)
        if before is None or before[0] is not kept.record or before[1] is not topology:
            self._told[name] = kept.record, topology
            self._tell_node(name, kept.record, topology)

    def _tell_node(self, name: str, record: NodeRecord | None, topology: NodeTopology | None) -> None:
        for follower in self._followers:
            follower.node_changed(name, record, topology)

    def _topology(self, name: str, record: NodeRecord) -> NodeTopology | None:
        """Return the topology that a Binding would rely on. HAMi's annotations are only read where they may be used."""
        published = self._sources.published(name)
        uuids = [gpu.uuid for gpu in record.registered]
        is_fresh = config_map_name(name) in self._fresh
        if published and is_fresh and any(published.gpu(uuid, None) for uuid in uuids):
            self._sources.forget_annotated(name)
            annotated = None
        else:
            annotated = self._sources.annotated(name)
        sources = Sources(published=published, age=0.0 if is_fresh else inf, annotated=annotated)
        chosen = choose_node(sources, uuids, max_age=self._max_age, verified=False)
        return chosen.topology if chosen else None

    def _compare_ages(self) -> None:
        """Note the nodes whose agents fell silent or came back: no other object changes with that."""
        heartbeats = self.leases.values()
        fresh = {key for key, heartbeat in heartbeats.items() if self._sources.is_fresh(heartbeat, self._max_age)}
        turned, self._fresh = fresh ^ self._fresh, fresh
        self._changed.update(self._names[key] for key in turned if key in self._names)

    def _node_changed(self, name: str, _: KeptNode | None, after: KeptNode | None) -> None:
        if after is None:
            self._names.pop(config_map_name(name), None)
        else:
            self._names[config_map_name(name)] = name
        self._changed.add(name)
        self._wake()

    def _topology_changed(self, key: str, _: Packed | None, __: Packed | None) -> None:
        if (name := self._names.get(key)) is not None:
            self._changed.add(name)
            self._wake()

    def _namespace_changed(self, _: str, __: Namespace | None, ___: Namespace | None) -> None:
        self._wake()

    def _pod_changed(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        for follower in self._followers:
            follower.pod_changed(key, before, after)
        self._wake()


class _Texts:
    """HAMi's annotations in the mirror of nodes, as :class:`webhook.cluster.state.nodes.Parsed` reads them."""

    def __init__(self, nodes: Cache[KeptNode]) -> None:
        self._nodes = nodes

    def get(self, name: str) -> Packed | None:
        kept = self._nodes.get(name)
        return kept.texts if kept else None

    def doubt(self, name: str, problem: str) -> None:
        self._nodes.doubt(name, problem)


def _owner(pod: PodRecord) -> str:
    """Return the namespace of a pod of which less may be kept; empty if all has to be kept, as of one with cards."""
    is_short = len(pod.held) <= (MOST_OF_SHORT if pod.is_bound else 0) and len(pod.amounts) <= MOST_SHARED
    return "" if is_short and pod.unbound is None else pod.namespace


def _read_node(document: Document, name: str, before: KeptNode | None) -> KeptNode:
    record = read_node(document, name, before.record if before else None)
    texts = read_texts(document, name, before.texts if before else None)
    if before and before.record is record and before.texts is texts:
        return before
    return KeptNode(record, texts)


def _weigh_node(kept: KeptNode) -> int:
    labels = sum(len(key) + len(value) for key, value in kept.record.labels.items())
    return labels + weigh_packed(kept.texts) + REGISTERED_WEIGHT * len(kept.record.registered)


def weigh_pod(pod: PodRecord) -> int:
    """Return about the bytes that a pod takes in the mirror and in the decisions."""
    unbound = UNBOUND_WEIGHT + pod.unbound.size if pod.unbound else 0
    own = POD_WEIGHT + HELD_WEIGHT * len(pod.held)
    amounts = AMOUNT_WEIGHT * len(pod.amounts) if len(pod.amounts) > MOST_SHARED else 0
    return own + amounts + unbound + _weigh_occupant(pod.occupant)


def _weigh_occupant(occupant: Occupant | None) -> int:
    if occupant is None:
        return 0
    asked = AMOUNT_WEIGHT * sum(1 + len(amounts) for _, _, amounts in occupant.asked)
    return OCCUPANT_WEIGHT + len(occupant.allocation) + asked
