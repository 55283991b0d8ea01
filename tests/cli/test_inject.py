"""``gpu-topology inject``: every kind of workload, and the YAML as its author wrote it."""

from pathlib import Path

import pytest
import yaml

from tests.cli.command import ROOT, gpu_topology
from tests.judge import policy
from webhook.cli.workload import inject_manifest

STATE = ROOT / "examples" / "state"

POD = "{containers: [{name: train, image: x, resources: {limits: {nvidia.com/gpu: 2}}}]}"
DEPLOYMENT = """\
# A service that somebody commented well.
apiVersion: apps/v1  # the stable one
kind: Deployment
metadata:
  namespace: ml-workloads   # see namespaces/
  name: "serve"
spec:
  replicas: 2
  template:
    spec:
      # the main container
      containers:
        - name: 'main'
          image: "registry.local/serve:1"  # pinned
          command: [serve, --tp, "2"]
          args:
            - --flag   # keep
            - "on"
          env:
            - {name: MODE, value: "yes"}
          resources:
            limits:
              nvidia.com/gpu: 2   # both
              cpu: 010m
      terminationGracePeriodSeconds: 0x1E
# the end
"""


def test_the_diff_only_adds_lines(tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text(DEPLOYMENT)
    done = gpu_topology("inject", "-f", path, "--state", STATE, "-o", "diff")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == f"--- {path}"
    assert lines[1] == f"+++ {path} (injected)"
    assert [line for line in lines[2:] if line.startswith("-")] == []
    assert "+              nvidia.com/gpucores: '100'" in [line.replace('"', "'") for line in lines]


SEVERAL = f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: c}}
data: {{"spec": "containers",   "b":   2}}
---
apiVersion: v1
kind: Pod
metadata: {{name: one, namespace: ml-workloads}}
spec: {POD}
---
apiVersion: v1
kind: Service
metadata: {{name: s}}
spec: {{ports: [{{port: 80}}], selector: {{app: x}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: two, namespace: sandbox}}
spec: {POD}
"""


def test_of_several_documents_only_workloads_in_opted_in_namespaces_change() -> None:
    done = gpu_topology("inject", "-f", "-", "--state", STATE, stdin=SEVERAL)
    assert done.code == 0
    before, after = list(yaml.safe_load_all(SEVERAL)), list(yaml.safe_load_all(done.out))
    assert len(after) == 4
    assert (after[0], after[2], after[3]) == (before[0], before[2], before[3])
    assert after[1]["metadata"]["annotations"]["gpu.topology/injected"] == "0.1.0 exclusive"


def test_a_patch_of_a_workload_points_into_the_document() -> None:
    text = f"kind: Deployment\nmetadata: {{name: d, namespace: ml-workloads}}\nspec: {{template: {{spec: {POD}}}}}\n"
    done = gpu_topology("inject", "-f", "-", "--state", STATE, "-o", "patch", stdin=text)
    paths = {operation["path"] for operation in yaml.safe_load(done.out)}
    assert all(path.startswith("/spec/template/") for path in paths)
    assert "/spec/template/spec/containers/0/resources/limits/nvidia.com~1gpucores" in paths


ODD_BUT_UNCHANGED = [
    pytest.param("", id="empty"),
    pytest.param("# only a comment\n", id="comment"),
    pytest.param("---\n---\n", id="empty documents"),
    pytest.param("kind:   Pod\nspec:\n    containers:\n        -   {name: a}\n\n\n", id="odd spacing"),
    pytest.param("kind: ConfigMap\r\ndata: {a: b}\r\n", id="carriage returns"),
    pytest.param('{"kind": "Pod",\n "spec": {"containers": [{"name": "a"}]}}', id="JSON without a last newline"),
    pytest.param("just a sentence\n", id="a sentence"),
    pytest.param("- 1\n- [2, 3]\n", id="a list"),
    pytest.param("---\na: yes\n...\n", id="an end marker"),
    pytest.param("a: &x {b: 1}\nc: *x\n", id="anchors"),
]


@pytest.mark.parametrize("text", ODD_BUT_UNCHANGED)
def test_where_nothing_changes_the_output_is_the_input(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(text.encode())
    assert inject_manifest(path.read_bytes().decode(), "x", policy(), None).text == text


def test_an_example_that_stays_as_it_is_comes_out_byte_for_byte() -> None:
    path = ROOT / "examples" / "workloads" / "16-not-opted-in.yaml"
    done = gpu_topology("inject", "-f", path, "--state", STATE)
    assert (done.code, done.out) == (0, path.read_text())
    assert gpu_topology("inject", "-f", path, "--state", STATE, "-o", "diff").out == ""


REFUSED = f"""\
kind: Pod
metadata: {{name: bad, namespace: ml-workloads, annotations: {{gpu.topology/nvls: sure}}}}
spec: {POD}
"""


@pytest.mark.parametrize("output", ["yaml", "patch", "diff"])
def test_a_refused_pod_ends_with_1_and_the_reason_on_stderr_alone(output: str) -> None:
    done = gpu_topology("inject", "-f", "-", "--state", STATE, "-o", output, stdin=REFUSED + "---\n" + SEVERAL)
    assert (done.code, done.out) == (1, "")
    wanted = (
        "GT151: an option cannot be read: annotation gpu.topology/nvls on pod ml-workloads/bad: "
        'expected one of auto, on, off, found "sure". Correct the annotation'
    )
    assert f"refused: Pod bad: {wanted}\n" in done.err


def test_a_warning_goes_to_stderr_and_the_result_to_stdout() -> None:
    text = REFUSED.replace("gpu.topology/nvls: sure", "gpu.topology/nvsl: auto")
    done = gpu_topology("inject", "-f", "-", "--state", STATE, stdin=text)
    assert done.code == 0
    assert (
        done.err == "warning: Pod bad: GT118: unknown annotation gpu.topology/nvsl; did you mean gpu.topology/nvls?\n"
    )
    assert yaml.safe_load(done.out)["kind"] == "Pod"


def test_the_namespace_option_is_for_manifests_that_name_none() -> None:
    text = f"kind: Pod\nmetadata: {{name: a}}\nspec: {POD}\n"
    assert gpu_topology("inject", "-f", "-", "--state", STATE, "-n", "sandbox", stdin=text).out == text
    assert "gpu.topology/injected" in gpu_topology("inject", "-f", "-", "--state", STATE, "-n", "video", stdin=text).out


def test_the_configuration_counts(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("defaults: {shm-size: 3Gi}")
    text = f"kind: Pod\nmetadata: {{name: a}}\nspec: {POD}\n"
    done = gpu_topology("inject", "-f", "-", "--config", config, stdin=text)
    volume = {"name": "gpu-topology-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "3Gi"}}
    assert volume in yaml.safe_load(done.out)["spec"]["volumes"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    done = gpu_topology("inject", "-f", tmp_path / "nowhere.yaml")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"gpu-topology: {tmp_path / 'nowhere.yaml'}: cannot be read: ")


ONE_POD = f"kind: Pod\nmetadata: {{name: one}}\nspec: {POD}\n"
KNOWN = ("--hami-version", "2.9.0", "--kubernetes-version", "1.33")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "below").mkdir()
    (tmp_path / "a.yaml").write_text("# first\nkind: ConfigMap\n")
    (tmp_path / "b.json").write_text('{"kind": "ConfigMap"}{"kind": "Secret"}')
    (tmp_path / "below" / "c.yml").write_text(f"---\n{ONE_POD}")
    return tmp_path


def test_several_files_come_out_as_one_manifest_in_their_order(folder: Path) -> None:
    done = gpu_topology("inject", "-f", folder / "below" / "c.yml", "-f", folder, *KNOWN)
    assert (done.code, done.err) == (0, "")
    kinds = [document["kind"] for document in yaml.safe_load_all(done.out)]
    assert kinds == ["Pod", "ConfigMap", "ConfigMap", "Secret"]
    assert "\n---\n# first\nkind: ConfigMap\n---\n{" in done.out


def test_a_directory_is_read_with_all_below_it_where_that_is_asked_for(folder: Path) -> None:
    flat, deep = (gpu_topology("inject", "-f", folder, *more, *KNOWN) for more in ([], ["-R"]))
    assert flat.err == "note: there is no pod template in it\n"
    assert "gpu.topology/injected" in deep.out


def test_several_files_of_json_come_out_as_a_stream_of_json(folder: Path) -> None:
    done = gpu_topology("inject", "-f", folder / "b.json", "-f", folder / "b.json")
    assert done.out == '{"kind": "ConfigMap"}{"kind": "Secret"}\n' * 2


def test_of_several_files_a_note_names_its_own(folder: Path) -> None:
    (folder / "z.yaml").write_text(ONE_POD.replace("gpu: 2", "gpu: 1"))
    done = gpu_topology("inject", "-f", folder)
    assert done.err.startswith(f"skipped: {folder}/z.yaml: Pod one: ")
    assert 'set the annotation gpu.topology/inject: "true" at /metadata/annotations.\n' in done.err


def test_each_file_has_a_diff_of_its_own(folder: Path) -> None:
    (folder / "a.yaml").write_text(ONE_POD)
    done = gpu_topology("inject", "-R", "-f", folder, "-o", "diff", *KNOWN)
    headers = [line for line in done.out.splitlines() if line.startswith("--- ")]
    assert headers == [f"--- {folder}/a.yaml", f"--- {folder}/below/c.yml"]


def test_versions_on_the_command_line_count_more_than_those_of_the_state() -> None:
    text = ONE_POD.replace("name: one", "name: one, namespace: ml-workloads")
    arguments = ("inject", "-f", "-", "--state", STATE, "-o", "patch")
    assert "gpu-topology-remap" in gpu_topology(*arguments, stdin=text).out
    faulty = gpu_topology(*arguments, "--hami-version", "2.10.0", "--kubernetes-version", "1.28", stdin=text)
    assert "gpu-topology-remap" not in faulty.out


def test_without_versions_a_note_says_what_depends_on_them_and_with_them_there_is_none() -> None:
    said = gpu_topology("inject", "-f", "-", stdin=ONE_POD).err
    assert said.startswith("note: the versions of HAMi and Kubernetes are not known here")
    assert "(remap)" in said
    assert "Give --hami-version and --kubernetes-version" in said
    assert gpu_topology("inject", "-f", "-", *KNOWN, stdin=ONE_POD).err == ""


def test_the_output_is_utf_8_wherever_it_goes() -> None:
    text = ONE_POD.replace("image: x", "image: \N{SNOWMAN}")
    done = gpu_topology("inject", "-f", "-", stdin=text)  # no locale is set
    assert "image: \N{SNOWMAN}" in done.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod\nmetadata: {name: a}\n", "expected a Namespace with a name, found Pod"),
        ("kind: Namespace\nmetadata: {name: a, labels: [x]}\n", "labels"),
    ],
)
def test_a_file_of_a_state_directory_that_is_no_namespace_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "namespaces" / "a.yaml"
    path.parent.mkdir()
    path.write_text(text)
    done = gpu_topology("inject", "-f", "-", "--state", tmp_path, stdin="a: 1\n")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"gpu-topology: {path}")
    assert said in done.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1\nb: 2\n", "line 2"),
        ("kind: Pod\nspec: {containers: [{name: 7}]}\n", "name"),
        ("kind: Pod\nmetadata: x\nspec: {containers: [{name: a}]}\n", "metadata"),
        ("kind: Pod\nspec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: [2]}}}]}\n", "limits"),
    ],
)
def test_a_manifest_that_cannot_be_read_ends_with_1_and_says_where(text: str, said: str) -> None:
    done = gpu_topology("inject", "-f", "-", stdin=text)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("gpu-topology: ")
    assert said in done.err
