"""Allocations that HAMi's NUMA refit changed after the Binding: what goes on, and what stops with which sentence."""

from dataclasses import replace

import msgspec
import pytest

from tests.decisions.bind.test_binding import hami, injected
from tests.hardware.topology.machines import a100_pcie_bridged, h20, uuid
from tests.judge import TEAM_A
from tests.nvml.machines import h20 as played
from tests.pods import ALL_ALLOWED, container
from tests.programs.remap.conftest import Drivers
from tests.programs.remap.pods import (
    DECODE,
    EXCLUSIVE,
    H20,
    NARROW,
    NO_DRIVER,
    NODE_PEERS,
    POD_PEERS,
    allocated,
    judged,
)
from tests.programs.remap.processes import Node
from tests.programs.remap.test_program import OnNode, on
from tests.programs.remap.test_whole_way import bound, started
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.pod import Namespace, Pod
from webhook.programs.remap.inputs import read_inputs
from webhook.programs.remap.verdict import ExitCode
from webhook.words.errors import FormatError

__all__ = ["on"]

FIRST = POD_PEERS["GPU_TOPOLOGY_VISIBLE_UUIDS"]
"""The cards of the Binding."""
MOVED = allocated((H20[2], H20[3]), DECODE)
"""The allocation once a refit has moved the first container."""
ALIGNED = {"GPU_TOPOLOGY_NUMA_ALIGNMENT": "best-effort"}
WIDE = EXCLUSIVE | ALIGNED | {"GPU_TOPOLOGY_BOUND_UUIDS": FIRST}
"""A pod of ``exclusive`` whose remap container sees all cards of the node."""
WAY_OUT = (
    ". HAMi's NUMA refit may have changed the allocation after the Binding (hami.io/numa-alignment: best-effort): "
    "remove hami.io/numa-alignment from the template and create the pod again; gpu.topology/policy: single-numa asks "
    "for GPUs of one NUMA node before the Binding"
)
GONE_ON = (
    f"the allocation was changed after the Binding, from GPU0 {H20[0]}, GPU1 {H20[1]}, GPU4 {H20[4]}, GPU6 {H20[6]} to "
    f"GPU2 {H20[2]}, GPU3 {H20[3]}, GPU4 {H20[4]}, GPU6 {H20[6]}, as HAMi's NUMA refit does (hami.io/numa-alignment: "
    "best-effort). The new one is judged, and written into the files"
)
FROM_ANNOTATIONS = "; NCCL's variables that containers read from annotations are still those of the Binding"


def seeing(*indices: int) -> NodeTopology:
    """What NVML lists in a container that sees only these GPUs."""
    gpus = [h20().gpus[index] for index in indices]
    return replace(h20(), gpus=tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus)), nics=())


def test_an_exclusive_pod_goes_on_with_the_new_cards_that_the_driver_shows() -> None:
    verdict = judged(WIDE, ALLOCATION=MOVED)
    assert (verdict.code, verdict.warnings) == (ExitCode.TRUE, (GONE_ON + FROM_ANNOTATIONS,))
    assert verdict.resolution is not None
    assert [gpu.index for gpu in verdict.resolution.gpus] == [2, 3, 4, 6]


def test_values_from_the_file_are_those_of_the_new_cards() -> None:
    verdict = judged(WIDE, ALLOCATION=MOVED, ENVIRONMENT="file")
    assert (verdict.code, verdict.warnings) == (ExitCode.TRUE, (GONE_ON,))


def test_an_exclusive_pod_that_was_not_moved_has_nothing_to_tell() -> None:
    for variables in (WIDE, NARROW | ALIGNED):
        verdict = judged(variables)
        assert (verdict.code, verdict.warnings) == (ExitCode.TRUE, ())


@pytest.mark.parametrize("told", ["", "none"])
def test_a_pod_that_bind_has_not_seen_is_not_said_to_be_moved(told: str) -> None:
    verdict = judged(WIDE, ALLOCATION=MOVED, BOUND_UUIDS=told)
    assert (verdict.code, verdict.warnings) == (ExitCode.TRUE, ())


def test_new_cards_that_are_not_shown_stop_an_exclusive_pod_with_the_way_out() -> None:
    verdict = judged(
        NARROW | ALIGNED, seen=seeing(0, 1), ALLOCATION=allocated((H20[2],), (H20[3],)), CONTAINERS="a:1:,b:1:"
    )
    assert verdict.code is ExitCode.OTHER_GPUS
    assert verdict.reason.endswith(WAY_OUT)


def test_some_new_cards_that_are_not_shown_stop_it_too() -> None:
    verdict = judged(NARROW | ALIGNED, seen=seeing(0, 1, 4, 6), ALLOCATION=MOVED)
    assert verdict.code is ExitCode.OTHER_GPUS
    assert verdict.reason.endswith(WAY_OUT)


def test_a_list_that_the_runtime_ignores_does_not_stop_it() -> None:
    verdict = judged(NARROW | ALIGNED, ALLOCATION=MOVED)
    assert (verdict.code, verdict.warnings) == (ExitCode.TRUE, (GONE_ON + FROM_ANNOTATIONS,))


def test_without_the_annotation_other_cards_stop_it_as_ever() -> None:
    for seen in (h20(), seeing(0, 1, 4, 6)):
        verdict = judged(NARROW, seen=seen, ALLOCATION=MOVED)
        assert verdict.code is ExitCode.OTHER_GPUS
        assert "refit" not in verdict.reason


def test_an_annotation_is_not_believed_where_the_driver_shows_no_card() -> None:
    verdict = judged(NARROW | ALIGNED, seen=NO_DRIVER, ALLOCATION=MOVED)
    assert verdict.code is ExitCode.OTHER_GPUS
    assert verdict.reason.endswith(WAY_OUT)


def test_a_new_card_that_is_not_on_the_node_stops_it() -> None:
    verdict = judged(WIDE, ALLOCATION=allocated(("GPU-elsewhere", H20[3]), DECODE))
    assert verdict.code is ExitCode.GPU_MISSING


@pytest.mark.parametrize("variables", [POD_PEERS, NODE_PEERS], ids=["pod-peers", "node-peers"])
def test_peers_see_the_first_cards_and_stop_with_the_way_out(variables: dict[str, str]) -> None:
    assert judged(variables | ALIGNED).warnings == ()
    verdict = judged(variables | ALIGNED, ALLOCATION=MOVED)
    assert verdict.code is ExitCode.OTHER_GPUS
    assert verdict.reason.endswith(WAY_OUT)
    assert "refit" not in judged(variables, ALLOCATION=MOVED).reason


@pytest.mark.parametrize("variables", [POD_PEERS, NODE_PEERS], ids=["pod-peers", "node-peers"])
def test_peers_that_read_the_file_get_the_new_cards(variables: dict[str, str]) -> None:
    verdict = judged(variables | ALIGNED, ALLOCATION=MOVED, ENVIRONMENT="file")
    assert verdict.code is ExitCode.TRUE
    assert any(
        text.endswith("Containers read the value from the file env, which is right") for text in verdict.warnings
    )


BRIDGED = {
    **ALIGNED,
    "GPU_TOPOLOGY_PROFILE": "exclusive",
    "GPU_TOPOLOGY_CONTAINERS": "train:2:",
    "GPU_TOPOLOGY_REQUIRE_NVLINK": "true",
    "GPU_TOPOLOGY_NODE_NAME": "a100-pcie",
    "GPU_TOPOLOGY_NODE_TOPOLOGY": format_topology(a100_pcie_bridged()),
    "GPU_TOPOLOGY_BOUND_UUIDS": f"{uuid(0)},{uuid(1)}",
}


@pytest.mark.parametrize(
    ("cards", "on_violation", "code"),
    [((0, 2), "deny", ExitCode.REQUIREMENT), ((0, 2), "warn", ExitCode.TRUE), ((2, 3), "deny", ExitCode.TRUE)],
)
def test_requirements_are_judged_on_the_new_cards(cards: tuple[int, int], on_violation: str, code: ExitCode) -> None:
    given = allocated([uuid(index) for index in cards])
    verdict = judged(BRIDGED, seen=a100_pcie_bridged(), ALLOCATION=given, ON_VIOLATION=on_violation)
    assert verdict.code is code
    assert any("changed after the Binding" in text for text in verdict.warnings)


def test_a_word_that_hami_does_not_know_is_no_alignment() -> None:
    with pytest.raises(FormatError, match="GPU_TOPOLOGY_NUMA_ALIGNMENT"):
        read_inputs(WIDE | {"GPU_TOPOLOGY_NUMA_ALIGNMENT": "Strict"})


def aligned(namespace: Namespace) -> Pod:
    """A pod whose allocation a refit changed after its Binding."""
    pod = injected(
        container("train"),
        allocated=hami([H20[0], H20[1]]),
        annotations={"hami.io/numa-alignment": "strict"},
        namespace=namespace,
    )
    after = bound(pod, h20())
    assert after.metadata is not None
    changed = after.annotations | {"hami.io/vgpu-devices-allocated": hami([H20[5], H20[7]])}
    return msgspec.structs.replace(after, metadata=msgspec.structs.replace(after.metadata, annotations=changed))


def test_from_admission_on_the_program_knows_what_it_needs_to_go_on(drivers: Drivers) -> None:
    verdict = started(drivers, aligned(ALL_ALLOWED), "h20-node-1")
    assert verdict.code is ExitCode.TRUE
    (said,) = verdict.warnings
    assert said.startswith(f"the allocation was changed after the Binding, from GPU0 {H20[0]}, GPU1 {H20[1]} to GPU5 ")


def test_where_it_sees_the_first_cards_only_it_names_the_refit(drivers: Drivers) -> None:
    verdict = started(drivers, aligned(TEAM_A), "h20-node-1")
    assert verdict.code is ExitCode.OTHER_GPUS
    assert verdict.reason.endswith(WAY_OUT.replace("best-effort", "strict"))


@pytest.fixture
def node(on: OnNode) -> Node:
    return on(played())


def test_the_files_are_those_of_the_new_cards(node: Node) -> None:
    tables = '{"variables":{"NCCL_ALGO":{"nvlink":"Ring","nvswitch":"NVLS","pcie":"Tree"}}}'
    done = node.remap(WIDE | {"GPU_TOPOLOGY_ALLOCATION": MOVED, "GPU_TOPOLOGY_NCCL": tables})
    assert (done.code, done.err, done.reason) == (0, "", "")
    assert node.files() == ["env", "nccl-topo.xml", "report.txt"]
    assert "NCCL_ALGO='NVLS'\n" in node.read("env")
    report = node.read("report.txt")
    assert f"  warning  {GONE_ON}" in report
    assert f"GPU2  0     {H20[2]}" in report
