"""The metrics of the agent, made of its status at each scrape, so that removed GPUs leave no values behind.

Each metric has the label ``node``, because the name of a pod does not identify the machine (docs/observability.md).
"""

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import Metric

from webhook.hardware.topology.connections import nvlink_capacity
from webhook.hardware.topology.health import HealthState
from webhook.hardware.topology.model import MigMode
from webhook.programs import exposition
from webhook.programs.agent.growth import CardTotals, Sampled
from webhook.programs.agent.look import Look
from webhook.programs.agent.status import Count, Status, TaintStatus
from webhook.programs.exposition import Values, one_of

FABRIC_STATES = ("completed", "in-progress", "not-started", "unsupported")


def families(
    status: Status, sampled: Sampled | None = None, *, node: str, now: float, version: str
) -> Iterator[Metric]:
    """Yields all metrics.

    Args:
        status: The status of the agent.
        sampled: The last sample of the cards' counters; None if there is no fresh one.
        node: The name of the node.
        now: The time, by the clock of the status.
        version: The version of this program.
    """
    yield exposition.info("agent_build", "1; the label names the version of the agent.", node=node, version=version)
    of = _Node(node)
    if status.look:
        yield from _hardware(of, status.look)
    yield of.gauge(
        "publication_age_seconds",
        "Seconds since the cluster was last known to have the newest topology, or since the start.",
        (),
        {(): max(0.0, now - status.confirmed_at)},
    )
    yield of.gauge("publication_in_step", "Whether the last publication worked.", (), {(): float(status.in_step)})
    yield of.gauge("discovery_seconds", "Seconds that the last discovery took.", (), {(): status.discovery_seconds})
    if status.taints:
        yield from _taints(of, status.taints)
    if sampled:
        yield of.gauge(
            "traffic_sample_seconds",
            "Seconds that the last sample of the traffic counters took.",
            (),
            {(): sampled.seconds},
        )
        yield from _traffic(of, sampled.cards)
    yield from _counters(of, status)


class _Node:
    """The maker of metric families about one node."""

    def __init__(self, name: str) -> None:
        self._name = name

    def gauge(self, name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
        return exposition.gauge(name, text, ("node", *labels), self._named(values))

    def counter(self, name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
        return exposition.counter(name, text, ("node", *labels), self._named(values))

    def _named(self, values: Values) -> Values:
        return {(self._name, *key): value for key, value in values.items()}


def _hardware(of: _Node, look: Look) -> Iterator[Metric]:
    topology, health = look.topology, look.health
    links: dict[tuple[str, ...], float] = {}
    for gpu in topology.gpus:
        links[str(gpu.index), gpu.uuid, "up"] = gpu.active_links
        links[str(gpu.index), gpu.uuid, "down"] = sum(link.count for link in gpu.nvlinks) - gpu.active_links
    yield of.gauge(
        "nvlink_links", "NVLinks of a GPU. Some products never use all of their links.", ("gpu", "uuid", "state"), links
    )
    yield of.gauge(
        "nvlink_capacity_bytes_per_second",
        "Bytes per second that the working NVLinks of a GPU carry in one direction.",
        ("gpu", "uuid"),
        _capacities(look),
    )
    yield of.gauge("gpus", "GPUs of the node by state.", ("state",), _by_state(look))
    yield of.gauge("health", "1 for the state of the node's NVLinks.", ("state",), one_of(HealthState, health.state))
    fabric = topology.fabric.state if topology.fabric else ""
    states = FABRIC_STATES if fabric in ("", *FABRIC_STATES) else (*FABRIC_STATES, fabric)
    yield of.gauge(
        "fabric_state", "1 for the state of the NVLink fabric, if it has one.", ("state",), one_of(states, fabric)
    )


def _capacities(look: Look) -> Values:
    """Returns what the links of each GPU carry. Where that is nothing or not known there is no value, to divide by."""
    known = ((gpu, nvlink_capacity(gpu)) for gpu in look.topology.gpus)
    return {(str(gpu.index), gpu.uuid): round(gbps * 1e9) for gpu, gbps in known if gbps is not None}


def _by_state(look: Look) -> Values:
    found = {"healthy": 0, "degraded": 0, "mig": 0, "lost": len(look.topology.lost)}
    for gpu in look.topology.gpus:
        if gpu.mig_mode is MigMode.ENABLED:
            found["mig"] += 1
        else:
            found["degraded" if gpu.index in look.health.ailing else "healthy"] += 1
    return {(state,): number for state, number in found.items()}


def _traffic(of: _Node, cards: Mapping[str, CardTotals]) -> Iterator[Metric]:
    """Yields the metrics of traffic. A card without a reading has no value, because 0 would mean no traffic."""
    labels = ("gpu", "uuid", "direction")
    nvlink: Values = {(str(c.index), uuid, way): n for uuid, c in cards.items() for way, n in c.nvlink.items()}
    pcie: Values = {(str(c.index), uuid, way): n for uuid, c in cards.items() for way, n in c.pcie.items()}
    used: Values = {(str(c.index), uuid): c.utilization for uuid, c in cards.items() if c.utilization is not None}
    yield of.counter("nvlink_bytes", "Payload that a GPU sent (tx) and received (rx) over its NVLinks.", labels, nvlink)
    yield of.counter("pcie_bytes", "Bytes that a GPU sent (tx) and received (rx) over PCIe.", labels, pcie)
    yield of.gauge(
        "gpu_utilization_ratio",
        "Share of the driver's last sample period in which a kernel ran on a GPU.",
        ("gpu", "uuid"),
        used,
    )


def _taints(of: _Node, taints: TaintStatus) -> Iterator[Metric]:
    yield of.gauge(
        "device_taint_rules_served",
        "Whether the API server has DeviceTaintRules.",
        (),
        {(): float(taints.served)},
    )
    yield of.gauge("device_taint_rules", "DeviceTaintRules of the agent of this node.", (), {(): taints.rules})
    yield of.gauge(
        "device_taints_missing",
        "Ill GPUs whose devices the agent cannot taint.",
        (),
        {(): taints.unmatched},
    )


def _counters(of: _Node, status: Status) -> Iterator[Metric]:
    for what, name, text, label, words in (
        (
            Count.DISCOVERIES,
            "discoveries",
            "Discoveries by what became of them.",
            "outcome",
            ("complete", "problem", "bug"),
        ),
        (
            Count.ERRORS,
            "agent_errors",
            "Rounds of the agent that failed, by what was wrong.",
            "kind",
            ("api", "configuration", "bug"),
        ),
        (
            Count.API_ERRORS,
            "agent_api_errors",
            "Requests of the agent to the API server that failed.",
            "kind",
            ("away", "conflict", "denied", "malformed", "not-found", "refused"),
        ),
        (
            Count.WRITES,
            "agent_writes",
            "Objects that the agent wrote to the cluster.",
            "object",
            ("configmap", "node", "event", "lease", "devicetaintrule"),
        ),
    ):
        values = {**dict.fromkeys(words, 0), **status.count(what)}
        yield of.counter(name, text, (label,), {(word,): number for word, number in values.items()})
