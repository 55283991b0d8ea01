"""``gpu-topology topology``: where a node comes from, what is printed, and how bad input is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.command import ROOT, gpu_topology
from tests.cli.terminal import on_terminal
from tests.hardware.topology.machines import a100_pcie_bridged, dgx1_v100, h20
from tests.hardware.topology.nccl_rules import faults
from webhook.cli.topology.plan import GpuPolicy
from webhook.hardware.topology.document import format_topology, parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.selection.request import Policy

STATE = ROOT / "examples" / "state"
TEXTS = ROOT / "tests" / "hardware" / "topology" / "texts"
H20 = ("--state", STATE, "--node", "h20-node-1")
DGX1 = ("--state", STATE, "--node", "dgx1-v100")
NO_DRIVER = "gpu-topology: this machine: "


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.split()]


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A NodeTopology of a DGX-1 in a file."""
    path = tmp_path / "dgx1.json"
    path.write_text(format_topology(dgx1_v100()))
    return path


def on_a_terminal(*arguments: str | Path, width: int = 200, **environment: str) -> str:
    """What the command writes to a terminal."""
    code, text = on_terminal(*arguments, width=width, **environment)
    assert code == 0
    return text


# show


def test_show_prints_the_matrix_of_a_node_in_the_state_directory() -> None:
    done = gpu_topology("topology", "show", *H20)
    assert (done.code, done.err) == (0, "")
    wanted = "GPU0 X NV18 NV18 NV18 NV18 NV18 NV18 NV18 PIX NODE SYS SYS NODE 0-47,96-143 0 N/A"
    assert words(done.out)[1] == wanted.split()
    assert words(done.out)[-5:] == [
        ["NIC0:", "ibp14s0"],
        ["NIC1:", "ibp71s0"],
        ["NIC2:", "ibp134s0"],
        ["NIC3:", "ibp195s0"],
        ["NIC4:", "rocep32s0f0"],
    ]


def test_what_nvidia_smi_printed_is_shown_in_the_same_words() -> None:
    text = (TEXTS / "h20.txt").read_text().replace("\x1b[4m", "").replace("\x1b[0m", "")
    done = gpu_topology("topology", "show", "--file", "-", stdin=text)
    assert done.code == 0
    for part in (0, -1):  # the matrix and the names of the NICs
        assert words(done.out.split("Legend:")[part]) == words(text.split("Legend:")[part])


def test_show_takes_the_only_node_of_a_state_directory(tmp_path: Path, node: Path) -> None:
    (tmp_path / "nodes").mkdir()
    node.rename(tmp_path / "nodes" / "dgx1-v100.json")
    done = gpu_topology("topology", "show", "--state", tmp_path)
    assert (done.code, done.err) == (0, "")
    assert words(done.out)[1][:6] == ["GPU0", "X", "NV1", "NV1", "NV2", "NV2"]


def test_as_json_show_prints_the_document_itself(node: Path) -> None:
    done = gpu_topology("topology", "show", "-f", node, "-o", "json")
    assert (done.code, done.err) == (0, "")
    assert parse_topology(done.out, source="show") == dgx1_v100()


def test_as_svg_show_prints_a_picture(node: Path) -> None:
    done = gpu_topology("topology", "show", "-f", node, "-o", "svg", "--gpus", "0,3")
    assert (done.code, done.err) == (0, "")
    assert ElementTree.fromstring(done.out).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - our own
    assert "Chosen: GPU0, GPU3" in done.out


def test_a_terminal_gets_colours(node: Path) -> None:
    text = on_a_terminal("topology", "show", "-f", node)
    assert "dgx1-v100" in text
    assert "\x1b[32mNV2\x1b[0m" in text
    assert "NVLink \x1b[32mhealthy" in text


# this machine


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has the driver that the test must lack")
@pytest.mark.parametrize("command", ["show", "xml"])
def test_a_machine_without_the_driver_says_so_in_one_sentence(command: str) -> None:
    done = gpu_topology("topology", command)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(NO_DRIVER)
    assert done.err.count("\n") == 1


# xml, and check, which left


def test_the_nccl_file_of_a_node_is_printed() -> None:
    done = gpu_topology("topology", "xml", *H20)
    assert (done.code, done.err) == (0, "")
    assert faults(done.out) == []
    assert "dev=" not in done.out


def test_with_dev_the_nccl_file_has_the_indices_of_the_host() -> None:
    done = gpu_topology("topology", "xml", *H20, "--dev")
    assert [f'dev="{index}"' in done.out for index in range(8)] == [True] * 8


# import


def test_import_reads_nvidia_smi_and_names_the_node_after_the_file() -> None:
    done = gpu_topology("topology", "import", TEXTS / "h20-pasted.txt")
    assert (done.code, done.err) == (0, "")
    topology = parse_topology(done.out, source="import")
    assert (topology.node, topology.source, len(topology.gpus)) == ("h20-pasted", "nvidia-smi", 8)
    assert topology.gpus[0].uuid == "GPU-b0c5b618-67d0-f464-9905-e1fd41226305"


def test_what_a_text_does_not_tell_goes_to_stderr() -> None:
    done = gpu_topology("topology", "import", TEXTS / "h20.txt")
    assert done.code == 0
    assert "UUID" in done.err
    assert json.loads(done.out)["problem"] == done.err.strip()


# objects of a cluster

CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "gpu-topology-dgx1-v100"},
    "data": {"topology.json": format_topology(dgx1_v100())},
}


def test_every_command_reads_the_config_map_of_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "object"
    path.write_text(json.dumps(CONFIG_MAP))
    wanted = format_topology(dgx1_v100(), indent=2) + "\n"
    for command in (["show", "-o", "json", "-f"], ["import"]):
        done = gpu_topology("topology", *command, path)
        assert (done.code, done.err, done.out) == (0, "", wanted)
    assert gpu_topology("topology", "xml", "-f", path).code == 0
    assert gpu_topology("topology", "plan", "--gpus", "2", "-f", path).code == 0


# plan


def test_a_plan_names_the_gpus_and_what_speaks_for_them() -> None:
    done = gpu_topology("topology", "plan", "--gpus", "2", *DGX1, "--busy", "0,3,5", "--require-nvlink")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "A job of 2 GPUs gets GPU1 and GPU2 of node dgx1-v100 (Tesla V100-SXM2-32GB).",
        "NVLink: every pair has NVLinks of its own.",
        "  weakest pair 40.0 GB/s (GPU1-GPU2, NV2)",
        "  mean         40.0 GB/s",
        "  ring         40.0 GB/s (1-2-1), estimated",
        "  all-reduce   about 40.0 GB/s",
        "  NUMA         0",
        "  NICs         mlx5_0 (PIX to GPU1), mlx5_1 (PIX to GPU2)",
        "",
        "They meet require-nvlink.",
        "No pair of GPUs of this node is faster than their weakest pair.",
        "No 2 GPUs of this node have faster rings, even if all are free.",
    ]


def test_a_plan_can_be_read_by_programs() -> None:
    done = gpu_topology("topology", "plan", "--gpus", "4", *H20, "-o", "json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert (found["node"], len(found["gpus"]), len(found["uuids"])) == ("h20-node-1", 4, 4)
    assert (found["link"], found["bandwidth"], found["ringBandwidth"]) == ("NVSwitch", 370.8, 370.8)
    assert (found["numaNodes"], found["unmet"], found["exact"]) == ([0], [], True)


def test_a_constraint_that_cannot_be_met_ends_with_1_and_the_nearest_choice_is_printed() -> None:
    place = ("--state", STATE, "--node", "a100-pcie", "--busy", "a100-pcie:0")
    done = gpu_topology("topology", "plan", "--gpus", "3", *place, "--same-numa", "-o", "json")
    assert done.code == 1
    assert json.loads(done.out)["gpus"] == [1, 2, 3]
    assert [one["constraint"] for one in json.loads(done.out)["unmet"]] == ["same-numa"]
    assert done.err.startswith("gpu-topology: node a100-pcie: same-numa is not met: no 3 free GPUs on one NUMA node")


def test_where_links_are_not_known_a_plan_ends_with_3(tmp_path: Path) -> None:
    node = tmp_path / "node.json"
    gpus = [{"id": f"GPU-{index}", "index": index, "count": 10, "devmem": 1, "devcore": 100} for index in range(2)]
    register = [each | {"type": "NVIDIA-NVIDIA H20-3e", "numa": 0, "health": True} for each in gpus]
    annotations = {"hami.io/node-nvidia-register": json.dumps(register)}
    node.write_text(
        json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "h20", "annotations": annotations}})
    )
    done = gpu_topology("topology", "plan", "--gpus", "2", "--require-nvlink", "-f", node)
    assert done.code == 3
    assert "How GPU0 GPU1 of node h20 are linked is not known: HAMi published no pair scores" in done.out
    assert "none of them has it" not in done.err
    found = json.loads(gpu_topology("topology", "plan", "--gpus", "2", "-f", node, "-o", "json").out)
    assert (found["link"], found["bandwidth"], found["linksProblem"][:20]) == ("unknown", None, "how GPU0 GPU1 of nod")
    assert gpu_topology("topology", "plan", "--gpus", "1", "-f", node).code == 0
    claim = gpu_topology("claim", "--gpus", "2", "--require-nvlink", "-f", node)
    assert (claim.code, claim.out) == (3, "")
    assert "how GPU0 GPU1 of node h20 are linked is not known" in claim.err


def test_too_few_free_gpus_end_with_1_and_the_reason() -> None:
    done = gpu_topology("topology", "plan", "--gpus", "5", *DGX1, "--busy", "0,1", "--busy", "2,3")
    assert (done.code, done.out) == (1, "")
    assert done.err == "gpu-topology: node dgx1-v100: asked for 5 GPUs, 4 of 8 are free: 4 in use\n"


def test_a_job_may_need_several_nodes(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes"
    nodes.mkdir()
    for name in ("gpu-1", "gpu-2"):
        (nodes / f"{name}.json").write_text(format_topology(replace(h20(), node=name)))
    several = ("topology", "plan", "--gpus", "12", "--state", tmp_path)
    done = gpu_topology(*several, "-o", "json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert (found["count"], found["met"]) == (12, True)
    assert [(share["node"], len(share["gpus"])) for share in found["nodes"]] == [("gpu-1", 6), ("gpu-2", 6)]
    found = json.loads(gpu_topology(*several, "--node-policy", "pack", "-o", "json").out)
    assert [(share["node"], len(share["gpus"])) for share in found["nodes"]] == [("gpu-1", 8), ("gpu-2", 4)]
    done = gpu_topology(*several, "--node-policy", "spread", "--network-bandwidth", "50", "--busy", "gpu-2:7")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(
        "A job of 12 GPUs gets 6 of node gpu-1 and 6 of node gpu-2.\n"
        "A ring over all of them carries about 50 GB/s, an all-reduce about 27.27 GB/s: "
    )
    done = gpu_topology(*several, "--max-nodes", "1")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("gpu-topology: asked for 12 GPUs")


def test_a_plan_over_several_nodes_tells_what_is_wrong_with_each(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes"
    nodes.mkdir()
    (nodes / "a.json").write_text(format_topology(replace(h20(), node="gpu-1")))
    (nodes / "b.json").write_text(format_topology(NodeTopology(node="gpu-2", source="nvml", problem="No driver.")))
    done = gpu_topology("topology", "plan", "--gpus", "4", "--state", tmp_path)
    assert (done.code, done.err) == (0, "node gpu-2: No driver.\n")


def test_the_policies_are_those_of_the_selection() -> None:
    assert [*GpuPolicy] == [policy.value for policy in Policy]


# bad input

DOCUMENT = json.loads(format_topology(a100_pcie_bridged()))


def changed(**members: Any) -> bytes:
    return json.dumps(DOCUMENT | members).encode()


TWICE = [DOCUMENT["gpus"][0], DOCUMENT["gpus"][0]]
BAD = [
    pytest.param(changed(gpus=TWICE), "each index of a GPU once", id="contradictory"),
    pytest.param(changed(node="\x1b[2J\x1b]0;owned\x07"), "printable", id="control sequences"),
    pytest.param(b'{"a":' * 100_000, "expected", id="deep nesting"),
    pytest.param(b"\x00" * 10_000_000, "at most 4194304 bytes", id="10 MB"),
    pytest.param(b"just a sentence\n", "nvidia-smi topo -m", id="a sentence"),
    pytest.param(b"kind: ConfigMap\napiVersion: v1\ndata: {a: [\n", "expected YAML", id="truncated YAML"),
]


@pytest.mark.parametrize(("data", "fragment"), BAD)
def test_bad_input_is_refused_in_one_sentence(data: bytes, fragment: str, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_bytes(data)
    done = gpu_topology("topology", "show", "-f", path, "-o", "json")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"gpu-topology: {path}")
    assert fragment in done.err
    assert done.err.count("\n") == 1
    assert "\x1b" not in done.err


@pytest.mark.parametrize("command", [["show", "-f"], ["xml", "-f"], ["plan", "--gpus", "2", "-f"], ["import"]])
def test_a_file_that_cannot_be_read_is_named(command: list[str], tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "nowhere", "No such file"), (tmp_path, "Is a directory")):
        done = gpu_topology("topology", *command, path)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(f"gpu-topology: {path}: cannot be read: {reason}")
        assert done.err.count("\n") == 1


def test_of_several_nodes_one_must_be_named() -> None:
    done = gpu_topology("topology", "show", "--state", STATE)
    assert (done.code, done.out) == (1, "")
    assert "h20-node-1" in done.err
    assert "Name one with --node" in done.err


def test_a_node_that_is_not_there_is_named() -> None:
    done = gpu_topology("topology", "show", "--state", STATE, "--node", "../cluster")
    assert (done.code, done.out) == (1, "")
    assert 'there is no node "../cluster"; the nodes there are a100-pcie, ' in done.err


def test_without_a_command_the_commands_are_listed() -> None:
    done = gpu_topology("topology")
    assert all(command in done.out + done.err for command in ("show", "xml", "import", "plan"))


# the documents


@pytest.mark.parametrize(
    ("figure", "name", "gpus"),
    [("topology-h20.svg", "h20-node-1", "0,3"), ("topology-dgx1.svg", "dgx1-v100", "0,1,2,3")],
)
def test_the_figures_of_the_documents_are_what_the_command_prints(figure: str, name: str, gpus: str) -> None:
    done = gpu_topology("topology", "show", "--state", STATE, "--node", name, "--gpus", gpus, "-o", "svg")
    path = ROOT / "docs" / "figures" / figure
    assert done.out == path.read_text(), f"renew it: topology show --node {name} --gpus {gpus} -o svg > {path}"
