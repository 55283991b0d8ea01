"""``report.txt``, as people read it."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.hardware.topology.machines import MACHINES
from tests.programs.remap.pods import EXCLUSIVE, H20, NO_DRIVER, NODE_PEERS, NOT_BOUND, POD_PEERS, judged, told
from webhook.hardware.topology.document import format_topology
from webhook.programs.remap.report import format_report, one_line
from webhook.programs.remap.verify import MachineState, verify

EXPECTED = Path(__file__).parent / "expected"


def test_two_containers_that_were_told_the_truth() -> None:
    changes = {"REQUIRE_NVLINK": "true"}
    report = format_report(told(POD_PEERS, **changes), judged(POD_PEERS, REQUIRE_NVLINK="true"))
    assert report == (EXPECTED / "report-pod-peers.txt").read_text()


def test_a_pod_with_another_gpu_than_it_was_told() -> None:
    inputs = told(NODE_PEERS, CUDA_VISIBLE_DEVICES_1="4,7")
    report = format_report(inputs, judged(NODE_PEERS, CUDA_VISIBLE_DEVICES_1="4,7"))
    assert report.splitlines()[0] == (
        "CUDA_VISIBLE_DEVICES of container decode is 4,7: 7 is GPU7 GPU-5af40c3e-917b-d82c-f6a5-b1e8372d0946, but "
        "HAMi allocated GPU6 GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8"
    )
    assert "  ok       CUDA_VISIBLE_DEVICES of container prefill is 0,1: GPU0 and GPU1\n" in report
    assert "  failed   CUDA_VISIBLE_DEVICES of container decode is 4,7: 7 is GPU7 " in report


def test_a_pod_of_which_nothing_is_known_has_a_report_all_the_same() -> None:
    inputs = told(EXCLUSIVE, NODE_TOPOLOGY="{}", ALLOCATION="")
    verdict = judged(EXCLUSIVE, NODE_TOPOLOGY="{}", ALLOCATION="", seen=NO_DRIVER)
    assert format_report(inputs, verdict, warnings=["no nccl-topo.xml"]) == (
        "ok: nothing is known of the GPUs of this pod, and nothing says that they are wrong\n"
        "\n"
        "profile    exclusive, GPUs given by HAMi\n"
        "node       h20-node-1\n"
        "\n"
        "Checks\n"
        "  ok       HAMi's interception library is not preloaded: /etc/ld.so.preload does not name libvgpu\n"
        "  warning  nothing to verify with: libnvidia-ml.so.1 is not here, and annotation gpu.topology/node-topology "
        "is empty\n"
        "  warning  annotation hami.io/vgpu-devices-allocated names no GPU: HAMi has given this pod none, so nothing "
        "can be verified\n"
        "  warning  no nccl-topo.xml\n"
    )


def test_the_gpus_of_a_node_are_shown_where_those_of_the_pod_are_not_known() -> None:
    report = format_report(told(NODE_PEERS, ALLOCATION=""), judged(NODE_PEERS, ALLOCATION=""))
    assert "\nMatrix\n      GPU0  GPU1  GPU2" in report


def test_containers_with_sets_of_their_own_have_a_line_each() -> None:
    report = format_report(told(EXCLUSIVE), judged(EXCLUSIVE))
    assert (
        "link       GPU0 GPU1: NVSwitch, 370.8 GB/s per direction between GPU0 and GPU1, the weakest pair; ring 0 1\n"
        "link       GPU4 GPU6: NVSwitch, 370.8 GB/s per direction between GPU4 and GPU6, the weakest pair; ring 4 6\n"
    ) in report
    assert "prefill    GPU1  1     GPU-4695a002-ab2d-092d-6db9-44e9ae3cb5a6  0000:2d:00.0  0\n" in report


def test_a_single_gpu_has_no_weakest_pair() -> None:
    changes = {"CONTAINERS": "train:1:", "ALLOCATION": f"{H20[5]},NVIDIA,97871,100:;"}
    report = format_report(
        told(EXCLUSIVE, **changes), judged(EXCLUSIVE, CONTAINERS="train:1:", ALLOCATION=changes["ALLOCATION"])
    )
    assert "link       GPU5: single\n" in report


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_reports_of_all_machines_are_ascii_and_fit_a_terminal(machine: str) -> None:
    topology = MACHINES[machine]
    uuids = [gpu.uuid for gpu in topology.gpus[:2]]
    variables = EXCLUSIVE | {
        "GPU_TOPOLOGY_CONTAINERS": "train:2:",
        "GPU_TOPOLOGY_NODE_NAME": topology.node,
        "GPU_TOPOLOGY_NODE_TOPOLOGY": format_topology(topology),
        "GPU_TOPOLOGY_ALLOCATION": "".join(f"{uuid},NVIDIA,1,100:" for uuid in uuids) + ";",
    }
    report = format_report(told(variables), verify(told(variables), MachineState(topology=topology)))
    assert report.isascii()
    assert max(map(len, report.splitlines())) <= 125
    assert "GPU0*" in report
    assert "GPU2*" not in report


def test_what_a_hostile_node_says_cannot_move_the_cursor() -> None:
    hostile = replace(NO_DRIVER, problem="\x1b[2J\nok: all is well\u202e")
    inputs = told(NODE_PEERS | NOT_BOUND)
    report = format_report(inputs, verify(inputs, MachineState(topology=hostile)))
    assert "\\x1b[2J\\nok: all is well\\u202e" in report
    assert report.isascii()
    assert all(line.isprintable() for line in report.splitlines())


@pytest.mark.parametrize(
    ("text", "line"),
    [("a\nb", "a\\nb"), ("\x00", "\\x00"), ("\udcff", "\\udcff"), ("gr\u00fcn", "gr\\xfcn"), ("a b", "a b")],
)
def test_a_line_holds_nothing_that_a_terminal_obeys(text: str, line: str) -> None:
    assert one_line(text) == line
