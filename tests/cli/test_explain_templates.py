"""``gpu-topology explain -f``: a workload is explained by its template, before there is a pod."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import gpu_topology
from tests.pods import container, pod

Manifest = dict[str, Any]


def template(*containers: Manifest, **spec: Any) -> Manifest:
    """The template of a pod with these containers."""
    return {"spec": pod(*containers, **spec)["spec"]}


def workload(kind: str, spec: Manifest, **metadata: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "train", "namespace": "team-a"} | metadata,
        "spec": spec,
    }


def ray(*groups: Manifest) -> Manifest:
    head = {"template": template(container("head", gpus=None))}
    return {"rayClusterSpec": {"headGroupSpec": head, "workerGroupSpecs": list(groups)}}


SHAPES = {
    "Job": {"template": template()},
    "CronJob": {"jobTemplate": {"spec": {"template": template()}}},
}
UNLIKE = {
    "pytorchReplicaSpecs": {"Master": {"template": template()}, "Worker": {"template": template(container(gpus=4))}}
}


def write(path: Path, *documents: Any) -> Path:
    path.write_text(yaml.safe_dump_all(documents))
    return path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A cluster with the namespaces team-a, which has opted in, and team-b, which has not."""
    root = tmp_path / "state"
    (root / "namespaces").mkdir(parents=True)
    labels = {"gpu.topology/injection": "enabled"}
    first = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}}
    second = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}}
    write(root / "namespaces" / "all.yaml", first, second)
    (root / "cluster.yaml").write_text('hamiVersion: "2.10.0"\nkubernetesVersion: "1.34"\n')
    return root


@pytest.mark.parametrize("kind", SHAPES)
def test_a_workload_is_explained_as_the_webhook_would_prepare_its_pods(tmp_path: Path, state: Path, kind: str) -> None:
    file = write(tmp_path / "train.yaml", workload(kind, SHAPES[kind]))
    done = gpu_topology("explain", "-v", "-f", file, "--state", state)
    note = "what follows is about its template, as the webhook would prepare it"
    assert (done.code, done.err) == (3, f"gpu-topology: {file}: {kind} team-a/train: {note}\n")
    assert done.out.startswith("NVLink: unknown, pod team-a/train without a node: ")
    assert "ok   injected: the containers are prepared for profile exclusive" in done.out


def test_without_a_state_directory_the_namespace_is_open(tmp_path: Path) -> None:
    file = write(tmp_path / "train.yaml", workload("Job", SHAPES["Job"]))
    done = gpu_topology("explain", "-v", "-f", file)
    assert done.err.endswith("its template, as the webhook would prepare it, if the namespace has opted in\n")
    assert "?    opted-in: the namespace is not known here" in done.out


def test_the_namespace_of_a_manifest_without_one_is_that_of_the_option(tmp_path: Path, state: Path) -> None:
    job = workload("Job", SHAPES["Job"])
    del job["metadata"]["namespace"]
    file = write(tmp_path / "train.yaml", job)
    chosen = gpu_topology("explain", "-v", "-f", file, "--state", state, "-n", "team-a")
    assert chosen.out.startswith("NVLink: unknown, pod team-a/train without a node: ")
    assert gpu_topology("explain", "-v", "-f", file).out.startswith(
        "NVLink: unknown, pod default/train without a node: "
    )
    bare = pod()
    del bare["metadata"]["namespace"]
    of_pod = gpu_topology("explain", "-v", "-f", write(tmp_path / "pod.yaml", bare), "-n", "team-b", "--state", state)
    assert of_pod.out.startswith("NVLink: unknown, pod team-b/train without a node: ")


def test_of_several_templates_the_one_with_gpus_is_meant(tmp_path: Path) -> None:
    group = {"groupName": "gpu", "template": template()}
    file = write(tmp_path / "train.yaml", workload("RayJob", ray(group)))
    done = gpu_topology("explain", "-v", "-f", file)
    assert done.err == (
        f"gpu-topology: {file}: RayJob team-a/train: what follows is about its template gpu "
        "(/spec/rayClusterSpec/workerGroupSpecs/0/template), the only one that requests GPUs, as the webhook would "
        "prepare it, if the namespace has opted in\n"
    )
    assert done.out.startswith("NVLink: unknown, pod team-a/train-gpu without a node: ")


def test_of_templates_that_differ_one_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "train.yaml", workload("PyTorchJob", UNLIKE))
    unnamed = gpu_topology("explain", "-v", "-f", file)
    assert (unnamed.code, unnamed.out) == (1, "")
    assert unnamed.err == (
        f'gpu-topology: {file}: expected one Pod, found "team-a/train-master, team-a/train-worker". '
        "Name one: NAMESPACE/POD\n"
    )
    named = gpu_topology("explain", "-v", "-f", file, "team-a/train-worker", "-o", "json")
    assert json.loads(named.out)["pod"] == "team-a/train-worker"
    assert "container train asks for 4 whole GPUs" in named.out
    assert "the only one" not in named.err


def test_a_kind_of_a_file_is_named_though_no_api_server_is_asked_for_it(tmp_path: Path) -> None:
    group = {"groupName": "gpu", "template": template()}
    file = write(tmp_path / "all.yaml", workload("RayJob", ray(group)), workload("Job", SHAPES["Job"]))
    assert gpu_topology("explain", "-v", "-f", file, "rayjob/train").out.startswith(
        "NVLink: unknown, pod team-a/train-gpu without a node: "
    )
    assert gpu_topology("explain", "-v", "-f", file, "job/train").out.startswith(
        "NVLink: unknown, pod team-a/train without a node: "
    )


def test_a_workload_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    file = write(tmp_path / "train.yaml", workload("Job", SHAPES["Job"]))
    done = gpu_topology("explain", "-v", "-f", file, "deploy/train")
    there = "there is no deployment train; the workloads there are Job team-a/train"
    assert (done.code, done.err) == (1, f"gpu-topology: {file}: {there}\n")


def test_a_pod_comes_before_the_template_that_made_it(tmp_path: Path) -> None:
    made = pod(container(gpus=4))
    done = gpu_topology("explain", "-v", "-f", write(tmp_path / "all.yaml", workload("Job", SHAPES["Job"]), made))
    note = "what follows is about the pod, as the webhook would prepare it, if the namespace has opted in\n"
    assert done.err.endswith(f"Pod team-a/train: {note}")
    assert "container train asks for 4 whole GPUs" in done.out


def test_a_pod_that_has_a_node_exists_and_is_explained_as_it_is(tmp_path: Path) -> None:
    pasted = pod(nodeName="n")
    done = gpu_topology("explain", "-v", "-f", write(tmp_path / "pod.yaml", pasted))
    assert done.err == ""
    assert "-    injected: no sign of the webhook in this input" in done.out
    bare = gpu_topology("explain", "-v", "-f", write(tmp_path / "pod.yaml", pod()))
    assert "ok   injected: the containers are prepared for profile exclusive" in bare.out
