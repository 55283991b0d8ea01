"""Findings about nodes: missing or silent agents, lost GPUs, and NVLinks that are down or slow."""

from collections.abc import Iterator
from math import isinf

from webhook.cluster.snapshot.model import Snapshot
from webhook.cluster.snapshot.nodes import ClusterNode
from webhook.hardware.topology.health import HealthState, node_health
from webhook.hardware.topology.model import NodeTopology
from webhook.insight.analyze.diagnosis import Diagnosis, Holder, error, warning
from webhook.words import names
from webhook.words.catalogue.cluster_findings import AGENT_MISSING, AGENT_SILENT, PUBLISHED_UNREADABLE
from webhook.words.catalogue.nodes import (
    BANDWIDTH_BELOW_EXPECTED,
    GPU_LOST,
    NVLINK_DOWN,
)
from webhook.words.catalogue.running import AGENT_MISSES_NODE
from webhook.words.duration import duration
from webhook.words.printable import fitted


def agents(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields a finding for each node with GPUs whose agent published nothing, or nothing for too long."""
    max_age = snapshot.policy.binding.topology_max_age_seconds
    for node in snapshot.nodes.values():
        holder = Holder("Node", "", node.name)
        if node.published_problem:
            yield warning(holder, PUBLISHED_UNREADABLE.say(problem=fitted(node.published_problem)))
        elif node.published is None:
            if _has_gpus(node, snapshot) and "ConfigMap" in snapshot.read:
                yield _without_agent(holder, snapshot)
        elif node.age is not None and node.is_silent(max_age):
            never = "never been heard of"
            silence = never if isinf(node.age) else f"not been heard of for {duration(node.age)}"
            yield warning(holder, AGENT_SILENT.say(silence=silence))


def _without_agent(holder: Holder, snapshot: Snapshot) -> Diagnosis:
    agents = next((each for each in snapshot.programs if each.component == names.AGENT_COMPONENT), None)
    if agents is None:
        return warning(holder, AGENT_MISSING.say())
    return error(holder, AGENT_MISSES_NODE.say(namespace=agents.namespace, name=agents.name))


def _has_gpus(node: ClusterNode, snapshot: Snapshot) -> bool:
    """Returns whether HAMi, or the kubelet, offers GPUs of the node."""
    record = node.record
    if record is None:
        return False
    counts = [resources.count for resources in snapshot.policy.resources]
    return record.most > 0 or any(record.allocatable.get(count, 0) > 0 for count in counts)


def links(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields findings about links that are down and GPUs that are lost, as the agents published them."""
    for node in snapshot.nodes.values():
        if node.published:
            yield from _of_topology(node.published.topology)


def _of_topology(topology: NodeTopology) -> Iterator[Diagnosis]:
    holder, health = Holder("Node", "", topology.node), node_health(topology)
    lost = {f"{gpu.label} cannot be reached: {gpu.problem}" for gpu in topology.lost}
    others = [text for text in health.findings if text not in lost]
    if lost:
        yield error(holder, GPU_LOST.say(found=fitted("; ".join(sorted(lost)))))
    if others and health.state is HealthState.DEGRADED:
        yield warning(holder, NVLINK_DOWN.say(found=fitted("; ".join(others))))
    if health.slower:
        yield warning(holder, BANDWIDTH_BELOW_EXPECTED.say(found=fitted("; ".join(health.slower))))
