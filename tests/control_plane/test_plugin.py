"""``kubectl gpu-topology`` with the real kubectl at a real API server."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import AppsV1Api, BatchV1Api

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.kubectl import Kubectl
from tests.control_plane.registration import created, gpu_pod
from tests.go_programs.catalogue import KUBECTL
from tests.go_programs.left_out import GetProgram

pytestmark = pytest.mark.cluster

LABELS = {"app": "train"}


@pytest.fixture
def kubectl(control_plane: ControlPlane, namespace: str, go_program: GetProgram, tmp_path: Path) -> Kubectl:
    """The administrator's, whose current context names the namespace of the test; another names none."""
    config: dict[str, Any] = yaml.safe_load(control_plane.kubeconfig.read_text())
    current = next(each for each in config["contexts"] if each["name"] == config["current-context"])
    config["contexts"] = [
        {"name": "mine", "context": current["context"] | {"namespace": namespace}},
        {"name": "elsewhere", "context": current["context"]},
    ]
    config["current-context"] = "mine"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    return Kubectl(go_program(KUBECTL), kubeconfig, tmp_path, plugins=Path(sys.executable).parent)


def explained(kubectl: Kubectl, *arguments: str) -> tuple[dict[str, Any], str]:
    """The report, and what was said besides."""
    done = kubectl("gpu-topology", "explain", *arguments, "-o", "json")
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report, done.stderr


def test_a_pod_is_looked_for_in_the_namespace_of_the_context(
    kubectl: Kubectl, control_plane: ControlPlane, namespace: str
) -> None:
    created(control_plane, namespace, gpu_pod("train", {}))
    assert explained(kubectl, "train")[0]["pod"] == f"{namespace}/train"
    assert explained(kubectl, "pod/train", "--context", "elsewhere", "-n", namespace)[0]["pod"] == f"{namespace}/train"
    nowhere = kubectl("gpu-topology", "explain", "train", "--context", "nowhere")
    assert nowhere.returncode == 1
    assert 'there is no context "nowhere"; the contexts there are: mine, elsewhere' in nowhere.stderr


@pytest.mark.long
def test_of_a_workload_the_newest_pod_is_explained_and_without_one_its_template(
    kubectl: Kubectl, control_plane: ControlPlane, namespace: str
) -> None:
    template = {"metadata": {"labels": LABELS}, "spec": gpu_pod("x", {})["spec"]}
    spec = {"selector": {"matchLabels": LABELS}, "template": template}
    job: Any = {
        "metadata": {"name": "once"},
        "spec": {"template": {"spec": template["spec"] | {"restartPolicy": "Never"}}},
    }
    with control_plane.client() as client:
        train: Any = {"metadata": {"name": "train"}, "spec": spec}
        AppsV1Api(client).create_namespaced_deployment(namespace, train)
        BatchV1Api(client).create_namespaced_job(namespace, job)
    report, said = explained(kubectl, "deploy/train")
    assert report["pod"] == f"{namespace}/train"
    assert said == f"gpu-topology: deployment {namespace}/train has no pod; what follows is about its template\n"
    for name, app in (("train-a", "train"), ("train-b", "train"), ("unrelated", "other")):
        created(control_plane, namespace, gpu_pod(name, {}, app=app))
    report, said = explained(kubectl, "deployment/train", "-n", namespace)
    assert report["pod"] == f"{namespace}/train-b"
    assert f"deployment {namespace}/train: the newest pod of 2 is train-b\n" in said
    assert "job " in explained(kubectl, "job/once")[1]
