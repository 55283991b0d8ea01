"""Rules of the API server and of kubectl that our code takes for granted (``tests/facts/kubernetes.toml``)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiException, CoreV1Api, PolicyV1Api

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.kubectl import Kubectl
from tests.control_plane.registration import created, gpu_pod
from tests.go_programs.catalogue import KUBECTL
from tests.go_programs.left_out import GetProgram
from webhook.cluster.files.manifests import read_files

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

LABELS = {"app": "train"}


@pytest.fixture
def running(admin: CoreV1Api, control_plane: ControlPlane, namespace: str) -> str:
    """A pod that runs, as the kubelet reports it. One that does not may always be evicted."""
    created(control_plane, namespace, gpu_pod("train", {}, **LABELS))
    body: Any = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    admin.patch_namespaced_pod_status("train", namespace, body)
    return "train"


@contextmanager
def budgets(admin: CoreV1Api, namespace: str, *allowed: int) -> Iterator[None]:
    """A budget for each number, which it allows to be disrupted, as kube-controller-manager reckons."""
    api = PolicyV1Api(admin.api_client)
    for number, disruptions in enumerate(allowed):
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}
        body: Any = {"metadata": {"name": f"budget-{number}"}, "spec": spec}
        api.create_namespaced_pod_disruption_budget(namespace, body)
        counted = {"disruptionsAllowed": disruptions, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        status: Any = {"status": counted | {"observedGeneration": 1}}
        api.patch_namespaced_pod_disruption_budget_status(f"budget-{number}", namespace, status)
    yield
    for number in range(len(allowed)):
        api.delete_namespaced_pod_disruption_budget(f"budget-{number}", namespace)


def evicted(admin: CoreV1Api, namespace: str, name: str) -> tuple[int, str]:
    """The API server's answer to a dry run of an eviction."""
    body: Any = {"metadata": {"name": name}, "deleteOptions": {"dryRun": ["All"]}}
    try:
        admin.create_namespaced_pod_eviction(name, namespace, body)
    except ApiException as error:
        return int(error.status or 0), str(json.loads(error.body or "{}").get("message"))
    return 201, ""


@pytest.mark.parametrize(
    ("allowed", "status", "said"),
    [
        ((), 201, ""),
        ((1,), 201, ""),
        ((0,), 429, "disruption budget"),
        ((1, 1), 500, "more than one PodDisruptionBudget"),
    ],
)
def test_a_budget_keeps_a_pod_from_eviction_and_several_keep_it_always(
    admin: CoreV1Api, namespace: str, running: str, allowed: tuple[int, ...], status: int, said: str
) -> None:
    with budgets(admin, namespace, *allowed):
        found, text = evicted(admin, namespace, running)
    assert (found, said in text) == (status, True), text


def test_the_items_of_a_list_have_no_kind_of_their_own(admin: CoreV1Api, namespace: str, running: str) -> None:
    answer: Any = admin.list_namespaced_pod(namespace, _preload_content=False)
    found = json.loads(answer.data)
    (item,) = found["items"]
    assert (found["kind"], item["metadata"]["name"], item.keys() & {"kind", "apiVersion"}) == (
        "PodList",
        running,
        set(),
    )


def test_server_side_apply_refuses_a_field_of_another_manager(admin: CoreV1Api, namespace: str) -> None:
    def applied(manager: str, gpus: str) -> None:
        body: Any = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "topology"}, "data": {"gpus": gpus}}
        kind = "application/apply-patch+yaml"
        admin.patch_namespaced_config_map(
            "topology", namespace, body, field_manager=manager, force=False, _content_type=kind
        )

    applied("agent", "8")
    with pytest.raises(ApiException, match=r"conflict with \\\"agent\\\"") as refused:
        applied("person", "4")
    assert refused.value.status == 409


def test_kubectl_reads_the_files_of_a_directory_in_our_order(
    control_plane: ControlPlane, namespace: str, go_program: GetProgram, tmp_path: Path
) -> None:
    folder = tmp_path / "manifests"
    (folder / "below").mkdir(parents=True)
    for name in ("b.yaml", "a.json", "C.yml", "d.txt", "below/e.yaml", "b-2.yaml"):
        metadata = {"name": name.partition(".")[0].replace("/", "-").lower()}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        (folder / name).write_text(json.dumps(manifest), encoding="utf-8")
    kubectl = Kubectl(go_program(KUBECTL), control_plane.kubeconfig, tmp_path)
    for options in ([], ["-R"]):
        done = kubectl("create", "--dry-run=client", "-o", "name", "-n", namespace, "-f", str(folder), *options)
        files = read_files([str(folder)], recursive=bool(options))
        ours = [json.loads(file.text)["metadata"]["name"] for file in files]
        assert len(ours) == 4 + len(options)
        assert [line.removeprefix("configmap/") for line in done.stdout.split()] == ours, done.stderr
