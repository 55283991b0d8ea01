"""``gpu-topology claim``: what it prints, and what it refuses with which words."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import ROOT, Done, gpu_topology
from tests.decisions.claims.cases import partition_attributes
from tests.hardware.topology.machines import MACHINES, a100_pcie_bridged, bent, dgx1_v100, h20
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.manifest.manifest import read_yaml
from webhook.objects.manifest.yaml_parser import parse_yaml

CASES = ROOT / "tests" / "cases" / "claim-templates"
STATE = ROOT / "examples" / "state"


def write(directory: Path, *topologies: NodeTopology) -> Path:
    """A state directory with these nodes."""
    (directory / "nodes").mkdir()
    for number, topology in enumerate(topologies):
        (directory / "nodes" / f"{number}.json").write_text(format_topology(topology))
    return directory


def named(topology: NodeTopology, node: str, **changes: Any) -> NodeTopology:
    """The machine as a node, with UUIDs of its own and changes of each GPU."""
    gpus = tuple(replace(gpu, uuid=f"GPU-{node}-{gpu.index}", **changes) for gpu in topology.gpus)
    return replace(topology, node=node, gpus=gpus)


def nodes_of(asked: dict[str, Any]) -> list[NodeTopology]:
    found = []
    for node, machine in asked["nodes"].items():
        topology = named(MACHINES[machine], node, **asked.get("each", {}))
        for index in asked.get("without-links", {}).get(node, ()):
            topology = bent(topology, index, nvlinks=())
        found.append(topology)
    return found


@pytest.mark.parametrize("case", sorted(CASES.iterdir()), ids=lambda case: case.name)
def test_golden(case: Path, tmp_path: Path) -> None:
    (asked,) = read_yaml(case / "asked.yaml")
    state = write(tmp_path, *nodes_of(asked))
    done = gpu_topology("claim", "--state", state, *map(str, asked["options"]))
    assert done.code == 0, done.err
    expected = (case / "expected.yaml").read_text()
    (wanted,) = parse_yaml(expected, "expected")
    (found,) = parse_yaml(done.out, "printed")
    assert found == wanted
    assert comments(done.out) == comments(expected)
    as_json = gpu_topology("claim", "--state", state, *map(str, asked["options"]), "-o", "json")
    assert json.loads(as_json.out) == wanted
    assert [f"# {line}" for line in as_json.err.splitlines()][-len(comments(expected)) :] == comments(expected)


def comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#")]


def test_without_a_linked_set_it_ends_with_1_and_says_what_each_node_has() -> None:
    done = gpu_topology("claim", "--state", STATE, "--gpus", "8", "--require-nvlink", "--min-bandwidth", "400")
    assert (done.code, done.out) == (1, "")
    said = "gpu-topology: no node has 8 GPUs with NVLink between every pair and at least 400 GB/s between every pair"
    assert done.err.startswith(said)
    assert "node a100-pcie: asked for 8 GPUs, 4 of 4 are free" in done.err
    assert "node h20-node-1: no 8 free GPUs with 400 GB/s between every pair: " in done.err


def test_one_node_of_a_state_directory_is_chosen_but_all_are_looked_at(tmp_path: Path) -> None:
    bare = replace(dgx1_v100(), gpus=tuple(replace(gpu, nvlinks=()) for gpu in dgx1_v100().gpus))
    state = write(tmp_path, named(dgx1_v100(), "linked"), named(bare, "bare"))
    options = ("--state", state, "--gpus", "4", "--require-nvlink")
    done = gpu_topology("claim", *options, "--node", "linked")
    assert done.code == 0
    assert "- island-1: NVLink, 20 GB/s: GPU0, GPU1, GPU2, GPU3 of linked; without GPU0 of bare, GPU1 of" in done.out
    assert "'GPU-bare-0', 'GPU-bare-1'" in done.out
    done = gpu_topology("claim", *options, "--node", "bare")
    assert (done.code, "node bare: no 4 free GPUs with NVLink" in done.err) == (1, True)
    done = gpu_topology("claim", *options, "--node", "other")
    assert done.err == 'gpu-topology: node "other": nothing is known of its GPUs, or there is no such node\n'


def test_a_file_is_one_node(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.write_text(format_topology(a100_pcie_bridged()))
    done = gpu_topology("claim", "--gpus", "2", "--require-nvlink", "-f", path)
    assert (done.code, done.err) == (0, "")
    assert "# - island-2: NVLink, 240 GB/s: GPU2, GPU3 of a100-pcie\n" in done.out


@pytest.mark.parametrize("options", [(), ("--same-numa",)])
def test_gpus_of_one_numa_node_are_asked_for_by_the_attribute_of_kubernetes(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    state = write(tmp_path, h20())
    done = gpu_topology("claim", "--gpus", "2", "--require-nvlink", "--state", state, "-o", "json", *options)
    devices = json.loads(done.out)["spec"]["spec"]["devices"]
    numa = [{"requests": ["gpus"], "matchAttribute": "resource.kubernetes.io/numaNode"}]
    assert devices.get("constraints") == (numa if options else None)
    assert ("never satisfy it" in done.err) is bool(options)


def test_what_is_wrong_with_a_node_is_told(tmp_path: Path) -> None:
    state = write(tmp_path, bent(named(MACHINES["hgx-h100"], "broken"), 6, nvlinks=()))
    done = gpu_topology("claim", "--state", state, "--gpus", "4", "--require-nvlink")
    assert (done.code, done.err) == (
        0,
        "node broken: GPU6 has 0 links up, other NVIDIA H100 80GB HBM3 here have 18\n",
    )


@pytest.mark.parametrize("version", ["1.33", "1.9", "v1.33.5+k3s1"])
def test_kubernetes_before_1_34_is_refused(version: str) -> None:
    done = gpu_topology("claim", "--state", STATE, "--gpus", "4", "--require-nvlink", "--kubernetes-version", version)
    assert (done.code, done.out) == (1, "")
    assert "expected 1.34 or later, whose API servers serve resource.k8s.io/v1 by default" in done.err


def slices(topology: NodeTopology, *partitions: str, module: bool = True, count: int = 1) -> str:
    """The ResourceSlice of a node, of whose pool there are so many; ``partitions`` are the GPUs of each."""

    def attributes(gpu: int, uuid: str) -> dict[str, Any]:
        said = partition_attributes(str(gpu), partitions) if module else {}
        return {"type": {"string": "gpu"}, "uuid": {"string": uuid}} | said

    devices = [{"name": f"gpu-{gpu.index}", "attributes": attributes(gpu.index, gpu.uuid)} for gpu in topology.gpus]
    pool = {"name": topology.node, "generation": 1, "resourceSliceCount": count}
    spec = {"driver": "gpu.nvidia.com", "nodeName": topology.node, "pool": pool, "devices": devices}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": topology.node}}
    return json.dumps(kind | {"spec": spec}) + "\n"


H100 = {node: named(MACHINES["hgx-h100"], node) for node in ("parted", "plain", "module")}
HALVES = ("01234567", "0123", "4567")
NOT_KNOWN = "# Not known of {}: whether NVIDIA's driver uses partitions"


def asked_of(directory: Path, published: dict[str, str], *options: str) -> Done:
    """What is printed for nodes that are alike, of which this is published."""
    state = write(directory, *(H100[node] for node in published))
    (state / "claims").mkdir()
    (state / "claims" / "slices.yaml").write_text("---\n".join(filter(None, published.values())))
    return gpu_topology("claim", "--state", state, "--require-nvlink", *options)


def test_nodes_with_and_without_partitions_get_alternatives_of_their_own(tmp_path: Path) -> None:
    published = {"parted": slices(H100["parted"], *HALVES), "plain": slices(H100["plain"], module=False)}
    done = asked_of(tmp_path, published, "--gpus", "4")
    assert (done.code, done.err) == (0, "")
    (found,) = parse_yaml(done.out, "printed")
    devices = found["spec"]["spec"]["devices"]
    limit = {"requests": ["gpus/island-1"], "matchAttribute": "gpu.nvidia.com/partition4"}
    assert devices["constraints"] == [limit]
    expressions = [
        [each["cel"]["expression"] for each in alternative["selectors"]]
        for alternative in devices["requests"][0]["firstAvailable"]
    ]
    outside = "!('gpuModuleID' in device.attributes['gpu.nvidia.com'])"
    assert [each[1:] for each in expressions] == [[], [outside]]
    assert expressions[0][0] == expressions[1][0]


@pytest.mark.parametrize(
    ("published", "is_known"),
    [
        (slices(H100["module"], module=False), True),
        (slices(H100["module"]), False),
        (slices(H100["module"], *HALVES, count=2), False),
        ("", False),
    ],
    ids=["without", "modules-alone", "incomplete", "no-slices"],
)
def test_where_nothing_says_whether_partitions_are_used_that_is_said(
    tmp_path: Path, published: str, is_known: bool
) -> None:
    done = asked_of(tmp_path, {"module": published}, "--gpus", "4")
    assert (done.code, done.err) == (0, "")
    assert (NOT_KNOWN.format("module") in done.out) is not is_known
    assert "matchAttribute" not in done.out
