"""``gpu-topology explain``: the command that people use to find out why their job is slow."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import gpu_topology
from tests.hardware.topology import machines
from tests.insight.explain.situations import H20, on
from tests.pods import container, pod
from webhook.hardware.topology.document import format_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED = "expected a Pod or a workload such as a Job"
GET_PODS = "Give the Pods themselves: kubectl get pods -l KEY=VALUE -o yaml"


def write(path: Path, *documents: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump_all(documents))
    return path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """One node with eight H20, one namespace, one pod on GPU0 and GPU1 that nobody prepared."""
    root = tmp_path / "state"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    write(root / "namespaces" / "team-a.yaml", namespace)
    write(root / "cluster.yaml", {"hamiVersion": "2.9.0"})
    write(root / "pods" / "train.yaml", on(pod(), "h20-node-1", list(H20[:2])))
    (root / "nodes").mkdir()
    (root / "nodes" / "h20.json").write_text(format_topology(machines.h20()))
    return root


def test_a_pod_of_a_state_directory_is_explained(state: Path) -> None:
    done = gpu_topology("explain", "-v", "team-a/train", "--state", state)
    assert done.code == 3
    assert done.err == ""
    assert (
        done.out.replace(str(state), "STATE")
        == """\
NVLink: unknown, pod team-a/train on node h20-node-1: control: HAMi's library is preloaded into container train: \
HAMi 2.9.0 looks there, and it does not set CUDA_DISABLE_CONTROL (GT210, reported). First: Let the webhook do it, or \
write CUDA_DISABLE_CONTROL: "true" as a literal into every container, init containers too; setting it inside a running \
container changes nothing

2 of 18 conditions fail
  1. FAIL opted-in: the namespace has not opted in (GT103)
          -> An administrator sets the label gpu.topology/injection: enabled on the namespace
  5. FAIL control: HAMi's library is preloaded into container train: HAMi 2.9.0 looks there, and it does not set \
CUDA_DISABLE_CONTROL (GT210, reported)
          -> Let the webhook do it, or write CUDA_DISABLE_CONTROL: "true" as a literal into every container, init \
containers too; setting it inside a running container changes nothing

Injection
  2. -    injected: no sign of the webhook in this input
  3. -    prepared: the webhook would give it whole cards; switch HAMi's CUDA interception off; \
give it enough shared memory; set NCCL up for the links between its GPUs; verify the GPUs and \
write the NCCL topology file when it starts

Cards and HAMi's library
  4. ok   whole-cards: container train asks for 2 whole GPUs
  6. ok   own-gpus: container train: the device plugin's list says which GPUs are visible

Placement
  7. -    placement: only pods that the webhook prepared wait for the planner

Allocation and links
  8. ok   allocation: node h20-node-1 gives GPU0 and GPU1 to container train
  9. ok   node-topology: state directory STATE tells it of node h20-node-1
 10. ok   links: every pair of GPU0 and GPU1 has NVLink: link class NVSwitch
 11. ok   bandwidth: GPU0-GPU1 have 370.8 GB/s per direction, no pair has less; best ring 370.8 GB/s (0-1-0), estimated
 12. -    requirements: the pod requires nothing of its GPUs
 13. -    told-at-binding: only pods that the webhook prepared are told

Variables
 14. ok   nccl-variables: container train sets none: NCCL's own defaults hold, which use NVLink, unless the image or \
/etc/nccl.conf says otherwise

Peers
 15. -    peers: profile exclusive: no other container or pod works with these GPUs

Faults of HAMi
 16. ok   init-container-fault: no init container without a GPU comes to an end before the others start
 17. -    privileged: no container is privileged
 18. -    init-container-gpus: no init container asks for GPUs

The webhook did not prepare this pod. NVLink may be lost, or slower than it could be: control.
"""
    )


def test_a_state_directory_says_whether_a_planner_is_alive(state: Path) -> None:
    gates = [{"name": "gpu.topology/place"}]
    write(state / "pods" / "train.yaml", pod(labels={"gpu.topology/placement": "waiting"}, schedulingGates=gates))
    done = gpu_topology("explain", "-v", "team-a/train", "--state", state)
    assert f"and no planner is alive: cluster.yaml of state directory {state} names none;" in done.out
    (state / "cluster.yaml").write_text('hamiVersion: "2.9.0"\nplanner: true\n')
    done = gpu_topology("explain", "-v", "team-a/train", "--state", state)
    waits = "the pod waits behind the scheduling gate gpu.topology/place, and the planner has not said why yet"
    assert f"?    placement: {waits}: cluster.yaml of state directory {state} names one (GT641)\n" in done.out


def test_programs_get_json(state: Path) -> None:
    done = gpu_topology("explain", "team-a/train", "--state", state, "-o", "json")
    document = json.loads(done.out)
    assert done.code == 3
    assert (document["pod"], document["node"], document["reach"]) == ("team-a/train", "h20-node-1", "some")
    assert document["findings"][9] == {
        "group": "Allocation and links",
        "condition": "links",
        "verdict": "holds",
        "evidence": "every pair of GPU0 and GPU1 has NVLink: link class NVSwitch",
        "remedy": "",
        "stops": False,
        "sureness": "",
        "code": "",
    }
    assert {one["condition"]: one["sureness"] for one in document["findings"] if one["sureness"]} == {
        "control": "reported"
    }
    assert document["sureness"] == "reported"


def test_a_file_needs_no_state(tmp_path: Path) -> None:
    file = write(tmp_path / "pod.yaml", on(pod(), "h20-node-1", list(H20[:2])))
    topology = tmp_path / "node.json"
    topology.write_text(format_topology(machines.h20()))
    done = gpu_topology("explain", "-v", "-f", file, "--topology", topology, "--hami-version", "2.8.3")
    assert done.code == 3
    assert "  1. ?    opted-in: the namespace is not known here" in done.out
    assert "HAMi 2.8.3 looks there" in done.out
    assert "link class NVSwitch" in done.out


def test_the_node_can_be_given(tmp_path: Path, state: Path) -> None:
    chosen = on(pod(), "h20-node-1", list(H20[:2]))
    del chosen["spec"]["nodeName"]
    file = write(tmp_path / "pod.yaml", chosen)
    done = gpu_topology("explain", "-v", "-f", file, "--state", state)
    assert done.out.startswith("NVLink: unknown, pod team-a/train on node h20-node-1: ")
    other = gpu_topology("explain", "-v", "-f", file, "--state", state, "--node", "h20-node-2")
    assert other.out.startswith("NVLink: unknown, pod team-a/train on node h20-node-2: ")
    assert "allocation: the allocation was made for node h20-node-1, but the pod goes to node h20-node-2" in other.out


def test_of_several_pods_one_is_named_and_the_others_are_its_peers(tmp_path: Path) -> None:
    annotations = {"gpu.topology/profile": "node-peers", "gpu.topology/group": "g"}
    first = on(pod(annotations=annotations), "h20-node-1", list(H20[:2]))
    second = on(pod(annotations=annotations), "h20-node-2", list(H20[2:4]))
    second["metadata"]["name"] = "decode"
    pods = {"apiVersion": "v1", "kind": "List", "items": [first, second]}
    file = write(tmp_path / "pods.yaml", pods)
    done = gpu_topology("explain", "-v", "-f", file, "team-a/train")
    assert "same-node: decode is on node h20-node-2, this pod on h20-node-1" in done.out
    unnamed = gpu_topology("explain", "-v", "-f", file)
    assert (unnamed.code, unnamed.out) == (1, "")
    assert unnamed.err == (
        f'gpu-topology: {file}: expected one Pod, found "team-a/train, team-a/decode". Name one: NAMESPACE/POD\n'
    )


@pytest.mark.parametrize("command", ["explain", "analyze", "inject", "status"])
def test_an_address_is_answered_with_the_pipe_that_reads_it(command: str) -> None:
    done = gpu_topology(command, "-f", "https://example.com/a.yaml?x=1")
    assert (done.code, done.out) == (1, "")
    pipe = f"curl -sSL 'https://example.com/a.yaml?x=1' | gpu-topology {command} -f -"
    assert done.err.endswith(f'found "https://example.com/a.yaml?x=1". Fetch it: {pipe}\n')


def test_a_list_of_pods_as_the_api_server_sends_it_can_be_read(tmp_path: Path) -> None:
    bare = {key: value for key, value in pod(container(gpus=1)).items() if key in ("metadata", "spec")}
    file = write(tmp_path / "pods.yaml", {"apiVersion": "v1", "kind": "PodList", "items": [bare]})
    assert gpu_topology("explain", "-v", "-f", file).code == 0


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"kind": "Deployment", "metadata": {"name": "x"}}, f'{EXPECTED}, found "Deployment". {GET_PODS}'),
        ({"kind": "Pod", "spec": {"containers": 5}}, "spec.containers: expected a list, found a whole number"),
        ({"kind": "a\x1b[31mb"}, f'{EXPECTED}, found "a\\x1b[31mb". {GET_PODS}'),
        ("Pod", f"{EXPECTED}, found a text. {GET_PODS}"),
    ],
)
def test_what_is_no_pod_is_said_to_be_none(tmp_path: Path, content: Any, sentence: str) -> None:
    file = write(tmp_path / "pod.yaml", content)
    done = gpu_topology("explain", "-v", "-f", file)
    assert (done.code, done.out) == (1, "")
    assert done.err == f"gpu-topology: {file}: {sentence}\n"


def test_a_file_in_the_place_of_a_pod_is_told_its_option(tmp_path: Path) -> None:
    file = write(tmp_path / "train.yaml", pod())
    done = gpu_topology("explain", file)
    assert done.code == 2
    said = " ".join(done.err.replace("│", " ").split())
    assert "is a file. Give it with -f: gpu-topology explain -f" in said
    assert "is a file" not in gpu_topology("explain", tmp_path / "gone.yaml").err


@pytest.mark.parametrize("text", ["", '{"kind": "List", "items": []}'])
def test_an_empty_file_is_said_to_be_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / "pod.yaml").write_text(text)
    done = gpu_topology("explain", "-f", tmp_path / "pod.yaml")
    remedy = "If a command wrote it, look whether that command has failed"
    assert done.err == f"gpu-topology: {tmp_path}/pod.yaml: {EXPECTED}, found nothing. {remedy}\n"
    assert done.code == 1


def test_a_pod_that_is_not_there_is_told_with_those_that_are(state: Path) -> None:
    done = gpu_topology("explain", "-v", "team-a/other", "--state", state)
    assert done.code == 1
    assert done.err == (f"gpu-topology: {state}/pods: there is no pod team-a/other; the pods there are team-a/train\n")


def test_a_terminal_gets_no_control_characters(tmp_path: Path) -> None:
    entry = {"name": "NCCL_DEBUG\u001b[31m", "value": "\u001b[2J\nfine"}
    file = write(tmp_path / "pod.yaml", pod(container("tr\u0007ain", env=[entry])))
    done = gpu_topology("explain", "-v", "-f", file)
    assert all(line.isprintable() for line in done.out.splitlines())
    assert "NCCL_DEBUG\\x1b[31m: container tr\\x07ain" in done.out


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "Pod", "metadata": {"name": "a\\ud800"}}',
        '{"kind": "Pod", "spec": {"containers": [{"name": "a", "env": [{"name": "A\\ud800"}]}]}}',
    ],
)
def test_half_a_character_ends_in_a_sentence(text: str) -> None:
    gpus = text.replace('"name": "a"', '"name": "a", "resources": {"limits": {"nvidia.com/gpu": 2}}')
    for one in (text, gpus):
        done = gpu_topology("explain", "-v", "-f", "-", stdin=one)  # which holds no traceback
        assert done.code in (0, 1)
        assert done.out or done.err.startswith("gpu-topology: ")


def test_the_topology_says_who_told_it(tmp_path: Path) -> None:
    file = write(tmp_path / "pod.yaml", on(pod(), "h20-node-1", list(H20[:2])))
    topology = tmp_path / "node.json"
    topology.write_text(format_topology(machines.h20()))
    done = gpu_topology("explain", "-v", "-f", file, "--topology", topology)
    assert f"node-topology: file {topology} tells it of node h20-node-1\n" in done.out
    piped = gpu_topology("explain", "-v", "-f", file, "--topology", "-", stdin=topology.read_text())
    assert "node-topology: standard input tells it of node h20-node-1\n" in piped.out


def test_the_example_on_the_page_is_real() -> None:
    page = (EXAMPLES.parent / "docs" / "explain.md").read_text(encoding="utf-8")
    _, _, example = page.partition("$ gpu-topology explain ml-workloads/slow --state examples/state\n")
    shown, _, _ = example.partition("```")
    assert shown == gpu_topology("explain", "ml-workloads/slow", "--state", "examples/state").out
    assert shown.startswith("NVLink: unknown, pod ml-workloads/slow on node h20-node-1: ")


def test_each_condition_is_on_the_page() -> None:
    page = (EXAMPLES.parent / "docs" / "explain.md").read_text(encoding="utf-8")
    for name in ("slow", "train", "unlinked"):
        done = gpu_topology("explain", f"ml-workloads/{name}", "--state", EXAMPLES / "state", "-o", "json")
        for one in json.loads(done.out)["findings"]:
            assert one["condition"].startswith("NCCL_") or f"`{one['condition']}`" in page


def test_pods_are_read_from_several_files_and_directories_as_inject_reads_them(tmp_path: Path) -> None:
    write(tmp_path / "below" / "a.yaml", {"kind": "ConfigMap"}, pod())
    (tmp_path / "b.json").write_text('{"kind": "Service"}{"kind": "Secret"}')
    alone = gpu_topology("explain", "-v", "-f", tmp_path)
    assert alone.err == f'gpu-topology: {tmp_path}/b.json: {EXPECTED}, found "Service". {GET_PODS}\n'
    together = gpu_topology("explain", "-v", "-f", tmp_path, "-R")
    assert together.out.startswith("NVLink: unknown, pod team-a/train without a node: ")
    twice = gpu_topology("explain", "-v", "-f", tmp_path / "below", "-f", tmp_path / "below" / "a.yaml")
    assert "expected one Pod, found" in twice.err


def test_a_pod_of_a_state_directory_may_be_named_with_an_option_for_its_namespace(state: Path) -> None:
    done = gpu_topology("explain", "-v", "train", "-n", "team-a", "--state", state)
    assert done.out == gpu_topology("explain", "-v", "team-a/train", "--state", state).out
    assert "there is no pod of namespace default" in gpu_topology("explain", "-v", "train", "--state", state).err


LOG = Path(__file__).parents[1] / "cases" / "nccl-logs"


def test_what_nccl_printed_decides(state: Path) -> None:
    train = ("team-a/train", "--state", state)
    said = gpu_topology("explain", *train, "--nccl-log", LOG / "2.30.7.log", "-o", "json")
    assert (said.code, json.loads(said.out)["nvlink"]) == (0, "yes")
    lost = gpu_topology("explain", *train, "--nccl-log", LOG / "shm.log")
    assert (lost.code, lost.out.partition(",")[0]) == (1, "NVLink: no")
    assert "(GT910, seen)" in lost.out


def test_the_log_may_come_from_standard_input_and_from_several_files(tmp_path: Path) -> None:
    level = "train:41:41 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to NVL\n"
    env = [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]
    file = write(tmp_path / "pod.yaml", pod(container(gpus=2, env=env)))
    text = level + (LOG / "2.30.7.log").read_text(encoding="utf-8")
    done = gpu_topology("explain", "-f", file, "--nccl-log", "-", stdin=text)
    assert (done.code, done.out.partition(",")[0]) == (0, "NVLink: yes")
    without = gpu_topology("explain", "-f", file, "--nccl-log", "-", stdin="step 1\n")
    assert (without.code, "GT916" in without.out) == (3, True)
    first, second = tmp_path / "0.log", tmp_path / "1.log"
    first.write_text(
        "".join(line for line in text.splitlines(keepends=True) if line[:8] != "train:42"), encoding="utf-8"
    )
    second.write_text(
        "".join(line for line in text.splitlines(keepends=True) if line[:8] == "train:42"), encoding="utf-8"
    )
    both = gpu_topology("explain", "-f", file, "--nccl-log", first, "--nccl-log", second)
    assert both.code == 0
    assert gpu_topology("explain", "-f", file, "--nccl-log", first).code == 3
