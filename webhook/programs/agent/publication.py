"""The decision what to write about a node, made of the cluster's objects and the discovered topology."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from webhook.hardware.topology.document import format_topology, parse_topology
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.nccl_file import format_nccl_topology
from webhook.hardware.traffic.model import Traffic, format_traffic
from webhook.objects.event import Reporter, event_manifest
from webhook.objects.lease import lease_spec
from webhook.programs.agent.cordon import cordon_change
from webhook.programs.agent.events import NodeEvent, changes, cordon_events, taint_events
from webhook.programs.agent.look import Look
from webhook.words import names
from webhook.words.errors import FormatError
from webhook.words.node_names import config_map_name, node_label

EVENTS_NAMESPACE = names.DEFAULT_NAMESPACE
"""The namespace of Events about objects without one (kubernetes pkg/apis/core/validation/events.go)."""

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """The objects of a node in the cluster, as the API server sent them."""

    node: Object
    config_map: Object | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """The agent's memory of earlier rounds, empty after a restart."""

    published: NodeTopology | None = None
    """The topology that the cluster had last."""
    readable: NodeTopology | None = None
    """The last topology with GPUs. The driver may not answer between two looks."""

    def after(self, topology: NodeTopology) -> "Memory":
        """Returns the memory after ``topology`` was published."""
        return Memory(published=topology, readable=topology if topology.gpus else self.readable)

    def at_start(self, config_map: Object | None) -> "Memory":
        """Returns this memory or, if it is empty, the memory made of the ConfigMap's topology."""
        published = self.published or (published_topology(config_map) if config_map else None)
        return self if published is None or self.published else Memory().after(published)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeChange:
    """A change of the Node, and its Events."""

    patch: Object
    """A JSON merge patch. It has a ``resourceVersion`` if it rewrites a list that others write too."""
    events: tuple[Object, ...] = ()
    """The Events to create after the patch is applied."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """The objects to write, in this order. Each may be written twice without harm."""

    events: tuple[Object, ...]
    node: NodeChange | None
    config_map: Object | None
    """The ConfigMap to apply; None if the cluster has it. It is last, because events come from the difference to the
    old one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishOptions:
    """The options of publication."""

    namespace: str
    """The namespace of the ConfigMap and the Lease."""
    cordon: bool = False
    """Whether to cordon ill GPUs for HAMi."""
    taint_devices: bool = False
    """Whether to keep resource claims from ill GPUs, by DeviceTaintRules."""


def decide(observed: Observed, now: Look, *, memory: Memory, options: PublishOptions, at: datetime) -> Publication:
    """Returns the objects to write so that the cluster has ``now``, without those that it has already.

    Args:
        observed: The objects of the node in the cluster.
        now: The newest look at the node.
        memory: The memory of earlier rounds.
        options: The options of publication.
        at: The time of the Events.
    """
    known = memory.at_start(observed.config_map)
    manifest = config_map_manifest(now.topology, observed.node, namespace=options.namespace)
    happened = changes(now, before=known.published, readable=known.readable)
    version = _metadata(observed.config_map or {}).get("resourceVersion", "")
    return Publication(
        events=tuple(_event(event, observed.node, "Discover", at=at, seed=version) for event in happened),
        node=node_change(observed.node, now, before=known.readable, cordon=options.cordon, at=at),
        config_map=None if observed.config_map and _has(observed.config_map, manifest) else manifest,
    )


def node_change(
    node: Object, now: Look, *, before: NodeTopology | None, cordon: bool, at: datetime
) -> NodeChange | None:
    """Returns the change of the Node's label and of its cordon annotations, or None if nothing changes.

    Args:
        node: The Node, as the API server sent it.
        now: The newest look at the node.
        before: The last topology with GPUs; None if unknown.
        cordon: Whether the agent may cordon GPUs.
        at: The time of the Events.
    """
    metadata = _metadata(node)
    annotations = metadata.get("annotations") or {}
    patch: Object = {}
    state = now.health.state.value
    if (metadata.get("labels") or {}).get(names.NVLINK) != state:
        patch["labels"] = {names.NVLINK: state}
    change = cordon_change(annotations, now, before=before, enabled=cordon)
    if change is None:
        return NodeChange(patch={"metadata": patch}) if patch else None
    wanted = {names.HAMI_DEVICE_CORDON: change.device_cordon, names.CORDONED: change.cordoned}
    patch["annotations"] = {key: value for key, value in wanted.items() if value != annotations.get(key)}
    patch["resourceVersion"] = metadata["resourceVersion"]
    events = cordon_events(change.added, change.removed)
    seed = metadata["resourceVersion"]
    return NodeChange(
        patch={"metadata": patch}, events=tuple(_event(event, node, "Cordon", at=at, seed=seed) for event in events)
    )


def taint_event_manifests(
    tainted: Sequence[str], untainted: Sequence[str], node: Object, *, at: datetime, seed: str
) -> tuple[Object, ...]:
    """Returns the Events about DeviceTaintRules.

    Args:
        tainted: UUIDs of GPUs for which rules were created.
        untainted: UUIDs of GPUs for which rules were deleted.
        node: The Node, as the API server sent it.
        at: The time of the Events.
        seed: A text that differs when the same change happens again.
    """
    return tuple(
        _event(event, node, "Taint", at=at, seed=seed)
        for event in taint_events(list(dict.fromkeys(tainted)), list(dict.fromkeys(untainted)))
    )


def published_topology(config_map: Object) -> NodeTopology | None:
    """Returns the topology in a ConfigMap, or None if it cannot be read, for example after it was edited."""
    try:
        text = (config_map.get("data") or {}).get(names.TOPOLOGY_KEY, "")
        return parse_topology(text, source=f"ConfigMap {_metadata(config_map).get('name', '')}")
    except FormatError:
        return None


def sound(topology: NodeTopology) -> NodeTopology:
    """Returns ``topology`` if readers will accept it, else an empty topology with the problem."""
    try:
        return parse_topology(format_topology(topology), source=f"the topology of node {topology.node}")
    except FormatError as error:
        return NodeTopology(node=topology.node, source=topology.source, problem=str(error))


def config_map_manifest(topology: NodeTopology, node: Object, *, namespace: str) -> Object:
    """Returns the ConfigMap of a node. The Node owns it, so it is deleted with the Node."""
    metadata = _owned(topology.node, node, namespace)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": _files(topology)}


def lease_manifest(
    node: Object, *, namespace: str, interval: float, at: datetime, traffic: Traffic | None = None
) -> Object:
    """Returns the Lease of a node: the time at which the published topology was true. It is deleted with the Node.

    Args:
        node: The Node, as the API server sent it.
        namespace: The namespace of the ConfigMap.
        interval: Seconds between two discoveries.
        at: The time of the last look at the node.
        traffic: The recent traffic of its GPUs; None if unknown.
    """
    name = _metadata(node)["name"]
    metadata = _owned(name, node, namespace)
    if traffic:
        metadata["annotations"] = {names.TRAFFIC: format_traffic(traffic)}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": lease_spec(name, at=at, interval=interval),
    }


def nccl_problem(topology: NodeTopology) -> str:
    """Returns why the ConfigMap has no file for NCCL. Empty if it has one, or if no GPU could use one."""
    if all(gpu.mig_mode is MigMode.ENABLED for gpu in topology.gpus):
        return ""
    try:
        format_nccl_topology(topology)
    except FormatError as error:
        return str(error)
    return ""


def _owned(name: str, node: Object, namespace: str) -> Object:
    """Returns the metadata of an object that the node called ``name`` owns."""
    metadata = _metadata(node)
    return {
        "name": config_map_name(name),
        "namespace": namespace,
        "labels": {names.NODE: node_label(name)},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}],
    }


def _files(topology: NodeTopology) -> dict[str, str]:
    files = {names.TOPOLOGY_KEY: format_topology(topology)}
    # Without a topology to write, the file is left out: NCCL works without a file, but not with an empty one.
    with contextlib.suppress(FormatError):
        files[names.NCCL_TOPOLOGY_KEY] = format_nccl_topology(topology)
    return files


def _has(config_map: Object, manifest: Object) -> bool:
    """Returns whether the ConfigMap has all members of the manifest. Other members are ignored."""
    found, wanted = _metadata(config_map), _metadata(manifest)
    owners = found.get("ownerReferences") or []
    return (
        _contains(found.get("labels") or {}, wanted["labels"])
        and all(any(_contains(owner, wish) for owner in owners) for wish in wanted["ownerReferences"])
        and _contains(config_map.get("data") or {}, manifest["data"])
    )


def _contains(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return found.items() >= wanted.items()


def _event(event: NodeEvent, node: Object, action: str, *, at: datetime, seed: str) -> Object:
    """Returns the manifest of an Event on the Node.

    ``seed`` is the version of the object that is about to be replaced. So a round that is repeated, because its end
    did not reach the API server, makes the same Event again.
    """
    metadata = _metadata(node)
    name, uid = metadata["name"], metadata["uid"]
    return event_manifest(
        {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid},
        Reporter(names.AGENT_CONTROLLER, name, action),
        namespace=EVENTS_NAMESPACE,
        reason=event.reason.value,
        note=event.note,
        at=at,
        seed=seed,
        warning=event.warning,
    )


def _metadata(an_object: Object) -> Object:
    metadata: Object = an_object.get("metadata") or {}
    return metadata
