"""``gpu-topology namespace`` on files: what it prints, and how it ends."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cli.command import ROOT, gpu_topology

STATE = ROOT / "examples" / "state"
MANIFESTS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: train}
spec:
  template:
    spec:
      containers:
      - {name: main, resources: {limits: {nvidia.com/gpu: 2}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: elsewhere, namespace: other}
spec:
  template:
    spec:
      containers:
      - {name: main, resources: {limits: {nvidia.com/gpu: 2}}}
"""
VERSIONS = ("--hami-version", "2.9.0", "--kubernetes-version", "1.33")
OPTED_IN = "the webhook treats its pods as its options say; without any, those with two or more whole cards"


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    path = tmp_path / "all.yaml"
    path.write_text(MANIFESTS)
    return path


def test_a_namespace_is_shown_with_what_its_pods_get(manifests: Path) -> None:
    done = gpu_topology("namespace", "video", "--state", STATE, "-f", manifests)
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "# Namespace video has opted in.\n"
        "#   label pod-security.kubernetes.io/enforce=baseline: Kubernetes admits the pods that fit this Pod Security"
        " level\n"
        f"#   label gpu.topology/injection=enabled: {OPTED_IN}\n"
        "\n"
        "# New pods of its 1 workload with GPUs:\n"
        "#   Deployment train\n"
        "#     injected with profile exclusive\n"
        "#       to give it whole cards, switch HAMi's CUDA interception off, give it"
        " enough shared memory, set NCCL up for the links between its GPUs, verify the GPUs and write the NCCL topology"
        " file when it starts\n"
    )


def test_a_namespace_that_has_not_opted_in_leads_to_the_opt_in(manifests: Path) -> None:
    done = gpu_topology("namespace", "sandbox", "--state", STATE, "-f", manifests)
    assert "#     left as they are: The namespace has not opted in.\n" in done.out
    assert done.out.endswith("# What they would get: gpu-topology namespace sandbox --opt-in\n")
    assert "kubectl" not in done.out


def test_with_options_the_lines_are_printed_with_what_would_change(manifests: Path) -> None:
    done = gpu_topology("namespace", "sandbox", "--state", STATE, "-f", manifests, "--observe", "--require-nvlink")
    assert (done.code, done.err) == (0, "")
    assert done.out.split("\n\n")[1] == (
        "# To change it:\n"
        "#   gpu.topology/profile=observe: its pods are left as they are; warnings and metrics say what would change\n"
        "#   gpu.topology/require-nvlink=true: every pair of cards of a pod must have NVLink\n"
        "kubectl annotate namespace sandbox gpu.topology/profile=observe gpu.topology/require-nvlink=true\n"
        f"#   gpu.topology/injection=enabled: {OPTED_IN}\n"
        "kubectl label namespace sandbox gpu.topology/injection=enabled"
    )
    assert "#     now:  left as they are: The namespace has not opted in.\n" in done.out
    assert "#     then: observed: the warnings say what profile exclusive would do\n" in done.out
    assert "#       warning: GT113: observe: profile exclusive would give it whole cards\n" in done.out


def test_the_way_back_of_a_change_and_the_way_out_of_all() -> None:
    changed = gpu_topology("namespace", "inference", "--state", STATE, "--shm-size", "1Gi", "--place", "off", "--undo")
    assert [line for line in changed.out.splitlines() if not line.startswith("#")] == [
        "",
        "kubectl annotate namespace inference gpu.topology/place- gpu.topology/shm-size=16Gi --overwrite",
    ]
    out = gpu_topology("namespace", "inference", "--state", STATE, "--undo")
    assert [line for line in out.out.splitlines() if line and not line.startswith("#")] == [
        (
            "kubectl label namespace inference gpu.topology/injection- gpu.topology/allow-node-gpus-"
            " gpu.topology/allow-host-pid- gpu.topology/allow-host-ipc-"
        ),
        "kubectl annotate namespace inference gpu.topology/shm-size-",
    ]


def test_what_the_namespace_has_is_no_change() -> None:
    done = gpu_topology("namespace", "inference", "--state", STATE, "--shm-size", "16Gi")
    assert "# The namespace has all of this: there is nothing to change.\n" in done.out
    assert "\nkubectl" not in done.out


def test_a_workload_that_would_be_refused_is_counted(manifests: Path) -> None:
    done = gpu_topology(
        *("namespace", "inference", "--state", STATE, "-f", manifests),
        *("--profile", "node-peers", "--unset", "allow-host-ipc"),
    )
    assert "# New pods of its 1 workload with GPUs, of which 1 would be refused afterwards:\n" in done.out
    assert "#     then: refused: GT124: " in done.out


def test_a_namespace_of_no_file_counts_as_new(manifests: Path) -> None:
    done = gpu_topology("namespace", "fresh", "-f", manifests, "--opt-in", *VERSIONS)
    assert done.code == 0
    assert done.err == (
        "note: namespace fresh is not in these files: it counts as new, without labels and annotations\n"
    )
    assert "\nkubectl label namespace fresh gpu.topology/injection=enabled\n" in done.out


def test_what_depends_on_versions_that_are_not_known_is_told(manifests: Path) -> None:
    done = gpu_topology("namespace", "fresh", "-f", manifests, "--opt-in")
    assert "note: the versions of HAMi and Kubernetes are not known here" in done.err
    assert "verify the GPUs" not in done.out
    known = gpu_topology("namespace", "fresh", "-f", manifests, "--opt-in", *VERSIONS)
    assert "versions" not in known.err
    assert "verify the GPUs" in known.out
    left_alone = gpu_topology("namespace", "fresh", "-f", manifests)
    assert "versions" not in left_alone.err


def test_the_json_has_changes_commands_and_the_outcomes(manifests: Path) -> None:
    done = gpu_topology("namespace", "sandbox", "--state", STATE, "-f", manifests, "--no-inject", "-o", "json")
    found = json.loads(done.out)
    assert (found["namespace"], found["optedIn"], found["settings"]) == ("sandbox", False, [])
    assert found["changes"][0] == {
        "field": "annotation",
        "key": "gpu.topology/inject",
        "before": None,
        "after": "false",
        "meaning": "its pods are left alone, except those that ask for injection themselves",
    }
    assert found["commands"] == [
        "kubectl annotate namespace sandbox gpu.topology/inject=false",
        "kubectl label namespace sandbox gpu.topology/injection=enabled",
    ]
    assert found["wayBack"] == [
        "kubectl label namespace sandbox gpu.topology/injection-",
        "kubectl annotate namespace sandbox gpu.topology/inject-",
    ]
    (workload,) = found["workloads"]
    assert (workload["workload"], workload["pods"]) == ("Deployment train", 0)
    assert (workload["now"]["reason"], workload["then"]["reason"]) == ("namespace-not-enabled", "not-requested")


def test_an_option_on_a_workload_that_its_pods_lack_is_told(manifests: Path) -> None:
    document = next(yaml.safe_load_all(manifests.read_text()))
    document["metadata"]["annotations"] = {"gpu.topology/inject": "true"}
    manifests.write_text(yaml.safe_dump(document))
    arguments = ("namespace", "sandbox", "--state", STATE, "-f", manifests)
    said = "GT183: annotation gpu.topology/inject has no effect at /metadata/annotations: the webhook reads the pod's"
    told = f"#     warning: {said}. Write it at /spec/template/metadata/annotations"
    assert told in gpu_topology(*arguments).out.splitlines()
    (workload,) = json.loads(gpu_topology(*arguments, "-o", "json").out)["workloads"]
    assert workload["misplaced"] == [said]
    document["spec"]["template"]["metadata"] = {"annotations": {"gpu.topology/inject": "true"}}
    manifests.write_text(yaml.safe_dump(document))
    assert "GT183" not in gpu_topology(*arguments).out


def test_hostile_values_are_quoted_and_the_output_is_a_script(tmp_path: Path) -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "evil", "annotations": {"gpu.topology/env.NCCL_X": "a\nrm -rf ~ \x1b[2J'$(id)"}},
    }
    path = tmp_path / "namespace.json"
    path.write_text(json.dumps(namespace))
    done = gpu_topology("namespace", "evil", "-f", path, "--env", "NCCL_X=b", "--undo")
    assert "\x1b" not in done.out
    script = f"kubectl() {{ printf '<%s>' \"$@\"; }}\n{done.out}"
    ran = subprocess.run(["/bin/bash", "-c", script], capture_output=True, check=True, text=True)
    assert ran.stdout == (
        "<label><namespace><evil><gpu.topology/injection->"
        "<annotate><namespace><evil><gpu.topology/env.NCCL_X=a\nrm -rf ~ \x1b[2J'$(id)><--overwrite>"
    )
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Team", "--opt-in"), "expected the name of a namespace, such as team-a"),
        (("a", "--profile", "exclusive", "--observe"), "give either a profile or --observe"),
        (("a", "--min-bandwidth", "fast"), "Invalid value for --min-bandwidth: expected a number of GB/s"),
        (("a", "--env", "NCCL_X"), "expected NAME=VALUE, found 'NCCL_X'"),
        (("a", "--place", "off", "--unset", "place"), "place is to be set and removed"),
        (("a", "--allow", "all"), "'all' is not one of"),
        (("a", "--opt-in", "--apply"), "files are not changed: it needs a cluster"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: tuple[str, ...], said: str, manifests: Path) -> None:
    done = gpu_topology("namespace", *arguments, "-f", manifests)
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give an option to set, or --undo"),
        (("--opt-in", "--undo"), "with options it prints the way back by itself"),
        (("--opt-in", "-o", "json"), "with --output json it needs --yes"),
    ],
)
def test_what_cannot_be_applied_is_refused_before_the_cluster_is_asked(arguments: tuple[str, ...], said: str) -> None:
    done = gpu_topology("namespace", "a", "--apply", *arguments, "--kubeconfig", "nowhere")
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.replace("│", " ").split())


def test_pods_with_one_gpu_need_inject_and_the_command_says_so(tmp_path: Path) -> None:
    template = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
    roles = {"Worker": {"replicas": 7, "template": template}}
    job = {"kind": "PyTorchJob", "metadata": {"name": "ddp"}, "spec": {"pytorchReplicaSpecs": roles}}
    (tmp_path / "ddp.yaml").write_text(yaml.safe_dump(job))
    asked = ("namespace", "team-a", "-f", tmp_path / "ddp.yaml", "--profile", "node-peers", "--group", "ddp", *VERSIONS)
    assert "# Add --inject: without it, pods with one GPU for each container" in gpu_topology(*asked).out
    more = gpu_topology(*asked, "--inject").out
    assert "Add --inject" not in more
    assert "then: injected with profile node-peers" in more


VOLCANO_JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: finetune, namespace: video}
spec:
  tasks:
  - template: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 4}}}]}}
"""


@pytest.mark.parametrize("command", [("namespace", "video"), ("inject",), ("explain",)])
def test_the_scheduler_of_a_volcano_job_counts_in_every_preview(command: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    for spec, is_left in (("", True), ("  schedulerName: hami-scheduler\n", False)):
        path.write_text(VOLCANO_JOB + spec)
        done = gpu_topology(*command, "--state", STATE, "-f", path, *VERSIONS)
        assert ("Volcano schedules the pod" in done.out + done.err) is is_left
