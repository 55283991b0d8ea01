"""The reviews with ``--state kubernetes``: what they answer before the cluster is known, and afterwards."""

import base64
import json
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api.api_server import ApiServer
from tests.decisions.test_detection import deployment
from tests.hardware.topology import machines
from tests.programs.called import called
from tests.programs.server.asgi import review
from tests.programs.server.conftest import RunningServer, StartServer, until
from tests.programs.server.live import (
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    NODES,
    OPTED_IN,
    OWN,
    TWO_GPUS,
    Cluster,
    LiveServer,
    StartLive,
    cluster,
    start_live,
)
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology

__all__ = ["cluster", "start_live"]

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"

pytestmark = pytest.mark.usefixtures("without_proxy")


def start(start_server: StartServer, cluster: Cluster) -> RunningServer:
    """The program itself, which listens but is not ready."""
    kubeconfig = ("--kubeconfig", str(cluster.kubeconfig), "--namespace", OWN)
    return start_server(*kubeconfig, state=Path("kubernetes"), config="server: {drainSeconds: 0}", ready=False)


def test_until_the_cluster_is_known_the_program_is_not_ready_and_gives_no_answer_and_it_stops_cleanly(
    start_server: StartServer, cluster: Cluster
) -> None:
    cluster.api.refuse = lambda target: 403 if target.startswith(NODES) else 0
    server = start(start_server, cluster)
    only_nodes = {"status": "waiting for nodes (list nodes: no (403))"}
    until(lambda: server.probe("/readyz").json() == only_nodes, "a refusal, and all else")
    assert server.probe("/readyz").status_code == 503
    with server.client() as client:
        refused = client.post("/mutate/pods", content=review(TWO_GPUS))
        assert (refused.status_code, refused.text) == (503, "waiting for nodes (list nodes: no (403))")
        assert server.probe("/healthz").status_code == 200
        cluster.do(lambda: setattr(cluster.api, "refuse", lambda _: 0))
        until(server.is_ready, "readiness")
        assert "patch" in client.post("/mutate/pods", content=review(TWO_GPUS)).json()["response"]
    cluster.do(lambda: setattr(cluster.api, "refuse", lambda _: 503))
    assert server.stop(signal.SIGTERM) == 0
    assert "Traceback" not in server.err.read_text()


def test_reviews_that_were_answered_go_on_with_what_was_known_while_the_api_server_refuses(
    start_live: StartLive, cluster: Cluster
) -> None:
    cluster.api.watch_seconds = 1.0  # an earlier end would be told as a failure, and what follows it not
    server = start_live()
    cluster.do(lambda: setattr(cluster.api, "refuse", lambda _: 503))
    until(lambda: any("no (503)" in text for text in server.said()), "a refusal")
    assert server.waiting_for == ""
    assert "patch" in server.ask().response
    unknown = server.ask("new")
    assert (unknown.status, unknown.body) == (503, b"get namespace new: no (503)")


def create_in_silence(api: ApiServer, name: str) -> None:
    """Nobody who watches is told: as if the watch were behind."""
    api.put(NAMESPACES, name, metadata=OPTED_IN)
    api.collection(NAMESPACES).history.clear()


def test_a_namespace_of_a_moment_ago_is_not_skipped(start_live: StartLive, cluster: Cluster) -> None:
    server = start_live()
    cluster.do(lambda: create_in_silence(cluster.api, "silent"))
    assert "patch" in server.ask("silent").response
    assert "patch" not in server.ask("gone").response
    assert server.lines("admission")[-1]["reason"] == "namespace-unknown"


def test_a_namespace_that_opts_in_is_followed(start_live: StartLive, cluster: Cluster) -> None:
    cluster.api.put(NAMESPACES, "team-b")
    server = start_live()
    assert "patch" not in server.ask("team-b").response
    cluster.do(lambda: cluster.api.put(NAMESPACES, "team-b", metadata=OPTED_IN))
    until(lambda: "patch" in server.ask("team-b").response, "the opt-in")


def test_the_versions_that_were_found_are_logged_once(start_live: StartLive) -> None:
    said = start_live().said()
    # On a machine that stands still for two seconds more is said: there was no answer, and there is one again.
    assert [said.count(text) for text in ("HAMi is 2.9.0", "Kubernetes is 1.33.2")] == [1, 1]


def test_configured_versions_are_not_looked_for(start_live: StartLive, cluster: Cluster) -> None:
    cluster.api.others = {}
    assert start_live('cluster: {hamiVersion: "2.10.0", kubernetesVersion: "1.33"}').said() == []


@pytest.mark.parametrize(
    ("more", "variables", "said"),
    [
        ((), {}, "expected a name, or the variable POD_NAMESPACE"),
        (("--namespace", OWN), {}, "expected to run as a pod with a service account"),
        ((), {"POD_NAMESPACE": OWN}, "Outside of a cluster give --kubeconfig FILE"),
    ],
)
def test_what_is_missing_to_reach_the_cluster_is_named(
    more: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    done = called("serve", "--self-signed", "--state", "kubernetes", *more, env=variables)
    assert done.code in (1, 2)
    assert said in " ".join(done.err.replace("│", " ").split())


@pytest.mark.parametrize("path", ["/apis/apps/v1/deployments", CLASSES])
def test_objects_of_others_that_are_too_long_to_read_do_not_keep_reviews_from_being_answered(
    start_live: StartLive, cluster: Cluster, path: str
) -> None:
    """Whoever may create Deployments may give them the label of HAMi's scheduler, and annotations of any length."""
    cluster.api.others[path] = {"items": [], "metadata": {"annotations": {"a": "x" * 5_000_000}}}
    server = start_live()
    assert any(text.endswith("expected an answer of at most 4194304 bytes, found more") for text in server.said())
    assert server.ask().response["allowed"] is True


@pytest.mark.parametrize(
    ("configured", "count", "told"),
    [
        ("system:serviceaccount:hami-system:hami-scheduler", ["1.0"], True),
        ("system:serviceaccount:kube-system:default", ["0.0"], False),
        (None, [], False),
    ],
    ids=["another", "the same", "no list"],
)
def test_a_scheduler_whose_bindings_do_not_reach_the_webhook_is_named_and_counted(
    start_live: StartLive, configured: str | None, count: list[str], told: bool
) -> None:
    server = start_live(f"binding: {{schedulers: ['{configured}']}}" if configured else "")
    assert [
        line.split()[1] for line in server.metrics() if line.startswith("gpu_topology_unmatched_schedulers")
    ] == count
    account = "system:serviceaccount:kube-system:default"
    said = f"Bindings by {account} do not reach the webhook: add them to admission.bindings.schedulers of the chart"
    assert (said in server.said()) == told


def resources(server: LiveServer) -> str:
    """What admission changes in the resources of the first container."""
    patch = json.loads(base64.b64decode(server.ask().response["patch"]))
    return json.dumps([one for one in patch if one["path"].startswith("/spec/containers/0/resources")])


def test_where_a_device_class_serves_the_count_a_pod_gets_no_cores(start_live: StartLive, cluster: Cluster) -> None:
    served = {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
    cluster.api.others[CLASSES] = {"items": [served]}
    server = start_live()
    assert "cores" not in resources(server)
    (said,) = [text for text in server.said() if "DeviceClasses" in text]
    assert said == "DeviceClasses serve nvidia.com/gpu: pods that request it get resource claims"


@pytest.mark.parametrize(
    ("served", "setting"),
    [
        (None, ""),
        ({"items": [{"metadata": {"name": "nic"}, "spec": {"extendedResourceName": "example.com/nic"}}]}, ""),
        ({"items": [{"metadata": {"name": "a"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}]}, "hami"),
        ({"items": 1}, ""),
    ],
    ids=["an API that is not served", "another resource", "a setting", "no list"],
)
def test_elsewhere_a_pod_gets_all_cores(
    start_live: StartLive, cluster: Cluster, served: dict[str, Any] | None, setting: str
) -> None:
    if served is not None:
        cluster.api.others[CLASSES] = served
    assert "cores" in resources(start_live(f"cluster: {{extendedResources: {setting}}}" if setting else ""))


NO_SCHEDULER: dict[str, Any] = {"items": []}
EIGHT = {"allocatable": {"nvidia.com/gpu": "8"}}


def left_alone(server: LiveServer) -> list[str] | None:
    """The warnings of a pod that gets no patch; ``None`` if it gets one."""
    response = server.ask().response
    return None if "patch" in response else response.get("warnings", [])


def test_where_a_plain_device_plugin_serves_the_gpus_pods_are_left_alone_until_hami_is_seen(
    start_live: StartLive, cluster: Cluster
) -> None:
    cluster.api.others |= {"/apis/apps/v1/deployments": NO_SCHEDULER, CLASSES: {"items": []}}
    cluster.api.put(NODES, "n1", status=EIGHT)
    server = start_live()
    assert left_alone(server) == ["GT181: no HAMi, Volcano or Koordinator serves the GPUs of this cluster"]
    annotated = {"annotations": {"hami.io/node-nvidia-register": "[]"}}
    cluster.do(lambda: cluster.api.put(NODES, "n2", metadata=annotated, status=EIGHT))
    until(lambda: left_alone(server) is None, "a node of HAMi")
    cluster.do(lambda: cluster.api.delete(NODES, "n2"))
    until(lambda: left_alone(server) is not None, "the node is gone")
    cluster.do(lambda: cluster.api.put(NODES, "n1", status={"allocatable": {"nvidia.com/gpu": "0"}}))
    until(lambda: left_alone(server) is None, "no node offers GPUs")


@pytest.mark.parametrize(
    ("deployments", "classes", "refused"),
    [
        ({"items": [deployment("projecthami/hami:v2.9.0")]}, {"items": []}, "none"),
        ({"items": [deployment("projecthami/hami:latest")]}, {"items": []}, "none"),
        (NO_SCHEDULER, {"items": [{"metadata": {"name": "hami-core-gpu.project-hami.io"}, "spec": {}}]}, "none"),
        (NO_SCHEDULER, {"items": []}, "deployments"),
        (NO_SCHEDULER, {"items": []}, "deviceclasses"),
        ({}, {"items": []}, "none"),
    ],
    ids=["a scheduler", "of unknown version", "HAMi's DRA driver", "unread", "classes unread", "no list"],
)
def test_where_hami_may_be_there_they_are_injected(
    start_live: StartLive, cluster: Cluster, deployments: Any, classes: Any, refused: str
) -> None:
    cluster.api.others |= {"/apis/apps/v1/deployments": deployments, CLASSES: classes}
    cluster.api.refuse = lambda target: 403 if f"/{refused}" in target else 0
    cluster.api.put(NODES, "n1", status=EIGHT)
    server = start_live()
    found = left_alone(server)
    assert found is None or not [warning for warning in found if warning.startswith("GT181")]


def publish(cluster: Cluster, topology: NodeTopology) -> None:
    """The agent of a node publishes its topology."""
    name = f"gpu-topology-{topology.node}"
    data = {"topology.json": format_topology(topology)}
    cluster.do(lambda: cluster.api.put(NODES, topology.node, status=EIGHT))
    cluster.do(lambda: cluster.api.put(CONFIG_MAPS, name, data=data))


def test_a_bandwidth_that_no_known_node_has_is_told_with_the_best_there_is(
    start_live: StartLive, cluster: Cluster
) -> None:
    publish(cluster, machines.hgx_a100())
    server = start_live()

    def told() -> list[str]:
        asking = TWO_GPUS | {"metadata": {"name": "train", "annotations": {"gpu.topology/min-bandwidth": "300"}}}
        warnings = server.ask(pod=asking).response.get("warnings", [])
        return [text for text in warnings if text.startswith("GT657")]

    said = "GT657: min-bandwidth 300 is met by no known node: the fastest pair has 240 GB/s, 600 in its datasheet"
    until(lambda: told() == [said], "the node is judged")
    publish(cluster, machines.hgx_h100())
    until(lambda: told() == [], "a faster node")


def lead(cluster: Cluster) -> None:
    """A planner renews its Lease now, for five minutes."""
    spec = {"holderIdentity": "p", "leaseDurationSeconds": 300, "renewTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    cluster.do(lambda: cluster.api.put(LEASES, "gpu-topology-place", spec=spec))


def is_held(server: LiveServer) -> bool:
    """Whether a new pod waits for the planner."""
    patch = json.loads(base64.b64decode(server.ask().response["patch"]))
    return any(operation["path"] == "/spec/schedulingGates" for operation in patch)


def test_pods_wait_while_a_planner_lives_and_no_longer(start_live: StartLive, cluster: Cluster) -> None:
    config = "placement: {mode: 'on'}\n"
    server = start_live(config)
    assert not is_held(server)
    lead(cluster)
    until(lambda: is_held(server), "the planner is seen")
    assert "gpu_topology_planner_alive 1.0" in server.metrics()
    cluster.do(lambda: cluster.api.delete(LEASES, "gpu-topology-place"))
    until(lambda: not is_held(server), "the planner is gone")


def test_a_planner_that_may_not_be_looked_for_is_none(start_live: StartLive, cluster: Cluster) -> None:
    cluster.api.refuse = lambda target: 403 if "gpu-topology-place" in target else 0
    lead(cluster)
    config = "placement: {mode: 'on'}\n"
    server = start_live(config)
    assert not is_held(server)
    assert "gpu_topology_planner_alive 0.0" in server.metrics()
    assert not [line for line in server.metrics() if 'kind="denied"' in line]


def test_where_placement_is_off_no_planner_is_looked_for(start_live: StartLive, cluster: Cluster) -> None:
    asked: list[str] = []

    def note(target: str) -> int:
        asked.append(target)
        return 0

    cluster.api.refuse = note
    lead(cluster)
    config = "placement: {mode: 'off'}\n"
    server = start_live(config)
    assert not is_held(server)
    assert not [target for target in asked if "gpu-topology-place" in target]
    assert not [line for line in server.metrics() if line.startswith("gpu_topology_planner_alive")]


CLAIMS_CONFIG = "claims: {enabled: true}\nbinding: {schedulers: ['system:serviceaccount:kube-system:default']}\n"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/ml-workloads/resourceclaimtemplates"


def claiming(template: str) -> bytes:
    spec = {
        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": template}],
        "containers": [{"name": "main", "resources": {"claims": [{"name": "gpus"}]}}],
    }
    return review({"metadata": {"name": "train"}, "spec": spec}, namespace="ml-workloads")


def claim_reads(server: LiveServer) -> float:
    (line,) = [line for line in server.metrics() if line.startswith("gpu_topology_claim_read_seconds_count")]
    return float(line.split()[-1])


def test_with_claims_the_server_is_not_ready_before_it_knows_the_slices(
    start_live: StartLive, cluster: Cluster
) -> None:
    cluster.api.collection(SLICES)
    cluster.api.refuse = lambda target: 403 if target.startswith(SLICES) else 0
    server = start_live(CLAIMS_CONFIG, ready=False)
    waiting = "resourceslices/gpu.nvidia.com, resourceslices/hami-core-gpu.project-hami.io "
    waiting += "(list resourceslices: no (403))"
    until(lambda: server.waiting_for == waiting, "a refusal, and all else")
    cluster.do(lambda: setattr(cluster.api, "refuse", lambda _: 0))
    until(lambda: not server.waiting_for, "readiness")


def test_a_cluster_without_claims_is_one_without_devices_and_that_is_said_once(
    start_live: StartLive, cluster: Cluster
) -> None:
    cluster.api.refuse = lambda target: 404 if target.startswith(SLICES) else 0
    server = start_live(CLAIMS_CONFIG)
    assert server.said().count("list resourceslices: the API server does not serve resource.k8s.io/v1") == 2
    metrics = server.metrics()
    assert 'gpu_topology_webhook_api_errors_total{kind="not-served",resource="resourceslices"} 2.0' in metrics


def test_what_a_pod_claims_is_asked_for_only_with_claims(start_live: StartLive, cluster: Cluster) -> None:
    cluster.api.collection(SLICES)
    cluster.api.put(TEMPLATES, "two", spec={"spec": {}})
    server = start_live(CLAIMS_CONFIG)
    assert server.post(claiming("two")).response["allowed"]
    assert claim_reads(server) == 1
    other = start_live()
    assert other.post(claiming("two")).response["allowed"]
    assert claim_reads(other) == 0


def test_with_claims_it_is_said_that_bindings_of_kube_scheduler_do_not_come(
    start_live: StartLive, cluster: Cluster
) -> None:
    cluster.api.collection(SLICES)
    server = start_live(CLAIMS_CONFIG)
    assert any(text.startswith("Bindings by system:kube-scheduler do not reach the webhook") for text in server.said())
    named = CLAIMS_CONFIG.replace("default'", "default', 'system:kube-scheduler'")
    server = start_live(named)
    assert not any("system:kube-scheduler" in text for text in server.said())
