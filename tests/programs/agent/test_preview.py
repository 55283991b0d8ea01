"""What a dry run shows: what the first round would publish."""

import pytest
import yaml

from tests.nvml import machines as played
from tests.nvml.any_driver import AnyMachine
from tests.nvml.machines import Machine
from tests.nvml.stub import Play
from webhook.hardware.discovery.machine import discover
from webhook.hardware.topology.document import parse_topology
from webhook.programs.agent.preview import preview
from webhook.programs.agent.publication import PublishOptions

UUID = "GPU-00000000-0000-0000-0000-000000000003"
SOUND = ["# Node n: label gpu.topology/nvlink=healthy", "# ConfigMap, owned by Node n:"]


@pytest.fixture
def shown(play: Play) -> "Shown":
    return Shown(play)


class Shown:
    """What is shown of a machine."""

    def __init__(self, play: Play) -> None:
        self._play = play

    def __call__(self, machine: Machine, *, cordon: bool = False, taint_devices: bool = False) -> str:
        options = PublishOptions(namespace="ns", cordon=cordon, taint_devices=taint_devices)
        return preview(discover(node="n", root=self._play(machine)), options)

    def head(self, machine: Machine, *, cordon: bool = False, taint_devices: bool = False) -> list[str]:
        text = self(machine, cordon=cordon, taint_devices=taint_devices)
        return [line for line in text.splitlines() if line.startswith("#")]


def test_the_config_map_is_shown_as_it_would_be_published(shown: Shown) -> None:
    text = shown(played.hgx_h100())
    assert text.splitlines()[:2] == SOUND
    config_map = yaml.safe_load(text)
    assert {key: config_map[key] for key in ("apiVersion", "kind", "metadata")} == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "gpu-topology-n", "namespace": "ns", "labels": {"gpu.topology/node": "n"}},
    }
    topology = parse_topology(config_map["data"]["topology.json"], source="test")
    assert (topology.node, len(topology.gpus), topology.gpus[0].active_links) == ("n", 8, 18)
    assert config_map["data"]["nccl-topo.xml"].startswith('<system version="1">\n')


def test_what_is_wrong_is_shown_and_annotations_and_taints_only_where_they_would_be_written(shown: Shown) -> None:
    machine = played.hgx_h100().with_links_down(3, 0, 1)
    degraded = "# Node n: label gpu.topology/nvlink=degraded"
    plain, cordoned = shown.head(machine), shown.head(machine, cordon=True)
    tainted = shown.head(machine, taint_devices=True)
    assert plain == [
        degraded,
        "# Finding: GPU3 has links down: 2 of 18 to nvswitch",
        f"# Event Warning NVLinkDown: GT701: NVLinks are down: GPU3 {UUID}: 16 of 18 links up",
        "# ConfigMap, owned by Node n:",
    ]
    assert cordoned[:3] == [
        degraded,
        f"# Node n: annotation hami.io/device-cordon={UUID}",
        f"# Node n: annotation gpu.topology/cordoned={UUID}=links",
    ]
    assert f"# Event Warning GpuCordoned: GT708: HAMi allocates no more of these GPUs: {UUID}" in cordoned
    assert set(tainted) - set(plain) == {f"# Taint of the devices of {UUID}: gpu.topology/nvlink-down=2:NoSchedule"}
    assert shown.head(played.hgx_h100(), cordon=True, taint_devices=True) == SOUND


def test_links_that_an_a100_does_not_have_are_not_down(shown: Shown) -> None:
    machine = played.hgx_a100().with_slots(18)
    assert shown.head(machine) == SOUND
    assert shown.head(machine.with_links_down(3, 1)) == [
        "# Node n: label gpu.topology/nvlink=degraded",
        "# Finding: GPU3 has links down: 1 of 12 to nvswitch",
        f"# Event Warning NVLinkDown: GT701: NVLinks are down: GPU3 {UUID}: 11 of 12 links up",
        "# ConfigMap, owned by Node n:",
    ]


def test_an_old_driver_that_does_not_count_its_links_is_believed_in_what_it_answers(shown: Shown) -> None:
    head = shown.head(played.hgx_a100().with_slots(18).without_link_count())
    assert "# Node n: label gpu.topology/nvlink=degraded" in head
    assert "# Finding: GPU0 has links down: 6 of 18 to nvswitch" in head


def test_a_lost_gpu_is_told_beside_the_others(shown: Shown) -> None:
    text = shown(played.hgx_h100().with_lost(2))
    assert "# Event Warning GpuLost: GT703: GPUs are lost: GPU2" in text
    topology = parse_topology(yaml.safe_load(text)["data"]["topology.json"], source="test")
    assert (len(topology.gpus), len(topology.lost)) == (7, 1)


@pytest.mark.any_driver
def test_what_is_known_of_any_node_is_shown(any_machine: AnyMachine) -> None:
    text = preview(discover(node="node-1", root=any_machine.root), PublishOptions(namespace=""))
    assert text.splitlines()[0] in [f"# Node node-1: label gpu.topology/nvlink={state}" for state in any_machine.health]
    topology = parse_topology(yaml.safe_load(text)["data"]["topology.json"], source="test")
    assert [gpu.index for gpu in topology.lost] == list(any_machine.lost)
