"""Every metric that the programs expose, with its labels and all of their values that are known beforehand."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.agent.looks import look
from tests.topology.machines import hgx_h100
from webhook.agent import metrics as agent_metrics
from webhook.agent.growth import CardTotals, Sampled
from webhook.agent.status import Status, TaintStatus
from webhook.discovery.facts import Direction
from webhook.exposition import Exposition
from webhook.extender.counts import Counts as ExtenderCounts
from webhook.extender.counts import families as extender_families
from webhook.model.binding import BindOutcome, BindReason
from webhook.model.outcome import Kind, Outcome, Reason
from webhook.place.round import PlannerReport
from webhook.planner import metrics as planner_metrics
from webhook.planner.counts import Counts as PlannerCounts
from webhook.planner.traffic import Attribution, PodGpu
from webhook.server import metrics as server_metrics
from webhook.server.connections import Phase
from webhook.server.counts import Counts
from webhook.server.gates import Cause
from webhook.server.vitals import Vitals
from webhook.state.report import CacheReport, TopologyReport

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
        connections={(port, phase.value): 1 for port in ("reviews", "ops") for phase in Phase},
        unfinished_bytes={"reviews": 1, "ops": 1},
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
    """Counts of an extender that has removed a node, rejected a request and ended a connection."""
    counts = ExtenderCounts()
    counts.removed["GT690"] += 1
    counts.rejected["400",] += 1
    counts.closed["extender", "idle"] += 1
    return counts


def planner_vitals() -> planner_metrics.Vitals:
    """Vitals of a planner that leads and knows everything."""
    report = CacheReport(name="pods", objects=1, bytes=1, left_out=0, filled=True, confirmed_seconds=1.0)
    attribution = Attribution(cards=(PodGpu("team-a", "train", "main", "n1", "0", "GPU-a", "NVSwitch"),))
    return planner_metrics.Vitals(
        leads=True, report=PlannerReport(), caches=(report,), events_lost=0, attribution=attribution
    )


@cache
def exposed() -> Exposed:
    """The metrics, read from the text that Prometheus would read."""
    status = replace(Status(confirmed_at=0.0), look=look(hgx_h100()), taints=TaintStatus(served=True))
    ways = dict.fromkeys(Direction, 1)
    card = CardTotals(index=0, nvlink=ways, pcie=ways, utilization=0.5)
    sampled = Sampled(at=0.0, cards={"GPU-a": card})
    found = Exposed(set(), {})
    for metric in (
        *_read(Exposition(lambda: server_metrics.families(server_counts(), server_vitals()))),
        *_read(Exposition(lambda: planner_metrics.families(planner_counts(), planner_vitals))),
        *_read(Exposition(lambda: extender_families(extender_counts(), certificate_ends=1.0))),
        *_read(Exposition(lambda: agent_metrics.families(status, sampled, node="n1", now=0.0, version="1.2.3"))),
    ):
        labels: set[str] = set()
        for sample in metric.samples:
            values = found.series.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                values.setdefault(label, set()).add(value)
            labels |= sample.labels.keys()
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        found.families.add(Family(name, metric.type, frozenset(labels - {"le"})))
    return found


def _read(exposition: Exposition) -> Iterator[Metric]:
    _, body = exposition.answer("")
    return iter(text_string_to_metric_families(body.decode()))
