"""``inject``, ``bind`` and ``explain`` of pods that get their GPUs by resource claims, without a cluster."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.command import ROOT, Done, gpu_topology

EXAMPLE = ROOT / "examples" / "claims"
STATE, CONFIG = EXAMPLE / "state", EXAMPLE / "config.yaml"
TRAIN = EXAMPLE / "train.yaml"
SLICES = STATE / "claims" / "a100-pcie.yaml"


def run(command: str, *arguments: str | Path, state: Path = STATE, stdin: str = "") -> Done:
    return gpu_topology(command, *arguments, "--state", state, "--config", CONFIG, stdin=stdin)


def parts() -> tuple[str, str]:
    """The template of the example, and its workload."""
    template, _, workload = TRAIN.read_text(encoding="utf-8").partition("---\n")
    return template, workload


def injected_containers(done: Done) -> list[str]:
    (job,) = (found for found in yaml.safe_load_all(done.out) if found["kind"] == "Job")
    return [container["name"] for container in job["spec"]["template"]["spec"].get("initContainers", [])]


def without_claims(tmp_path: Path) -> Path:
    """The state directory as if nothing were known of claims."""
    for folder in ("namespaces", "nodes", "pods"):
        (tmp_path / folder).symlink_to(STATE / folder)
    return tmp_path


def test_a_template_may_stand_beside_its_workload() -> None:
    done = run("inject", "-f", TRAIN)
    assert (done.code, done.err) == (0, "")
    assert injected_containers(done) == ["gpu-topology-remap"]
    assert done.out.startswith(parts()[0])


def test_a_template_may_stand_in_another_file_after_its_workload(tmp_path: Path) -> None:
    template, workload = parts()
    (tmp_path / "a.yaml").write_text(workload, encoding="utf-8")
    (tmp_path / "b.yaml").write_text(template, encoding="utf-8")
    done = run("inject", "-f", tmp_path)
    assert (done.code, done.err) == (0, "")
    assert injected_containers(done) == ["gpu-topology-remap"]


def test_without_its_template_a_workload_is_left_alone_and_that_is_said() -> None:
    done = run("inject", "-f", "-", stdin=parts()[1])
    assert done.code == 0
    assert injected_containers(done) == []
    assert "skipped: Job train" in done.err
    assert "GT281" in done.err


@pytest.mark.parametrize("command", ["inject", "bind"])
def test_objects_of_an_old_version_of_the_api_are_a_sentence(command: str) -> None:
    old = TRAIN.read_text(encoding="utf-8").replace("resource.k8s.io/v1", "resource.k8s.io/v1beta1")
    done = run(command, "-f", "-", stdin=old)
    assert done.code == 1
    assert 'expected resource.k8s.io/v1, found "resource.k8s.io/v1beta1"' in done.err


def test_a_pod_is_bound_with_the_gpus_that_its_claim_was_given() -> None:
    done = run("bind", "-f", STATE / "pods" / "train.yaml")
    assert (done.code, done.err) == (0, "")
    binding = yaml.safe_load(done.out)
    written = binding["metadata"]["annotations"]
    pod = yaml.safe_load((STATE / "pods" / "train.yaml").read_text(encoding="utf-8"))
    bound = pod["metadata"]["annotations"]
    assert written == {key: bound[key] for key in written}
    assert written["gpu.topology/claimed-gpus"].startswith("trainer=GPU-")
    assert (written["gpu.topology/link"], written["gpu.topology/satisfied"]) == ("NVLink", "true")


def test_the_claim_of_a_pod_may_stand_beside_it(tmp_path: Path) -> None:
    documents = [STATE / "pods" / "train.yaml", STATE / "claims" / "train.yaml", SLICES]
    together = "---\n".join(path.read_text(encoding="utf-8") for path in documents)
    done = run("bind", "-f", "-", stdin=together, state=without_claims(tmp_path))
    assert (done.code, done.err) == (0, "")
    assert yaml.safe_load(done.out)["metadata"]["annotations"]["gpu.topology/link"] == "NVLink"


def test_a_claim_that_no_file_holds_leaves_the_values_of_admission(tmp_path: Path) -> None:
    done = run("bind", "-f", STATE / "pods" / "train.yaml", "-o", "json", state=without_claims(tmp_path))
    outcome = json.loads(done.out)
    assert (done.code, outcome["reason"], outcome["link"]) == (0, "no-allocation", "")


def test_a_pod_that_was_bound_is_explained_by_its_claim() -> None:
    done = run("explain", "ml-workloads/train-2xkpd", "-v")
    assert done.code == 3
    assert "was given gpu-2 and gpu-3 of pool a100-pcie by driver gpu.nvidia.com, for this pod alone" in done.out
    assert "node a100-pcie gives GPU2 and GPU3 to container trainer" in done.out
