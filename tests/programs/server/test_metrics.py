"""The metrics of the server, as Prometheus reads them."""

from webhook import __version__
from webhook.cluster.state.report import CacheReport, TopologyReport
from webhook.objects.binding import BindOutcome, BindReason
from webhook.programs.exposition import Exposition
from webhook.programs.http.server import Cause as Closing
from webhook.programs.server.counts import Counts
from webhook.programs.server.metrics import families
from webhook.programs.server.vitals import Vitals
from webhook.words.choices import Profile
from webhook.words.outcome import Kind, Outcome, Reason

EVERYTHING = """\
# HELP gpu_topology_admissions_total Reviews of pods by what became of them.
# TYPE gpu_topology_admissions_total counter
gpu_topology_admissions_total{outcome="patch",profile="exclusive",reason="injected"} 2.0
gpu_topology_admissions_total{outcome="skip",profile="",reason="no-gpu-request"} 1.0
# HELP gpu_topology_admission_seconds Seconds from the arrival of a review of a pod to its answer.
# TYPE gpu_topology_admission_seconds histogram
gpu_topology_admission_seconds_bucket{le="0.001"} 2.0
gpu_topology_admission_seconds_bucket{le="0.0025"} 2.0
gpu_topology_admission_seconds_bucket{le="0.005"} 3.0
gpu_topology_admission_seconds_bucket{le="0.01"} 3.0
gpu_topology_admission_seconds_bucket{le="0.025"} 3.0
gpu_topology_admission_seconds_bucket{le="0.05"} 3.0
gpu_topology_admission_seconds_bucket{le="0.1"} 3.0
gpu_topology_admission_seconds_bucket{le="0.25"} 3.0
gpu_topology_admission_seconds_bucket{le="0.5"} 3.0
gpu_topology_admission_seconds_bucket{le="1.0"} 3.0
gpu_topology_admission_seconds_bucket{le="2.5"} 3.0
gpu_topology_admission_seconds_bucket{le="5.0"} 3.0
gpu_topology_admission_seconds_bucket{le="+Inf"} 3.0
gpu_topology_admission_seconds_count 3.0
gpu_topology_admission_seconds_sum 0.005
# HELP gpu_topology_rejected_requests_total Requests that got no review as an answer.
# TYPE gpu_topology_rejected_requests_total counter
gpu_topology_rejected_requests_total{status="400"} 2.0
gpu_topology_rejected_requests_total{status="405"} 0.0
gpu_topology_rejected_requests_total{status="413"} 0.0
gpu_topology_rejected_requests_total{status="500"} 0.0
gpu_topology_rejected_requests_total{status="503"} 0.0
# HELP gpu_topology_slow_reviews_total Reviews that took a second or longer once they had arrived.
# TYPE gpu_topology_slow_reviews_total counter
gpu_topology_slow_reviews_total{path="/mutate/pods"} 0.0
gpu_topology_slow_reviews_total{path="/mutate/bindings"} 1.0
# HELP gpu_topology_events_lost_total Events about pods that could not be written.
# TYPE gpu_topology_events_lost_total counter
gpu_topology_events_lost_total 3.0
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
# HELP gpu_topology_binding_seconds Seconds from the arrival of a review of a Binding to its answer.
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
# HELP gpu_topology_pod_read_seconds Seconds that a review of a Binding waited for pods.
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
# HELP gpu_topology_pod_read_failures_total Reads of a pod, or of its group, that failed or took too long.
# TYPE gpu_topology_pod_read_failures_total counter
gpu_topology_pod_read_failures_total{read="pod"} 0.0
gpu_topology_pod_read_failures_total{read="group"} 4.0
# HELP gpu_topology_claim_read_seconds Seconds that a review waited for resource claims.
# TYPE gpu_topology_claim_read_seconds histogram
gpu_topology_claim_read_seconds_bucket{le="0.001"} 0.0
gpu_topology_claim_read_seconds_bucket{le="0.0025"} 0.0
gpu_topology_claim_read_seconds_bucket{le="0.005"} 1.0
gpu_topology_claim_read_seconds_bucket{le="0.01"} 1.0
gpu_topology_claim_read_seconds_bucket{le="0.025"} 1.0
gpu_topology_claim_read_seconds_bucket{le="0.05"} 1.0
gpu_topology_claim_read_seconds_bucket{le="0.1"} 1.0
gpu_topology_claim_read_seconds_bucket{le="0.25"} 1.0
gpu_topology_claim_read_seconds_bucket{le="0.5"} 1.0
gpu_topology_claim_read_seconds_bucket{le="1.0"} 1.0
gpu_topology_claim_read_seconds_bucket{le="2.5"} 1.0
gpu_topology_claim_read_seconds_bucket{le="5.0"} 1.0
gpu_topology_claim_read_seconds_bucket{le="+Inf"} 1.0
gpu_topology_claim_read_seconds_count 1.0
gpu_topology_claim_read_seconds_sum 0.004
# HELP gpu_topology_claim_read_failures_total Reads of a resource claim, or of a template, that failed or took too long.
# TYPE gpu_topology_claim_read_failures_total counter
gpu_topology_claim_read_failures_total{read="claim"} 1.0
gpu_topology_claim_read_failures_total{read="template"} 0.0
# HELP gpu_topology_limited_reads_total Reads that were not done because too many were asked for.
# TYPE gpu_topology_limited_reads_total counter
gpu_topology_limited_reads_total{read="namespace"} 2.0
# HELP gpu_topology_webhook_build_info 1; the label names the version of the webhook.
# TYPE gpu_topology_webhook_build_info gauge
gpu_topology_webhook_build_info{version="VERSION"} 1.0
# HELP gpu_topology_webhook_ready Whether reviews can be answered.
# TYPE gpu_topology_webhook_ready gauge
gpu_topology_webhook_ready 1.0
# HELP gpu_topology_webhook_draining Whether a stop has begun.
# TYPE gpu_topology_webhook_draining gauge
gpu_topology_webhook_draining 0.0
# HELP gpu_topology_certificate_expiry_timestamp_seconds When a certificate of the webhook ends, in seconds since 1970.
# TYPE gpu_topology_certificate_expiry_timestamp_seconds gauge
gpu_topology_certificate_expiry_timestamp_seconds{certificate="serving"} 1.7961696e+09
gpu_topology_certificate_expiry_timestamp_seconds{certificate="authority"} 2e+09
# HELP gpu_topology_certificate_failures_total Checks of the certificates of the webhook that failed; the log says why.
# TYPE gpu_topology_certificate_failures_total counter
gpu_topology_certificate_failures_total 5.0
# HELP gpu_topology_certificate_leader Whether this replica renews the certificates of all.
# TYPE gpu_topology_certificate_leader gauge
gpu_topology_certificate_leader 1.0
# HELP gpu_topology_connections Connections of clients by port.
# TYPE gpu_topology_connections gauge
gpu_topology_connections{port="reviews"} 3.0
# HELP gpu_topology_closed_connections_total Connections that the server ended before their client did.
# TYPE gpu_topology_closed_connections_total counter
gpu_topology_closed_connections_total{cause="request-late",port="ops"} 0.0
gpu_topology_closed_connections_total{cause="headers-late",port="reviews"} 1.0
# HELP gpu_topology_cluster_info 1; the labels name the versions of HAMi and Kubernetes, empty if unknown.
# TYPE gpu_topology_cluster_info gauge
gpu_topology_cluster_info{hami="2.9.0",kubernetes=""} 1.0
# HELP gpu_topology_cache_objects Objects of the cluster in memory.
# TYPE gpu_topology_cache_objects gauge
gpu_topology_cache_objects{cache="nodes"} 5000.0
gpu_topology_cache_objects{cache="leases"} 0.0
# HELP gpu_topology_cache_bytes Approximate bytes of the objects in memory.
# TYPE gpu_topology_cache_bytes gauge
gpu_topology_cache_bytes{cache="nodes"} 1.5e+07
gpu_topology_cache_bytes{cache="leases"} 0.0
# HELP gpu_topology_cache_left_out_total States of objects that were not kept because a cache was full.
# TYPE gpu_topology_cache_left_out_total counter
gpu_topology_cache_left_out_total{cache="nodes"} 7.0
gpu_topology_cache_left_out_total{cache="leases"} 0.0
# HELP gpu_topology_cache_shortened_total States of objects of which less was kept because there was no more room for \
those of their namespace.
# TYPE gpu_topology_cache_shortened_total counter
gpu_topology_cache_shortened_total{cache="nodes"} 0.0
gpu_topology_cache_shortened_total{cache="leases"} 0.0
# HELP gpu_topology_cache_age_seconds Seconds since a list or a message of the watch last confirmed a cache.
# TYPE gpu_topology_cache_age_seconds gauge
gpu_topology_cache_age_seconds{cache="nodes"} 12.5
# HELP gpu_topology_cache_filled Whether a cache has ever been complete.
# TYPE gpu_topology_cache_filled gauge
gpu_topology_cache_filled{cache="nodes"} 1.0
gpu_topology_cache_filled{cache="leases"} 0.0
# HELP gpu_topology_nodes Nodes by the age of the topology that their agent published.
# TYPE gpu_topology_nodes gauge
gpu_topology_nodes{topology="fresh"} 40.0
gpu_topology_nodes{topology="old"} 2.0
gpu_topology_nodes{topology="missing"} 0.0
# HELP gpu_topology_planner_alive Whether a planner renews its Lease, so that pods wait for it.
# TYPE gpu_topology_planner_alive gauge
gpu_topology_planner_alive 0.0
# HELP gpu_topology_gates_opened_total Pods that the webhook let go because no planner came for them.
# TYPE gpu_topology_gates_opened_total counter
gpu_topology_gates_opened_total{cause="planner-silent"} 2.0
gpu_topology_gates_opened_total{cause="placement-off"} 0.0
# HELP gpu_topology_unmatched_schedulers Accounts of HAMi's schedulers whose Bindings the webhook is not asked about.
# TYPE gpu_topology_unmatched_schedulers gauge
# HELP gpu_topology_webhook_api_errors_total Requests of the webhook to the API server that failed.
# TYPE gpu_topology_webhook_api_errors_total counter
gpu_topology_webhook_api_errors_total{kind="away",resource="nodes"} 3.0
gpu_topology_webhook_api_errors_total{kind="refused",resource="pods"} 1.0
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


VITALS = Vitals(
    ready=True,
    connections={"reviews": 3},
    closed={("ops", Closing.REQUEST_LATE): 0, ("reviews", Closing.HEADERS_LATE): 1},
    hami="2.9.0",
    certificate_ends=1_796_169_600.0,
    authority_ends=2_000_000_000.0,
    certificate_failures=5,
    certificate_leader=True,
    caches=(
        CacheReport(name="nodes", objects=5000, bytes=15_000_000, left_out=7, confirmed_seconds=12.5, filled=True),
        CacheReport(name="leases", objects=0, bytes=0, left_out=0, confirmed_seconds=None, filled=False),
    ),
    planner_alive=False,
    gates_opened={"planner-silent": 2},
    topologies=TopologyReport(fresh=40, old=2, missing=0),
    api_errors={("pods", "refused"): 1, ("nodes", "away"): 3},
)


def written(counts: Counts, vitals: Vitals) -> str:
    _, body = Exposition(lambda: families(counts, vitals)).answer("")
    return body.decode()


def test_everything_that_was_counted_is_written() -> None:
    counts = Counts(lambda: 3)
    for _ in range(2):
        counts.rejected[400] += 1
        counts.admitted(Outcome(kind=Kind.PATCH, reason=Reason.INJECTED, profile="exclusive"), seconds=0.0005)
    counts.admitted(Outcome(kind=Kind.SKIP, reason=Reason.NO_GPU_REQUEST), seconds=0.004)
    counts.bound(RESOLVED, seconds=0.001, waiting=0.0005)
    counts.bound(NOT_MET, seconds=8.0, waiting=0.5)
    counts.bound(NOT_A_BINDING, seconds=0.0005, waiting=0.0)
    counts.failed_reads["group"] += 4
    counts.limited_reads["namespace"] += 2
    counts.claims_read(seconds=0.004)
    counts.failed_claim_reads["claim"] += 1
    counts.slow["/mutate/bindings"] += 1
    assert written(counts, VITALS) == EVERYTHING.replace("VERSION", __version__)


def test_before_the_first_review_every_known_label_is_there_with_zero() -> None:
    text = written(Counts(lambda: 0), Vitals())
    assert 'gpu_topology_binding_links_total{link="NVSwitch"} 0.0' in text
    assert 'gpu_topology_binding_requirements_total{met="false"} 0.0' in text
    assert 'gpu_topology_binding_seconds_bucket{le="+Inf"} 0.0' in text
    assert 'gpu_topology_pod_read_failures_total{read="pod"} 0.0' in text
    assert "gpu_topology_events_lost_total 0.0" in text
    assert 'gpu_topology_rejected_requests_total{status="400"} 0.0' in text


def test_with_state_from_a_directory_nothing_is_said_of_caches_and_ages_of_topologies() -> None:
    lines = written(Counts(lambda: 0), Vitals()).splitlines()
    silent = ("gpu_topology_cache_", "gpu_topology_nodes", "gpu_topology_certificate_", "gpu_topology_webhook_api_")
    assert not [line for line in lines if line.startswith(silent)]
    assert 'gpu_topology_cluster_info{hami="",kubernetes=""} 1.0' in lines
    assert "gpu_topology_webhook_ready 0.0" in lines
