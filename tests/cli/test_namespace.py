"""``gpu-topology namespace`` on files: what it prints, and how it ends."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import ROOT, gpu_topology
from tests.pods import container, pod

STATE = ROOT / "examples" / "state"
OPTED_IN = "the webhook treats its pods as its options say; without any, those with two or more whole cards"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state of the examples, with a pod in each of three namespaces."""
    copy = tmp_path / "state"
    shutil.copytree(STATE, copy)
    shutil.rmtree(copy / "pods", ignore_errors=True)
    (copy / "pods").mkdir()
    for namespace in ("video", "sandbox", "inference"):
        found = pod(container())
        found["metadata"] |= {"name": "train", "namespace": namespace}
        (copy / "pods" / f"{namespace}.yaml").write_text(json.dumps(found))
    return copy


def test_a_namespace_is_shown_with_what_its_pods_get(state: Path) -> None:
    done = gpu_topology("namespace", "video", "--state", state)
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "# Namespace video has opted in.\n"
        f"#   gpu.topology/injection=enabled: {OPTED_IN}\n"
        "#   pod-security.kubernetes.io/enforce=baseline\n"
        "\n"
        "# New pods of its 1 workload with GPUs:\n"
        "#   Pod train: injected with profile exclusive\n"
    )


def test_with_options_the_lines_are_printed_with_what_would_change(state: Path) -> None:
    done = gpu_topology("namespace", "sandbox", "--state", state, "--observe", "--set", "require-nvlink=true")
    assert (done.code, done.err) == (0, "")
    assert done.out.split("\n\n")[1] == (
        "# To change it:\n"
        "#   gpu.topology/profile=observe: its pods are left as they are; warnings and metrics say what would change\n"
        "#   gpu.topology/require-nvlink=true\n"
        f"#   gpu.topology/injection=enabled: {OPTED_IN}\n"
        "kubectl annotate namespace sandbox gpu.topology/profile=observe gpu.topology/require-nvlink=true\n"
        "kubectl label namespace sandbox gpu.topology/injection=enabled"
    )
    assert (
        "#   Pod train: left as they are: The namespace has not opted in. -> observed: the warnings say what profile "
        "exclusive would do\n"
        "#     warning: GT113: observe: profile exclusive would give it whole cards\n"
    ) in done.out


def test_the_way_out_removes_everything_of_ours() -> None:
    out = gpu_topology("namespace", "inference", "--state", STATE, "--undo")
    assert [line for line in out.out.splitlines() if line and not line.startswith("#")] == [
        (
            "kubectl label namespace inference gpu.topology/injection- gpu.topology/allow-node-gpus-"
            " gpu.topology/allow-host-pid- gpu.topology/allow-host-ipc-"
        ),
        "kubectl annotate namespace inference gpu.topology/shm-size-",
    ]


def test_a_namespace_of_no_file_counts_as_new() -> None:
    done = gpu_topology("namespace", "fresh", "--state", STATE, "--opt-in")
    assert done.code == 0
    assert done.err == (
        "note: namespace fresh is not in these files: it counts as new, without labels and annotations\n"
    )
    assert "\nkubectl label namespace fresh gpu.topology/injection=enabled\n" in done.out


def test_versions_that_are_not_known_are_told(state: Path) -> None:
    (state / "cluster.yaml").unlink()
    done = gpu_topology("namespace", "video", "--state", state)
    assert done.err == (
        "note: version of HAMi and Kubernetes: not known here, so some pods may be treated differently\n"
    )


def test_hostile_values_are_quoted_and_the_output_is_a_script(tmp_path: Path) -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "evil", "annotations": {"gpu.topology/env.NCCL_X": "a\nrm -rf ~ \x1b[2J'$(id)"}},
    }
    (tmp_path / "namespaces").mkdir()
    (tmp_path / "namespaces" / "evil.yaml").write_text(json.dumps(namespace))
    done = gpu_topology("namespace", "evil", "--state", tmp_path, "--set", "env.NCCL_Y=b\x1b")
    assert "\x1b" not in done.out
    script = f"kubectl() {{ printf '<%s>' \"$@\"; }}\n{done.out}"
    ran = subprocess.run(["/bin/bash", "-c", script], capture_output=True, check=True, text=True)
    assert ran.stdout == (
        "<annotate><namespace><evil><gpu.topology/env.NCCL_Y=b\x1b>"
        "<label><namespace><evil><gpu.topology/injection=enabled>"
    )
    assert ran.stderr == ""
