"""The metrics of the server, as Prometheus reads them."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from webhook.model.binding import BindOutcome, BindReason
from webhook.model.choices import Profile
from webhook.model.outcome import Kind, Outcome, Reason
from webhook.server.counts import Counts
from webhook.server.metrics import families

EVERYTHING = """\
# HELP gpu_topology_admissions_total Reviews of pods by what became of them.
# TYPE gpu_topology_admissions_total counter
gpu_topology_admissions_total{outcome="patch",profile="exclusive",reason="injected"} 2.0
gpu_topology_admissions_total{outcome="skip",profile="",reason="no-gpu-request"} 1.0
# HELP gpu_topology_bindings_total Reviews of Bindings by what became of them.
# TYPE gpu_topology_bindings_total counter
gpu_topology_bindings_total{outcome="degraded",profile="pod-peers",reason="requirement-not-met"} 1.0
gpu_topology_bindings_total{outcome="patch",profile="exclusive",reason="resolved"} 1.0
gpu_topology_bindings_total{outcome="skip",profile="",reason="not-a-binding"} 1.0
# HELP gpu_topology_binding_links_total Bindings by how the GPUs of the pod are linked.
# TYPE gpu_topology_binding_links_total counter
gpu_topology_binding_links_total{link="single"} 0.0
gpu_topology_binding_links_total{link="NVSwitch"} 1.0
gpu_topology_binding_links_total{link="NVLink"} 0.0
gpu_topology_binding_links_total{link="NVLink-partial"} 0.0
gpu_topology_binding_links_total{link="PIX"} 0.0
gpu_topology_binding_links_total{link="PXB"} 0.0
gpu_topology_binding_links_total{link="PHB"} 0.0
gpu_topology_binding_links_total{link="SYS"} 1.0
# HELP gpu_topology_binding_requirements_total Bindings of pods that require something of their GPUs, by whether they \
have it.
# TYPE gpu_topology_binding_requirements_total counter
gpu_topology_binding_requirements_total{met="true"} 0.0
gpu_topology_binding_requirements_total{met="false"} 1.0
# HELP gpu_topology_binding_same_numa_total Bindings by whether all GPUs of the pod are on one NUMA node, where that \
is known.
# TYPE gpu_topology_binding_same_numa_total counter
gpu_topology_binding_same_numa_total{same="true"} 1.0
gpu_topology_binding_same_numa_total{same="false"} 1.0
# HELP gpu_topology_binding_seconds Seconds that a review of a Binding took.
# TYPE gpu_topology_binding_seconds histogram
gpu_topology_binding_seconds_bucket{le="0.001"} 2.0
gpu_topology_binding_seconds_bucket{le="0.0025"} 2.0
gpu_topology_binding_seconds_bucket{le="0.005"} 2.0
gpu_topology_binding_seconds_bucket{le="0.01"} 2.0
gpu_topology_binding_seconds_bucket{le="0.025"} 2.0
gpu_topology_binding_seconds_bucket{le="0.05"} 2.0
gpu_topology_binding_seconds_bucket{le="0.1"} 2.0
gpu_topology_binding_seconds_bucket{le="0.25"} 2.0
gpu_topology_binding_seconds_bucket{le="0.5"} 2.0
gpu_topology_binding_seconds_bucket{le="1.0"} 2.0
gpu_topology_binding_seconds_bucket{le="2.5"} 2.0
gpu_topology_binding_seconds_bucket{le="5.0"} 2.0
gpu_topology_binding_seconds_bucket{le="+Inf"} 3.0
gpu_topology_binding_seconds_count 3.0
gpu_topology_binding_seconds_sum 8.0015
# HELP gpu_topology_pod_read_seconds Seconds of that spent waiting for pods.
# TYPE gpu_topology_pod_read_seconds histogram
gpu_topology_pod_read_seconds_bucket{le="0.001"} 1.0
gpu_topology_pod_read_seconds_bucket{le="0.0025"} 1.0
gpu_topology_pod_read_seconds_bucket{le="0.005"} 1.0
gpu_topology_pod_read_seconds_bucket{le="0.01"} 1.0
gpu_topology_pod_read_seconds_bucket{le="0.025"} 1.0
gpu_topology_pod_read_seconds_bucket{le="0.05"} 1.0
gpu_topology_pod_read_seconds_bucket{le="0.1"} 1.0
gpu_topology_pod_read_seconds_bucket{le="0.25"} 1.0
gpu_topology_pod_read_seconds_bucket{le="0.5"} 2.0
gpu_topology_pod_read_seconds_bucket{le="1.0"} 2.0
gpu_topology_pod_read_seconds_bucket{le="2.5"} 2.0
gpu_topology_pod_read_seconds_bucket{le="5.0"} 2.0
gpu_topology_pod_read_seconds_bucket{le="+Inf"} 2.0
gpu_topology_pod_read_seconds_count 2.0
gpu_topology_pod_read_seconds_sum 0.5005
# HELP gpu_topology_rejected_requests_total Requests that are no reviews, or met a bug (500).
# TYPE gpu_topology_rejected_requests_total counter
gpu_topology_rejected_requests_total{status="400"} 2.0
gpu_topology_rejected_requests_total{status="500"} 0.0
# HELP gpu_topology_pod_read_failures_total Reads of a pod, or of its group, that failed or took too long.
# TYPE gpu_topology_pod_read_failures_total counter
gpu_topology_pod_read_failures_total{read="pod"} 0.0
gpu_topology_pod_read_failures_total{read="group"} 4.0
# HELP gpu_topology_events_lost_total Events about pods that could not be written.
# TYPE gpu_topology_events_lost_total counter
gpu_topology_events_lost_total 3.0
"""
RESOLVED = BindOutcome(
    kind=Kind.PATCH, reason=BindReason.RESOLVED, profile=Profile.EXCLUSIVE, link="NVSwitch", same_numa=True
)
NOT_MET = BindOutcome(
    kind=Kind.DEGRADED,
    reason=BindReason.REQUIREMENT_NOT_MET,
    profile=Profile.POD_PEERS,
    link="SYS",
    same_numa=False,
    satisfied=False,
)
NOT_A_BINDING = BindOutcome(kind=Kind.SKIP, reason=BindReason.NOT_A_BINDING)


class Given(Collector):
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        return families(self._counts)


def written(counts: Counts) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Given(counts))
    return generate_latest(registry).decode()


def test_everything_that_was_counted_is_written() -> None:
    counts = Counts(lambda: 3)
    for _ in range(2):
        counts.rejected[400] += 1
        counts.admitted(Outcome(kind=Kind.PATCH, reason=Reason.INJECTED, profile="exclusive"))
    counts.admitted(Outcome(kind=Kind.SKIP, reason=Reason.NO_GPU_REQUEST))
    counts.bound(RESOLVED, seconds=0.001, waiting=0.0005)
    counts.bound(NOT_MET, seconds=8.0, waiting=0.5)
    counts.bound(NOT_A_BINDING, seconds=0.0005, waiting=0.0)
    counts.failed_reads["group"] += 4
    assert written(counts) == EVERYTHING


def test_before_the_first_review_every_known_label_is_there_with_zero() -> None:
    text = written(Counts(lambda: 0))
    assert 'gpu_topology_binding_links_total{link="NVSwitch"} 0.0' in text
    assert 'gpu_topology_binding_requirements_total{met="false"} 0.0' in text
    assert 'gpu_topology_binding_seconds_bucket{le="+Inf"} 0.0' in text
    assert 'gpu_topology_pod_read_failures_total{read="pod"} 0.0' in text
    assert "gpu_topology_events_lost_total 0.0" in text
