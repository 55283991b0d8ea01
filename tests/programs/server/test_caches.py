"""The program with ``--state kubernetes``: what it answers before it knows the cluster, and afterwards."""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.cluster.api.api_server import ApiServer
from tests.cluster.api.stand_in import kubeconfig, serving
from tests.decisions.test_detection import deployment
from tests.programs.server.asgi import review
from tests.programs.server.conftest import RunningServer, StartServer, until

OWN = "gpu-topology"
NAMESPACES, NODES = "/api/v1/namespaces", "/api/v1/nodes"
CONFIG_MAPS = f"/api/v1/namespaces/{OWN}/configmaps"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
OPTED_IN = {"labels": {"gpu.topology/injection": "enabled"}}
CONFIG = "server: {drainSeconds: 0}\n"
TWO_GPUS = {
    "metadata": {"name": "train"},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
}

pytestmark = pytest.mark.usefixtures("without_proxy")


@dataclass
class Cluster:
    """An API server in a thread of its own, and a kubeconfig for it."""

    api: ApiServer
    loop: asyncio.AbstractEventLoop
    kubeconfig: Path

    def do(self, change: Any) -> None:
        """Change something, in the server's thread."""
        done = asyncio.run_coroutine_threadsafe(_call(change), self.loop)
        done.result(30)


async def _call(change: Any) -> None:
    change()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One namespace that opted in, and no nodes."""
    api = ApiServer(page=100)
    for path in (NAMESPACES, NODES, CONFIG_MAPS, LEASES):
        api.collection(path)
    api.put(NAMESPACES, "ml-workloads", metadata=OPTED_IN)
    api.others = {
        "/version": {"gitVersion": "v1.33.2"},
        "/apis/apps/v1/deployments": {"items": [deployment("projecthami/hami:v2.9.0")]},
    }
    started: dict[str, Any] = {}

    async def serve() -> None:
        async with serving(api.turn) as stand_in:
            started.update(port=stand_in.port, loop=asyncio.get_running_loop(), end=asyncio.Event())
            await started["end"].wait()

    thread = Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    until(lambda: "end" in started, "the API server")
    config = kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{started['port']}")
    yield Cluster(api, started["loop"], config)
    started["loop"].call_soon_threadsafe(started["end"].set)
    thread.join()


def options(cluster: Cluster) -> tuple[str, ...]:
    return "--kubeconfig", str(cluster.kubeconfig), "--namespace", OWN


def ask(server: RunningServer, namespace: str = "ml-workloads") -> httpx.Response:
    with server.client() as client:
        return client.post("/mutate/pods", content=review(TWO_GPUS, namespace=namespace))


def reason(server: RunningServer) -> Any:
    return str(server.lines("admission", "rejected")[-1]["reason"])


def test_until_the_cluster_is_known_reviews_get_no_answer_and_the_server_is_not_ready(
    start_server: StartServer, cluster: Cluster
) -> None:
    cluster.api.refuse = lambda target: 403 if target.startswith(NODES) else 0
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CONFIG, ready=False)
    only_nodes = {"status": "waiting for nodes (list nodes: no (403))"}
    until(lambda: server.probe("/readyz").json() == only_nodes, "a refusal, and all else")
    assert server.probe("/readyz").status_code == 503
    refused = ask(server)
    assert (refused.status_code, refused.text) == (503, "waiting for nodes (list nodes: no (403))")
    assert server.probe("/healthz").status_code == 200

    cluster.do(lambda: setattr(cluster.api, "refuse", lambda _: 0))
    until(server.is_ready, "readiness")
    assert "patch" in ask(server).json()["response"]
    assert "Traceback" not in server.err.read_text()


def test_a_server_that_was_ready_goes_on_with_what_it_knew_while_the_api_server_refuses(
    start_server: StartServer, cluster: Cluster
) -> None:
    cluster.api.watch_seconds = 1.0  # an earlier end would be told as a failure, and what follows it not
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CONFIG)
    cluster.do(lambda: setattr(cluster.api, "refuse", lambda _: 503))
    until(lambda: b"no (503)" in server.out.read_bytes(), "a refusal")
    assert server.is_ready()
    assert "patch" in ask(server).json()["response"]
    unknown = ask(server, "new")
    assert (unknown.status_code, unknown.text) == (503, "get namespace new: no (503)")


def create_in_silence(api: ApiServer, name: str) -> None:
    """Nobody who watches is told: as if the watch were behind."""
    api.put(NAMESPACES, name, metadata=OPTED_IN)
    api.collection(NAMESPACES).history.clear()


def test_a_namespace_of_a_moment_ago_is_not_skipped(start_server: StartServer, cluster: Cluster) -> None:
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CONFIG)
    cluster.do(lambda: create_in_silence(cluster.api, "silent"))
    assert "patch" in ask(server, "silent").json()["response"]
    assert "patch" not in ask(server, "gone").json()["response"]
    until(lambda: reason(server) == "namespace-unknown", "the last line")


def test_a_namespace_that_opts_in_is_followed(start_server: StartServer, cluster: Cluster) -> None:
    cluster.api.put(NAMESPACES, "team-b")
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CONFIG)
    assert "patch" not in ask(server, "team-b").json()["response"]
    cluster.do(lambda: cluster.api.put(NAMESPACES, "team-b", metadata=OPTED_IN))
    until(lambda: "patch" in ask(server, "team-b").json()["response"], "the opt-in")


def test_the_versions_that_were_found_are_logged_once(start_server: StartServer, cluster: Cluster) -> None:
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CONFIG)
    lines = [line["text"] for line in server.lines("state")]
    # On a machine that stands still for two seconds more is said: there was no answer, and there is one again.
    assert [lines.count(text) for text in ("HAMi is 2.9.0", "Kubernetes is 1.33.2")] == [1, 1]


def test_configured_versions_are_not_looked_for(start_server: StartServer, cluster: Cluster) -> None:
    cluster.api.others = {}
    config = CONFIG + 'cluster: {hamiVersion: "2.10.0", kubernetesVersion: "1.33"}\n'
    server = start_server(*options(cluster), state=Path("kubernetes"), config=config)
    assert server.lines("state", "bug") == []


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
    command = [sys.executable, "-m", "webhook", "serve", "--self-signed", "--state", "kubernetes", *more]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KUBERNETES_", "POD_"))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=clean | variables)
    assert done.returncode in (1, 2)
    assert said in " ".join(done.stderr.replace("│", " ").split())


def test_it_stops_cleanly_while_the_api_server_is_away(start_server: StartServer, cluster: Cluster) -> None:
    cluster.api.refuse = lambda _: 503
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CONFIG, ready=False)
    until(lambda: b"no (503)" in server.out.read_bytes(), "a refusal")
    assert server.stop(signal.SIGTERM) == 0
    assert "Traceback" not in server.err.read_text()


@pytest.mark.parametrize("path", ["/apis/apps/v1/deployments", CLASSES])
def test_objects_of_others_that_are_too_long_to_read_do_not_keep_it_from_being_ready(
    start_server: StartServer, cluster: Cluster, path: str
) -> None:
    """Whoever may create Deployments may give them the label of HAMi's scheduler, and annotations of any length."""
    cluster.api.others[path] = {"items": [], "metadata": {"annotations": {"a": "x" * 5_000_000}}}
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CONFIG)
    said = [str(line["text"]) for line in server.lines("state")]
    assert any(text.endswith("expected an answer of at most 4194304 bytes, found more") for text in said)
    assert ask(server).json()["response"]["allowed"] is True


def unmatched(server: RunningServer) -> list[str]:
    return [line for line in server.probe("/metrics").text.splitlines() if line.startswith("gpu_topology_unmatched")]


def test_a_scheduler_whose_bindings_do_not_reach_the_webhook_is_named_and_counted(
    start_server: StartServer, cluster: Cluster
) -> None:
    matched = CONFIG + "binding: {schedulers: ['system:serviceaccount:hami-system:hami-scheduler']}\n"
    server = start_server(*options(cluster), state=Path("kubernetes"), config=matched)
    assert unmatched(server) == ["gpu_topology_unmatched_schedulers 1.0"]
    said = [str(line["text"]) for line in server.lines("state")]
    account = "system:serviceaccount:kube-system:default"
    assert (
        f"Bindings by {account} do not reach the webhook: add them to admission.bindings.schedulers of the chart"
        in said
    )


def test_a_scheduler_that_is_matched_is_not_reported(start_server: StartServer, cluster: Cluster) -> None:
    matched = CONFIG + "binding: {schedulers: ['system:serviceaccount:kube-system:default']}\n"
    server = start_server(*options(cluster), state=Path("kubernetes"), config=matched)
    assert unmatched(server) == ["gpu_topology_unmatched_schedulers 0.0"]
    assert not [line for line in server.lines("state") if "Bindings" in str(line["text"])]


def test_without_the_list_nothing_is_said_of_schedulers(start_server: StartServer, cluster: Cluster) -> None:
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CONFIG)
    assert unmatched(server) == []


def resources(server: RunningServer) -> str:
    """What admission changes in the resources of the first container."""
    patch = json.loads(base64.b64decode(ask(server).json()["response"]["patch"]))
    return json.dumps([one for one in patch if one["path"].startswith("/spec/containers/0/resources")])


def test_where_a_device_class_serves_the_count_a_pod_gets_no_cores(start_server: StartServer, cluster: Cluster) -> None:
    served = {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
    cluster.api.others[CLASSES] = {"items": [served]}
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CONFIG)
    assert "cores" not in resources(server)
    (said,) = [line["text"] for line in server.lines("state") if "DeviceClasses" in str(line["text"])]
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
    start_server: StartServer, cluster: Cluster, served: dict[str, Any] | None, setting: str
) -> None:
    if served is not None:
        cluster.api.others[CLASSES] = served
    config = CONFIG + (f"cluster: {{extendedResources: {setting}}}\n" if setting else "")
    server = start_server(*options(cluster), state=Path("kubernetes"), config=config)
    assert "cores" in resources(server)


NO_SCHEDULER: dict[str, Any] = {"items": []}
EIGHT = {"allocatable": {"nvidia.com/gpu": "8"}}


def left_alone(server: RunningServer) -> list[str] | None:
    """The warnings of a pod that gets no patch; ``None`` if it gets one."""
    response = ask(server).json()["response"]
    return None if "patch" in response else response.get("warnings", [])


def test_where_a_plain_device_plugin_serves_the_gpus_pods_are_left_alone_until_hami_is_seen(
    start_server: StartServer, cluster: Cluster
) -> None:
    cluster.api.others |= {"/apis/apps/v1/deployments": NO_SCHEDULER, CLASSES: {"items": []}}
    cluster.api.put(NODES, "n1", status=EIGHT)
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CONFIG)
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
    start_server: StartServer, cluster: Cluster, deployments: Any, classes: Any, refused: str
) -> None:
    cluster.api.others |= {"/apis/apps/v1/deployments": deployments, CLASSES: classes}
    cluster.api.refuse = lambda target: 403 if f"/{refused}" in target else 0
    cluster.api.put(NODES, "n1", status=EIGHT)
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CONFIG)
    found = left_alone(server)
    assert found is None or not [warning for warning in found if warning.startswith("GT181")]


def lead(cluster: Cluster) -> None:
    """A planner renews its Lease now, for five minutes."""
    spec = {"holderIdentity": "p", "leaseDurationSeconds": 300, "renewTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    cluster.do(lambda: cluster.api.put(LEASES, "gpu-topology-place", spec=spec))


def is_held(server: RunningServer) -> bool:
    """Whether a new pod waits for the planner."""
    patch = json.loads(base64.b64decode(ask(server).json()["response"]["patch"]))
    return any(operation["path"] == "/spec/schedulingGates" for operation in patch)


def test_pods_wait_while_a_planner_lives_and_no_longer(start_server: StartServer, cluster: Cluster) -> None:
    config = CONFIG + "placement: {mode: 'on'}\n"
    server = start_server(*options(cluster), state=Path("kubernetes"), config=config)
    assert not is_held(server)
    lead(cluster)
    until(lambda: is_held(server), "the planner is seen")
    assert "gpu_topology_planner_alive 1.0" in server.probe("/metrics").text
    cluster.do(lambda: cluster.api.delete(LEASES, "gpu-topology-place"))
    until(lambda: not is_held(server), "the planner is gone")


def test_a_planner_that_may_not_be_looked_for_is_none(start_server: StartServer, cluster: Cluster) -> None:
    cluster.api.refuse = lambda target: 403 if "gpu-topology-place" in target else 0
    lead(cluster)
    config = CONFIG + "placement: {mode: 'on'}\n"
    server = start_server(*options(cluster), state=Path("kubernetes"), config=config)
    assert not is_held(server)
    assert "gpu_topology_planner_alive 0.0" in server.probe("/metrics").text
    assert 'kind="denied"' not in server.probe("/metrics").text
    assert server.is_ready()


def test_where_placement_is_off_no_planner_is_looked_for(start_server: StartServer, cluster: Cluster) -> None:
    asked: list[str] = []

    def note(target: str) -> int:
        asked.append(target)
        return 0

    cluster.api.refuse = note
    lead(cluster)
    config = CONFIG + "placement: {mode: 'off'}\n"
    server = start_server(*options(cluster), state=Path("kubernetes"), config=config)
    assert not is_held(server)
    assert not [target for target in asked if "gpu-topology-place" in target]
    assert "\ngpu_topology_planner_alive" not in server.probe("/metrics").text


CLAIMS_CONFIG = (
    CONFIG + "claims: {enabled: true}\nbinding: {schedulers: ['system:serviceaccount:kube-system:default']}\n"
)
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/ml-workloads/resourceclaimtemplates"


def claiming(template: str) -> bytes:
    spec = {
        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": template}],
        "containers": [{"name": "main", "resources": {"claims": [{"name": "gpus"}]}}],
    }
    return review({"metadata": {"name": "train"}, "spec": spec}, namespace="ml-workloads")


def claim_reads(server: RunningServer) -> float:
    (line,) = [
        line
        for line in server.probe("/metrics").text.splitlines()
        if line.startswith("gpu_topology_claim_read_seconds_count")
    ]
    return float(line.split()[-1])


def test_with_claims_the_server_is_not_ready_before_it_knows_the_slices(
    start_server: StartServer, cluster: Cluster
) -> None:
    cluster.api.collection(SLICES)
    cluster.api.refuse = lambda target: 403 if target.startswith(SLICES) else 0
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CLAIMS_CONFIG, ready=False)
    waiting = "waiting for resourceslices/gpu.nvidia.com, resourceslices/hami-core-gpu.project-hami.io "
    waiting += "(list resourceslices: no (403))"
    until(lambda: server.probe("/readyz").json() == {"status": waiting}, "a refusal, and all else")
    cluster.do(lambda: setattr(cluster.api, "refuse", lambda _: 0))
    until(server.is_ready, "readiness")


def test_a_cluster_without_claims_is_one_without_devices_and_that_is_said_once(
    start_server: StartServer, cluster: Cluster
) -> None:
    cluster.api.refuse = lambda target: 404 if target.startswith(SLICES) else 0
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CLAIMS_CONFIG)
    said = [str(line["text"]) for line in server.lines("state")]
    assert said.count("list resourceslices: the API server does not serve resource.k8s.io/v1") == 2
    metrics = server.probe("/metrics").text
    assert 'gpu_topology_webhook_api_errors_total{kind="not-served",resource="resourceslices"} 2.0' in metrics


def test_what_a_pod_claims_is_asked_for_only_with_claims(start_server: StartServer, cluster: Cluster) -> None:
    cluster.api.collection(SLICES)
    cluster.api.put(TEMPLATES, "two", spec={"spec": {}})
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CLAIMS_CONFIG)
    with server.client() as client:
        assert client.post("/mutate/pods", content=claiming("two")).json()["response"]["allowed"]
    assert claim_reads(server) == 1
    other = start_server(*options(cluster), state=Path("kubernetes"), config=CONFIG)
    with other.client() as client:
        assert client.post("/mutate/pods", content=claiming("two")).json()["response"]["allowed"]
    assert claim_reads(other) == 0


def test_with_claims_it_is_said_that_bindings_of_kube_scheduler_do_not_come(
    start_server: StartServer, cluster: Cluster
) -> None:
    cluster.api.collection(SLICES)
    server = start_server(*options(cluster), state=Path("kubernetes"), config=CLAIMS_CONFIG)
    said = [str(line["text"]) for line in server.lines("state")]
    assert any(text.startswith("Bindings by system:kube-scheduler do not reach the webhook") for text in said)
    named = CLAIMS_CONFIG.replace("default'", "default', 'system:kube-scheduler'")
    server = start_server(*options(cluster), state=Path("kubernetes"), config=named)
    said = [str(line["text"]) for line in server.lines("state")]
    assert not any("system:kube-scheduler" in text for text in said)
