"""``gpu-topology bind``: what the webhook would write onto a pod that goes to a node."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.command import ROOT, gpu_topology
from tests.hardware.topology.machines import H20_UUIDS

STATE = ROOT / "examples" / "state"
ALLOCATED = f"{H20_UUIDS[1]},NVIDIA,97871,100:{H20_UUIDS[0]},NVIDIA,97871,100:;"


def pod(node: str = "h20-node-1", *annotations: str, allocated: str = ALLOCATED) -> str:
    more = "".join(f"    {line}\n" for line in annotations)
    return f"""\
apiVersion: v1
kind: Pod
metadata:
  name: train
  namespace: inference
  annotations:
    hami.io/vgpu-node: {node}
    hami.io/vgpu-devices-allocated: "{allocated}"
{more}spec:
  containers:
  - name: train
    image: registry.example.com/train:1
    resources: {{limits: {{nvidia.com/gpu: 2}}}}
"""


def injected(manifest: str) -> str:
    done = gpu_topology("inject", "-f", "-", "--state", STATE, stdin=manifest)
    assert done.code == 0, done.err
    return done.out


def test_the_output_of_inject_is_bound_to_the_node_of_its_allocation() -> None:
    done = gpu_topology("bind", "-f", "-", "--state", STATE, stdin=injected(pod()))
    assert (done.code, done.err) == (0, "")
    binding = yaml.safe_load(done.out)
    assert json.loads(binding["metadata"]["annotations"].pop("gpu.topology/node-topology"))["node"] == "h20-node-1"
    assert binding == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "train",
            "namespace": "inference",
            "annotations": {
                "gpu.topology/nccl-p2p-level": "auto",
                "gpu.topology/nccl-nvls": "2",
                "gpu.topology/link": "NVSwitch",
                "gpu.topology/bandwidth": "370.8",
                "gpu.topology/ring-order": "0,1",
                "gpu.topology/numa": "0",
                "gpu.topology/satisfied": "true",
            },
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "h20-node-1"},
    }


def test_a_topology_of_any_form_stands_in_for_the_state_directory() -> None:
    topology = STATE / "nodes" / "h20-node-1.json"
    done = gpu_topology("bind", "-f", "-", "--topology", topology, stdin=injected(pod()))
    assert yaml.safe_load(done.out)["metadata"]["annotations"]["gpu.topology/link"] == "NVSwitch"


def test_a_binding_that_would_be_refused_ends_with_1_and_the_reason(tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(injected(pod("h20-node-1", "gpu.topology/profile: node-peers")), encoding="utf-8")
    done = gpu_topology("bind", "-f", manifest, "--node", "dgx1-v100", "--state", STATE)
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "refused: GT312: pod inference/train: the allocation was made for node h20-node-1, "
        "but the pod goes to node dgx1-v100\n"
    )


def test_a_requirement_that_is_not_met_is_told_as_json_too() -> None:
    manifest = injected(
        pod("h20-node-1", 'gpu.topology/min-bandwidth: "500"', "gpu.topology/on-violation: deny"),
    )
    done = gpu_topology("bind", "-f", "-", "--state", STATE, "-o", "json", stdin=manifest)
    assert done.code == 1
    assert json.loads(done.out) == {
        "outcome": "refuse",
        "reason": "requirement-not-met",
        "node": "h20-node-1",
        "link": "NVSwitch",
        "satisfied": False,
        "message": (
            "GT310: pod inference/train on node h20-node-1: min-bandwidth 500: GPU0 and GPU1 have 370.8 GB/s (NVL), "
            "the link class is NVSwitch"
        ),
        "warnings": [],
        "annotations": {},
    }


def test_what_nobody_knows_of_the_node_is_told() -> None:
    done = gpu_topology("bind", "-f", "-", stdin=injected(pod()))
    assert done.code == 0
    assert done.err == (
        "warning: GT314: pod inference/train: "
        "the topology of node h20-node-1 is not known. Is the agent running there?\n"
    )


def test_without_an_allocation_the_node_must_be_named() -> None:
    bare = "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\nspec: {containers: [{name: train}]}\n"
    done = gpu_topology("bind", "-f", "-", stdin=bare)
    assert done.code == 1
    assert done.err == (
        "gpu-topology: standard input: expected an annotation that names the node (hami.io/vgpu-node, "
        'volcano.sh/vgpu-node), found "none". Give --node\n'
    )


@pytest.mark.parametrize("command", ["bind", "inject"])
def test_half_a_character_ends_in_a_sentence(command: str) -> None:
    manifest = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a\\ud800"},"spec":{"containers":[{"name":"c"}]}}'
    done = gpu_topology(command, "-f", "-", stdin=manifest)
    assert done.code == 1
    assert "surrogate" in done.err


def test_what_is_no_pod_is_refused() -> None:
    done = gpu_topology("bind", "-f", "examples/workloads/03-pd-prefill.yaml")
    assert (done.code, done.err) == (
        1,
        "gpu-topology: examples/workloads/03-pd-prefill.yaml: expected one Pod, found Deployment\n",
    )
