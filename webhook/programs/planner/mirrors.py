"""What the planner knows of the cluster: mirrors of pods, nodes, namespaces and what agents publish.

Whoever decides or answers questions follows them, and hears of all nodes, then of all pods, then of what changes.
Topologies are brought up to date between two decisions, however often a node was written meanwhile.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from math import inf
from time import monotonic, time
from typing import Any, NamedTuple

import msgspec

from webhook.kube import resources
from webhook.kube.resources import Resource
from webhook.kube.versioned import VersionedObject
from webhook.model.errors import FormatError
from webhook.model.nesting import decode_answer
from webhook.model.node_names import config_map_name
from webhook.model.pod import Namespace
from webhook.place.node import NodeRecord, read_node
from webhook.place.pod import PodRecord, read_pod
from webhook.planner.decisions import Follower
from webhook.resolve.node import Sources, choose_node
from webhook.state.cache import SILENT_SECONDS, Cache, Document, Limit
from webhook.state.kept import (
    NAMESPACES,
    NODES,
    TOPOLOGIES,
    Heartbeat,
    Packed,
    lease_reader,
    read_config_map,
    read_namespace,
    read_traffic,
    weigh_namespace,
    weigh_packed,
)
from webhook.state.kept import read_node as read_texts
from webhook.state.parsed import Parsed, parse_annotated, parse_published
from webhook.state.report import CacheReport
from webhook.topology.model import NodeTopology
from webhook.traffic.document import parse_traffic
from webhook.traffic.judgement import is_recent
from webhook.traffic.model import Traffic

AGENTS = Limit(objects=20_000, bytes=64 * 1024 * 1024)
"""Four times the 5,000 nodes that Kubernetes supports; what an agent says of traffic is kept compressed."""
PODS = Limit(objects=300_000, bytes=512 * 1024 * 1024)
"""Twice the 150,000 pods that Kubernetes supports: kubernetes.io, "Considerations for large clusters"."""
POD_WEIGHT, HELD_WEIGHT, UNBOUND_WEIGHT = 300, 60, 4096
_FINISHED = ("Succeeded", "Failed")


class KeptNode(NamedTuple):
    """A node, and what HAMi says of its GPUs."""

    record: NodeRecord
    texts: Packed


class AgentSign(NamedTuple):
    """An agent's last sign of life, and what it says of traffic."""

    heartbeat: Heartbeat
    traffic: Packed | None
    """The annotation of its Lease; None without, or with one that is too long."""


class _Status(msgspec.Struct):
    phase: str | None = None


class _Phased(msgspec.Struct):
    status: _Status | None = None


_PHASED = msgspec.json.Decoder(_Phased)


class Mirrors:
    """The mirrors, to be filled by :class:`webhook.kube.reflector.Reflector`.

    Args:
        max_age: ``binding.topologyMaxAgeSeconds``.
        wake: Called when something changed that decisions may depend on.
        tell: Takes a text for the log.
        clock: Seconds that never go back.
        wall: Seconds since the epoch.
    """

    def __init__(
        self,
        *,
        max_age: float,
        wake: Callable[[], None],
        tell: Callable[[str], None],
        clock: Callable[[], float] = monotonic,
        wall: Callable[[], float] = time,
    ) -> None:
        self._max_age = max_age
        self._wake = wake
        self._clock = clock
        self._followers: list[Follower] = []
        self._names: dict[str, str] = {}
        """The names of nodes, by those of their ConfigMaps."""
        self._changed: set[str] = set()
        """Nodes of which something changed that their topology may depend on."""
        self._told: dict[str, tuple[NodeRecord, NodeTopology | None]] = {}
        """What is known of each node, as the follower was told."""
        self._fresh: set[str] = set()
        """ConfigMaps whose agents were heard of lately."""

        self.namespaces = Cache[Namespace](
            "namespaces",
            read_namespace,
            weigh_namespace,
            limit=NAMESPACES,
            tell=tell,
            clock=clock,
            changed=self._namespace_changed,
        )
        self.nodes = Cache[KeptNode](
            "nodes", _read_node, _weigh_node, limit=NODES, tell=tell, clock=clock, changed=self._node_changed
        )
        self.pods = Cache[PodRecord](
            "pods", read_pod, _weigh_pod, limit=PODS, tell=tell, clock=clock, changed=self._pod_changed
        )
        self.topologies = Cache[Packed](
            "configmaps",
            read_config_map,
            weigh_packed,
            limit=TOPOLOGIES,
            tell=tell,
            clock=clock,
            changed=self._topology_changed,
        )
        read_lease = lease_reader(clock=clock, wall=wall, heard=lambda: self.leases.confirmed)
        self.leases = Cache[AgentSign](
            "leases", partial(_read_sign, read_lease), _weigh_sign, limit=AGENTS, tell=tell, clock=clock
        )
        self._published = Parsed(self.topologies, parse_published, kept=NODES.objects)
        self._annotated = Parsed(_Texts(self.nodes), parse_annotated, kept=NODES.objects)

    def sources(self, namespace: str) -> tuple[tuple[Resource, Cache[Any]], ...]:
        """What each of them is filled from.

        Args:
            namespace: Where the agents publish.
        """
        return (
            (resources.NAMESPACES, self.namespaces),
            (resources.WHOLE_NODES, self.nodes),
            (resources.config_maps(namespace), self.topologies),
            (resources.leases(namespace), self.leases),
            (resources.PODS, self.pods),
        )

    @property
    def waiting_for(self) -> str:
        """What was never known yet, and why as far as that is known; empty when all was."""
        missing = [cache for cache in self._caches if not cache.filled]
        problem = next((cache.problem for cache in missing if cache.problem), "")
        return ", ".join(cache.kind for cache in missing) + (f" ({problem})" if problem else "")

    @property
    def blindness(self) -> str:
        """Why no decision can be based on this at the moment; empty when it can."""
        if waiting_for := self.waiting_for:
            return f"waiting for {waiting_for}"
        for cache in (self.pods, self.nodes):
            if cache.is_incomplete:
                return f"{cache.kind}: the cluster has more than can be kept"
            if cache.silence():
                return cache.problem or f"{cache.kind}: nothing was heard of them for {SILENT_SECONDS:.0f} s"
        return ""

    def report(self) -> tuple[CacheReport, ...]:
        """How each of them is. In any thread."""
        return tuple(cache.report() for cache in self._caches)

    def namespace(self, name: str) -> Namespace:
        """The namespace; one with ``known`` unset if there is none."""
        return self.namespaces.get(name) or Namespace(name, known=False)

    def traffic(self, node: str, now: datetime) -> Traffic | None:
        """What the GPUs of a node did until a moment ago; None where its agent does not say it, or says it badly."""
        sign = self.leases.get(config_map_name(node))
        if sign is None or sign.traffic is None:
            return None
        (text,) = sign.traffic.texts
        try:
            found = parse_traffic(text, f"Lease of node {node}")
        except FormatError:
            return None
        return found if is_recent(found, now) else None

    def take_pod(self, pod: VersionedObject) -> None:
        """The pod is like that, as an answer of the API server beside the watch said."""
        status = decode_answer(_PHASED, pod.document).status
        if status and status.phase in _FINISHED:
            self.pods.drop(pod)
        else:
            self.pods.put(pod)

    def follow(self, follower: Follower) -> None:
        """Tell this one from now on, and of all that is known already."""
        self._followers.append(follower)
        for name, (record, topology) in self._told.items():
            follower.node_changed(name, record, topology)
        for key, pod in self.pods.values().items():
            follower.pod_changed(key, None, pod)

    def leave(self, follower: Follower) -> None:
        """Tell this one no more; said twice it changes nothing."""
        self._followers = [each for each in self._followers if each is not follower]

    def refresh(self) -> None:
        """Bring the topologies up to date, and tell of the nodes that changed."""
        self._compare_ages()
        changed, self._changed = self._changed, set()
        for name in changed:
            self._refresh(name)

    @property
    def _caches(self) -> tuple[Cache[Any], ...]:
        return self.namespaces, self.nodes, self.topologies, self.leases, self.pods

    def _refresh(self, name: str) -> None:
        kept = self.nodes.get(name)
        if kept is None:
            self._published.forget(config_map_name(name))
            self._annotated.forget(name)
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
        """The one to rely on, as a Binding would; what HAMi says is only read where it may count."""
        key = config_map_name(name)
        published = self._published.get(key)
        if published and published.name != name:
            published = None
        uuids = [gpu.uuid for gpu in record.registered]
        is_fresh = key in self._fresh
        if published and is_fresh and any(published.gpu(uuid, None) for uuid in uuids):
            self._annotated.forget(name)
            annotated = None
        else:
            annotated = self._annotated.get(name)
        sources = Sources(published=published, age=0.0 if is_fresh else inf, annotated=annotated)
        chosen = choose_node(sources, uuids, max_age=self._max_age, verified=False)
        return chosen.topology if chosen else None

    def _compare_ages(self) -> None:
        """Agents fall silent without a message, and Leases are renewed without a change of anything else."""
        fresh = set()
        for key, (heartbeat, _) in self.leases.values().items():
            age = heartbeat.age + self._clock() - heartbeat.seen
            if age <= max(self._max_age, heartbeat.lasts):
                fresh.add(key)
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
    """HAMi's annotations in the mirror of nodes, as :class:`webhook.state.parsed.Parsed` reads them."""

    def __init__(self, nodes: Cache[KeptNode]) -> None:
        self._nodes = nodes

    def get(self, name: str) -> Packed | None:
        kept = self._nodes.get(name)
        return kept.texts if kept else None

    def doubt(self, name: str, problem: str) -> None:
        self._nodes.doubt(name, problem)


def _read_node(document: Document, name: str, before: KeptNode | None) -> KeptNode:
    record = read_node(document, name, before.record if before else None)
    texts = read_texts(document, name, before.texts if before else None)
    if before and before.record is record and before.texts is texts:
        return before
    return KeptNode(record, texts)


def _read_sign(
    read: Callable[[Document, str, Heartbeat | None], Heartbeat],
    document: Document,
    name: str,
    before: AgentSign | None,
) -> AgentSign:
    heartbeat = read(document, name, before.heartbeat if before else None)
    return AgentSign(heartbeat, read_traffic(document, name, before.traffic if before else None))


def _weigh_sign(sign: AgentSign) -> int:
    return len(sign.heartbeat.renewed) + (weigh_packed(sign.traffic) if sign.traffic else 0)


def _weigh_node(kept: KeptNode) -> int:
    labels = sum(len(key) + len(value) for key, value in kept.record.labels.items())
    return labels + weigh_packed(kept.texts) + HELD_WEIGHT * len(kept.record.registered)


def _weigh_pod(pod: PodRecord) -> int:
    return POD_WEIGHT + HELD_WEIGHT * len(pod.held) + (UNBOUND_WEIGHT if pod.unbound else 0)
