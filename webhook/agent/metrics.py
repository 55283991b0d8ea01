"""The metrics of the agent, made of its status when somebody asks: what is gone from the node is gone from them too."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from webhook.agent.look import Look
from webhook.agent.status import Count, Status
from webhook.topology.health import HealthState
from webhook.topology.model import MigMode

PREFIX = "gpu_topology_"
FABRIC_STATES = ("completed", "in-progress", "not-started", "unsupported")


def families(status: Status, *, now: float, version: str) -> Iterator[Metric]:
    """All metrics.

    Args:
        status: Of the agent.
        now: The time, by the clock of the status.
        version: Of this program.
    """
    yield _gauge("agent_build_info", "1; the label names the version of the agent.", ("version",), {(version,): 1})
    if status.look:
        yield from _node(status.look)
    yield _gauge(
        "publication_age_seconds",
        "Seconds since the cluster was last known to have the newest topology, or since the start.",
        (),
        {(): max(0.0, now - status.confirmed_at)},
    )
    yield _gauge("publication_in_step", "Whether the last publication worked.", (), {(): float(status.in_step)})
    yield _gauge("discovery_seconds", "Seconds that the last discovery took.", (), {(): status.discovery_seconds})
    yield from _counters(status)


def _node(look: Look) -> Iterator[Metric]:
    topology, health = look.topology, look.health
    links: dict[tuple[str, ...], float] = {}
    for gpu in topology.gpus:
        links[str(gpu.index), gpu.uuid, "up"] = gpu.active_links
        links[str(gpu.index), gpu.uuid, "down"] = sum(link.count for link in gpu.nvlinks) - gpu.active_links
    yield _gauge(
        "nvlink_links", "NVLinks of a GPU. Some products never use all of their links.", ("gpu", "uuid", "state"), links
    )
    yield _gauge("gpus", "GPUs of the node by state.", ("state",), _by_state(look))
    yield _gauge("health", "1 for the state of the node's NVLinks.", ("state",), _one_of(HealthState, health.state))
    fabric = topology.fabric.state if topology.fabric else ""
    states = FABRIC_STATES if fabric in ("", *FABRIC_STATES) else (*FABRIC_STATES, fabric)
    yield _gauge(
        "fabric_state", "1 for the state of the NVLink fabric, if it has one.", ("state",), _one_of(states, fabric)
    )


def _by_state(look: Look) -> dict[tuple[str, ...], float]:
    found = {"healthy": 0, "degraded": 0, "mig": 0, "lost": len(look.topology.lost)}
    for gpu in look.topology.gpus:
        if gpu.mig_mode is MigMode.ENABLED:
            found["mig"] += 1
        else:
            found["degraded" if gpu.index in look.health.ailing else "healthy"] += 1
    return {(state,): number for state, number in found.items()}


def _one_of(states: Iterable[str], state: str) -> dict[tuple[str, ...], float]:
    return {(str(each),): float(each == state) for each in states}


def _counters(status: Status) -> Iterator[Metric]:
    for what, name, text, label, words in (
        (
            Count.DISCOVERIES,
            "discoveries",
            "Discoveries by what became of them.",
            "outcome",
            ("complete", "problem", "bug"),
        ),
        (Count.ERRORS, "errors", "Rounds that failed, by what was wrong.", "kind", ("api", "configuration", "bug")),
        (Count.API_ERRORS, "api_errors", "Requests that failed.", "kind", ("away", "conflict", "not-found", "refused")),
        (Count.WRITES, "writes", "Objects written to the cluster.", "object", ("configmap", "node", "event", "lease")),
    ):
        family = CounterMetricFamily(PREFIX + name, text, labels=(label,))
        for word, number in {**dict.fromkeys(words, 0), **status.count(what)}.items():
            family.add_metric((word,), number)
        yield family


def _gauge(name: str, text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]) -> Metric:
    family = GaugeMetricFamily(PREFIX + name, text, labels=labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family
