"""The nodes of a cluster, with the published facts about their GPUs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from math import inf

import msgspec

from webhook.cluster.redaction.objects import Object, identity
from webhook.cluster.redaction.parts import part, texts
from webhook.decisions.node_record import NodeRecord, read_node
from webhook.decisions.resolve.node import KnownNode, Origin, Sources, choose_node
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.readers.hami import read_hami
from webhook.hardware.traffic.model import Traffic, parse_traffic
from webhook.objects.lease import lasts, renewed_at
from webhook.words import names
from webhook.words.errors import FormatError, ManifestError
from webhook.words.node_names import config_map_name


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One node."""

    name: str
    document: Object | None
    """The kept fields of the Node; None if only a topology is known."""
    published: KnownNode | None = None
    """The topology that the node's agent published."""
    published_problem: str = ""
    """The reason why the topology cannot be read; empty if it can, or if there is none."""
    age: float | None = None
    """The seconds since the agent's last sign of life: infinite if there was none, None if it is not known."""
    lasts: float = 0.0
    traffic: Traffic | None = None
    """The recent activity of the GPUs; None if the agent does not report it, or malformed."""

    @cached_property
    def record(self) -> NodeRecord | None:
        """The Node as the planner reads it."""
        if self.document is None:
            return None
        try:
            return read_node(msgspec.json.encode(self.document), self.name, None)
        except ManifestError:
            return None

    def sources(self) -> Sources:
        """Return all facts about the GPUs. HAMi's annotations are parsed anew each time, and not kept."""
        return Sources(
            published=self.published, age=self.age, lasts=self.lasts, annotated=self._annotated, traffic=self.traffic
        )

    def is_silent(self, max_age: float) -> bool:
        """Return whether the agent has been silent for so long that its topology is not relied on.

        Args:
            max_age: ``binding.topologyMaxAgeSeconds``.
        """
        return self.age is not None and self.age > max(max_age, self.lasts)

    def relied_on(self, max_age: float) -> NodeTopology | None:
        """Return the topology that a Binding would rely on; None if no link of any of the GPUs is known.

        HAMi's annotations are only read if they may count.

        Args:
            max_age: ``binding.topologyMaxAgeSeconds``.
        """
        uuids = [gpu.uuid for gpu in self.record.registered] if self.record else []
        known = self.published
        if known is None or self.is_silent(max_age) or not any(known.gpu(uuid, None) for uuid in uuids):
            known = choose_node(self.sources(), uuids, max_age=max_age, verified=False)
        if known is None or len(known.unread) == len(known.topology.gpus):
            return None
        return known.topology

    @property
    def _annotated(self) -> KnownNode | None:
        """The topology in HAMi's annotations; None if there is none that can be read."""
        annotations = self.document["metadata"].get("annotations", {}) if self.document else {}
        if names.HAMI_NODE_REGISTER not in annotations:
            return None
        register, score = annotations[names.HAMI_NODE_REGISTER], annotations.get(names.HAMI_NODE_SCORE)
        try:
            topology = read_hami(register, score or None, node=self.name, source=f"Node {self.name}")
        except FormatError:
            return None
        return KnownNode(topology, origin=Origin.HAMI)


class AgentLeases(msgspec.Struct, frozen=True, kw_only=True):
    """The Leases by which agents show that they are alive."""

    found: Mapping[tuple[str, str], Object]
    """The Leases by namespace and name."""
    are_all: bool
    """True if a Lease that is missing here does not exist; False if it may only be unread."""
    at: datetime | None
    """The time of the reading; None if it is not known, and then nothing is old."""

    def age(self, config_map: Object) -> float | None:
        """Return the seconds since the last sign of the agent: infinite if there was none, None if it is not known."""
        lease = self.found.get(identity(config_map))
        if self.at is None or (lease is None and not self.are_all):
            return None
        renewed = renewed_at(lease) if lease else None
        return (self.at - renewed).total_seconds() if renewed else inf

    def traffic(self, config_map: Object) -> Traffic | None:
        """Return the GPU activity that the agent reports; None if it reports none that can be read."""
        lease = self.found.get(identity(config_map)) or {}
        text = texts(part(lease, "metadata"), "annotations").get(names.TRAFFIC)
        try:
            return parse_traffic(text, names.TRAFFIC) if text else None
        except FormatError:
            return None

    def lasts(self, config_map: Object) -> float:
        """Return the seconds for which the agent vouches for its topology."""
        lease = self.found.get(identity(config_map))
        return lasts(lease) if lease else 0.0


def read_nodes(
    nodes: Sequence[Object],
    config_maps: Sequence[Object],
    leases: AgentLeases,
    topologies: Mapping[str, NodeTopology],
    *,
    believes_unowned: bool = False,
) -> dict[str, ClusterNode]:
    """Read nodes, by their names.

    A tenant who may create ConfigMaps in some namespace could pose as an agent. So only a ConfigMap that its Node owns
    is trusted.

    Args:
        nodes: The Nodes.
        config_maps: The ConfigMaps of agents.
        leases: The Leases of agents.
        topologies: The topologies of nodes without a ConfigMap.
        believes_unowned: True if a ConfigMap is trusted although the uid of its Node is not known.
    """
    owners = {config_map_name(identity(node)[1]): node["metadata"].get("uid") for node in nodes}
    by_name = {
        name: found
        for found in config_maps
        if _is_owned(found, uid := owners.get(name := identity(found)[1])) or (believes_unowned and not uid)
    }
    found = {}
    for name, config_map in by_name.items() if believes_unowned else ():
        if name not in owners and (node := _told_node(config_map)):
            found[node] = _node(node, None, config_map, leases, None)
    for document in nodes:
        name = identity(document)[1]
        found[name] = _node(name, document, by_name.get(config_map_name(name)), leases, topologies.get(name))
    for name, topology in topologies.items():
        if name not in found:
            found[name] = _node(name, None, None, leases, topology)
    return found


def _told_node(config_map: Object) -> str:
    """Return the node that a ConfigMap names; empty if it names none."""
    try:
        return parse_topology(config_map["data"].get(names.TOPOLOGY_KEY, ""), source="ConfigMap").node
    except FormatError:
        return ""


def _is_owned(config_map: Object, uid: str | None) -> bool:
    return bool(uid) and any(owner.get("uid") == uid for owner in config_map["metadata"].get("ownerReferences", ()))


def _node(
    name: str,
    document: Object | None,
    config_map: Object | None,
    leases: AgentLeases,
    topology: NodeTopology | None,
) -> ClusterNode:
    problem = ""
    if config_map is not None:
        where = "ConfigMap " + "/".join(identity(config_map))
        try:
            topology = parse_topology(config_map["data"].get(names.TOPOLOGY_KEY, ""), source=where)
        except FormatError as error:
            topology, problem = None, str(error)
    if topology is None or topology.node != name:
        return ClusterNode(name=name, document=document, published_problem=problem)
    known = KnownNode(topology, origin=Origin.AGENT)
    if config_map is None:
        return ClusterNode(name=name, document=document, published=known)
    return ClusterNode(
        name=name,
        document=document,
        published=known,
        age=leases.age(config_map),
        lasts=leases.lasts(config_map),
        traffic=leases.traffic(config_map),
    )
