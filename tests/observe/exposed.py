"""Every metric that the programs expose, with its labels and all of their values that are known beforehand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.hardware.topology.machines import hgx_h100
from tests.programs.agent.looks import look
from webhook.cluster.state.report import CacheReport, TopologyReport
from webhook.decisions.place.round import PlannerReport
from webhook.hardware.discovery.facts import Direction
from webhook.objects.binding import BindOutcome, BindReason
from webhook.programs.agent import metrics as agent_metrics
from webhook.programs.agent.growth import CardTotals, Sampled
from webhook.programs.agent.status import Status, TaintStatus
from webhook.programs.exposition import Exposition
from webhook.programs.http.server import Cause as Closing
from webhook.programs.planner import metrics as planner_metrics
from webhook.programs.planner.counts import Counts as PlannerCounts
from webhook.programs.planner.extender.counts import Counts as ExtenderCounts
from webhook.programs.planner.extender.counts import families as extender_families
from webhook.programs.planner.held_gpus import HeldGpus, PodGpu, PodOnNode
from webhook.programs.server import metrics as server_metrics
from webhook.programs.server.counts import Counts
from webhook.programs.server.gates import Cause
from webhook.programs.server.vitals import Vitals
from webhook.words.outcome import Kind, Outcome, Reason

CLOSED = dict.fromkeys(Closing, 1)
TARGET_LABELS = frozenset({"namespace", "pod", "instance", "job"})
"""What Prometheus itself puts onto each series of a target that the Prometheus operator found."""

API_SERVER = {
    "apiserver_admission_webhook_rejection_count": {"name", "type", "operation", "error_type", "rejection_code"},
    "apiserver_admission_webhook_fail_open_count": {"name", "type"},
    "apiserver_admission_webhook_admission_duration_seconds_bucket": {"name", "type", "operation", "rejected", "le"},
}
"""Metrics of kube-apiserver: k8s.io/apiserver v0.36.3, pkg/admission/metrics/metrics.go."""


@dataclass(frozen=True)
class Family:
    """One metric as documents name it."""

    name: str
    kind: str
    labels: frozenset[str]


@dataclass
class Exposed:
    """What Prometheus gets from one webhook, one planner with an extender, and one agent."""

    families: set[Family]
    series: dict[str, dict[str, set[str]]]
    """Names of series, such as that of a histogram's buckets, with the values of each of their labels."""


def server_vitals() -> Vitals:
    """Vitals of a server that knows everything."""
    return Vitals(
        certificate_ends=1.0,
        authority_ends=1.0,
        certificate_failures=1,
        certificate_leader=True,
        caches=(CacheReport(name="nodes", objects=1, bytes=1, left_out=0, filled=True, confirmed_seconds=1.0),),
        topologies=TopologyReport(fresh=1, old=0, missing=0),
        unmatched_schedulers=1,
        api_errors={("nodes", "away"): 1},
        connections={"reviews": 1, "ops": 1},
        closed={(port, cause): 1 for port in ("reviews", "ops") for cause in Closing},
        planner_alive=True,
        gates_opened={str(cause): 1 for cause in Cause},
    )


def server_counts() -> Counts:
    """Counts of a server that has seen everything."""
    counts = Counts(lambda: 0)
    for kind in Kind:
        for reason in Reason:
            counts.admitted(Outcome(kind=kind, reason=reason, profile="exclusive"), seconds=0.0)
        for bind_reason in BindReason:
            counts.bound(BindOutcome(kind=kind, reason=bind_reason), seconds=0.0, waiting=0.0)
    return counts


def planner_counts() -> PlannerCounts:
    """Counts of a planner to which the API server once gave no answer."""
    counts = PlannerCounts()
    counts.api_errors["pods", "away"] += 1
    return counts


def extender_counts() -> ExtenderCounts:
    """Counts of an extender that has removed a node and rejected a request."""
    counts = ExtenderCounts()
    counts.removed["GT690"] += 1
    counts.rejected["400",] += 1
    return counts


def planner_vitals() -> planner_metrics.Vitals:
    """Vitals of a planner that leads and knows everything."""
    report = CacheReport(name="pods", objects=1, bytes=1, left_out=0, filled=True, confirmed_seconds=1.0)
    held = HeldGpus(
        gpus=(PodGpu("team-a", "train", "main", "n1", "0", "GPU-a", "NVSwitch", "true"),),
        bandwidths={PodOnNode("team-a", "train", "n1", "NVSwitch"): 0.5},
    )
    return planner_metrics.Vitals(leads=True, report=PlannerReport(), caches=(report,), events_lost=0, held=held)


def _agent() -> Exposition:
    status = replace(Status(confirmed_at=0.0), look=look(hgx_h100()), taints=TaintStatus(served=True))
    ways = dict.fromkeys(Direction, 1)
    card = CardTotals(index=0, nvlink=ways, pcie=ways, utilization=0.5)
    sampled = Sampled(at=0.0, cards={"GPU-a": card})
    return Exposition(lambda: agent_metrics.families(status, sampled, node="n1", now=0.0, version="1.2.3"))


EXPOSITIONS: Mapping[str, Callable[[], Exposition]] = {
    "webhook": lambda: Exposition(lambda: server_metrics.families(server_counts(), server_vitals())),
    "planner": lambda: Exposition(lambda: planner_metrics.families(planner_counts(), planner_vitals)),
    "extender": lambda: Exposition(
        lambda: extender_families(extender_counts(), dict.fromkeys(Closing, 1), certificate_ends=1.0)
    ),
    "agent": _agent,
}
"""What each program exposes once it has seen everything."""


@cache
def metrics(program: str) -> tuple[Metric, ...]:
    """The metrics of a program, read from the text that Prometheus would read."""
    _, body = EXPOSITIONS[program]().answer("")
    return tuple(text_string_to_metric_families(body.decode()))


def family(metric: Metric) -> Family:
    """A metric as documents name it."""
    labels = {label for sample in metric.samples for label in sample.labels}
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    return Family(name, metric.type, frozenset(labels - {"le"}))


@cache
def exposed() -> Exposed:
    """The metrics of all programs."""
    found = Exposed(set(), {})
    for metric in (metric for program in EXPOSITIONS for metric in metrics(program)):
        for sample in metric.samples:
            values = found.series.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                values.setdefault(label, set()).add(value)
        found.families.add(family(metric))
    return found
