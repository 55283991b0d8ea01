"""``gpu-topology analyze`` on files: what it prints, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import ROOT, gpu_topology
from tests.hardware.topology.machines import h20
from tests.insight.analyze.clusters import MANIFESTS, Cluster
from tests.insight.analyze.faults import many_of_a_deployment, mixture
from tests.pods import container
from webhook import __version__
from webhook.hardware.topology.document import format_topology


def write(path: Path, cluster: Cluster) -> Path:
    """The objects as ``kubectl get -o json`` writes a list of them."""
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(cluster.raw())}))
    return path


@pytest.fixture
def faulty(tmp_path: Path) -> tuple[Path, set[tuple[str, str]]]:
    """A cluster with a dozen faults, and what is to be found of it."""
    cluster, expected = Cluster(), set[tuple[str, str]]()
    for fault in mixture(1):
        fault.make(cluster)
        expected |= fault.expected
    return write(tmp_path / "all.json", cluster), expected


def found(text: str) -> set[tuple[str, str]]:
    return {
        (row["code"], f"{each['kind']} {'/'.join(filter(None, (each['namespace'], each['name'])))}")
        for row in json.loads(text)["findings"]
        for each in row["objects"]
    }


def test_the_objects_of_a_file_are_judged(faulty: tuple[Path, set[tuple[str, str]]]) -> None:
    done = gpu_topology("analyze", "-f", faulty[0], "-o", "json")
    assert (done.code, done.err) == (1, "")
    assert found(done.out) == faulty[1]


def test_where_nothing_is_found_the_command_says_so_and_ends_with_0(tmp_path: Path) -> None:
    done = gpu_topology("analyze", "-f", write(tmp_path / "all.json", Cluster()))
    assert (done.code, done.err) == (0, "")
    assert done.out == "nothing found: 3 pods of 1 namespace, 2 nodes\nNVLink of 2 pods with GPUs: unknown 2\n"


def test_a_version_of_hami_that_is_yet_to_come_judges_the_pods_that_run(tmp_path: Path) -> None:
    """The pods of the cluster have our init container, and an allocation as HAMi 2.8 writes it."""
    everything = write(tmp_path / "all.json", Cluster())
    assert gpu_topology("analyze", "-f", everything, "--hami-version", "2.9.0").code == 0
    later = gpu_topology("analyze", "-f", everything, "--hami-version", "2.11.0", "-o", "json")
    assert found(later.out) == {("GT246", "Pod team-a/train"), ("GT246", "Pod team-a/pair")}
    assert (later.code, json.loads(later.out)["counts"]["error"]) == (1, 2)
    assert gpu_topology("analyze", "-f", everything, "--hami-version", "2.11", "--fail-on", "error").code == 1


@pytest.mark.parametrize("output", ["text", "json", "sarif"])
def test_the_exit_code_does_not_depend_on_the_format(output: str) -> None:
    manifest = MANIFESTS / "namespace-label.yaml"
    assert gpu_topology("analyze", "-f", manifest, "-o", output).code == 1
    assert gpu_topology("analyze", "-f", manifest, "-o", output, "--fail-on", "error").code == 0


def test_the_table_has_a_row_for_a_deployment(tmp_path: Path) -> None:
    cluster = Cluster()
    many_of_a_deployment(cluster)
    done = gpu_topology("analyze", "-f", write(tmp_path / "all.json", cluster))
    assert done.out.count("GT103") == 1
    assert "Deployment fleet/serve (40" in done.out
    summary = "\n120 warnings: 43 pods of 2 namespaces, 2 nodes\nNVLink of 42 pods with GPUs: unknown 42\n"
    assert done.out.endswith(summary)


def test_a_namespace_that_is_not_there_is_an_error_and_not_an_empty_answer(tmp_path: Path) -> None:
    done = gpu_topology("analyze", "-f", write(tmp_path / "all.json", Cluster()), "-n", "team-b")
    assert (done.code, done.out) == (2, "")
    assert "there is no namespace team-b" in done.err


def test_a_state_directory_that_was_written_by_hand_is_judged() -> None:
    done = gpu_topology("analyze", "--state", ROOT / "examples" / "state", "-n", "ml-workloads", "-o", "json")
    assert done.code == 1
    assert found(done.out) >= {("GT208", "Pod ml-workloads/slow"), ("GT330", "Pod ml-workloads/unlinked")}
    assert not {code for code, _ in found(done.out)} & {"GT720", "GT721", "GT840"}


def test_manifests_and_a_state_directory_make_one_cluster(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "nodes").mkdir(parents=True)
    (state / "nodes" / "h20.json").write_text(format_topology(h20()))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml-workloads"}}
    pods = ROOT / "examples" / "state" / "pods" / "slow.yaml"
    (tmp_path / "namespace.yaml").write_text(yaml.safe_dump(namespace))
    done = gpu_topology("analyze", "-f", pods, "-f", tmp_path / "namespace.yaml", "--state", state, "-o", "json")
    codes = {code for code, holder in found(done.out) if holder == "Pod ml-workloads/slow"}
    assert codes == {"GT208"}


def test_sarif_has_what_the_standard_requires(faulty: tuple[Path, set[tuple[str, str]]]) -> None:
    """SARIF 2.1.0: sections 3.13, 3.14, 3.18, 3.19, 3.27, 3.28, 3.33, 3.49."""
    done = gpu_topology("analyze", "-f", faulty[0], "-o", "sarif")
    document: dict[str, Any] = json.loads(done.out)
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("gpu-topology", __version__)
    rules = [rule["id"] for rule in driver["rules"]]
    assert len(set(rules)) == len(rules)
    assert {code for code, _ in faulty[1]} == set(rules)
    for result in run["results"]:
        assert result["ruleId"] in rules
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        assert result["occurrenceCount"] >= len(result["locations"]) >= 1
        for location in result["locations"]:
            (logical,) = location["logicalLocations"]
            assert logical["fullyQualifiedName"].endswith(logical["name"])


def test_sarif_names_the_file_of_an_object_that_comes_from_one() -> None:
    manifest = MANIFESTS / "namespace-label.yaml"
    (run,) = json.loads(gpu_topology("analyze", "-f", manifest, "-o", "sarif").out)["runs"]
    (result,) = run["results"]
    assert result["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": str(manifest)}}


def test_names_with_control_characters_do_no_harm_to_a_terminal(tmp_path: Path) -> None:
    label = {"gpu.topology/injection": "\x1b[2J[red]evil"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a\x1b[31m", "labels": label}}
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(namespace))
    for output in ("text", "sarif", "json"):
        out = gpu_topology("analyze", "-f", path, "-o", output).out
        assert "\x1b" not in out
        assert "evil" in out
    assert "[red]evil" in gpu_topology("analyze", "-f", path).out.replace("\n", "")


RAY_JOB = """\
apiVersion: ray.io/v1
kind: RayJob
metadata:
  name: train
  namespace: team-a
  annotations: {gpu.topology/policy: nvlink, team: ml}
spec:
  rayClusterSpec:
    headGroupSpec:
      template: {spec: {containers: [{name: head, image: x}]}}
    workerGroupSpecs:
    - groupName: gpu
      template: {metadata: {annotations: {}}, spec: {containers: [{name: worker, image: x}]}}
"""


def test_an_option_on_an_object_of_any_kind_that_its_pods_lack_is_found_once(tmp_path: Path) -> None:
    file = tmp_path / "ray.yaml"
    file.write_text(RAY_JOB)
    done = gpu_topology("analyze", "-f", file, "-o", "json")
    assert (done.code, found(done.out)) == (1, {("GT183", "RayJob team-a/train")})
    (row,) = json.loads(done.out)["findings"]
    assert (row["severity"], len(row["objects"])) == ("warning", 1)
    assert "annotation gpu.topology/policy has no effect at /metadata/annotations" in row["objects"][0]["text"]
    listed = tmp_path / "listed.yaml"
    listed.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(RAY_JOB)]}))
    (of_list,) = json.loads(gpu_topology("analyze", "-f", listed, "-o", "json").out)["findings"]
    assert of_list == row
    (result,) = json.loads(gpu_topology("analyze", "-f", file, "-o", "sarif").out)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("ray.yaml")


def test_an_option_that_the_pods_have_too_is_none_to_be_told_of(tmp_path: Path) -> None:
    file = tmp_path / "ray.yaml"
    own = "metadata: {annotations: {gpu.topology/policy: single-numa}}"
    file.write_text(
        RAY_JOB.replace("template: {spec", f"template: {{{own}, spec").replace("metadata: {annotations: {}}", own)
    )
    done = gpu_topology("analyze", "-f", file, "-o", "json")
    assert (done.code, found(done.out)) == (0, set())


def test_the_template_of_a_workload_is_judged_and_a_kind_without_one_is_a_warning(tmp_path: Path) -> None:
    off = container(env=[{"name": "NCCL_P2P_DISABLE", "value": "1"}])
    job = {"kind": "Job", "metadata": {"name": "train"}, "spec": {"template": {"spec": {"containers": [off]}}}}
    model = {"resources": {"limits": {"nvidia.com/gpu": 2}}}
    service = {"kind": "InferenceService", "metadata": {"name": "chat"}, "spec": {"predictor": {"model": model}}}
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([job, service]))
    done = gpu_topology("analyze", "-f", tmp_path / "all.yaml", "-o", "json")
    assert done.code == 1
    assert {("GT412", "Pod default/train"), ("GT184", "InferenceService chat")} <= found(done.out)
    (tmp_path / "all.yaml").write_text(yaml.safe_dump(job).replace("NCCL_P2P_DISABLE", "OTHER"))
    assert "GT412" not in gpu_topology("analyze", "-f", tmp_path / "all.yaml").out
