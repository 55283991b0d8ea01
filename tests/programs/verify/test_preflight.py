"""The preflight over stand-ins for the driver, which refuse what drivers were seen to refuse."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cuda.machines import Bench
from tests.cuda.stub import PlayBench, bench_of, cuda_libraries, play_bench
from tests.nvml import machines
from tests.programs.verify.test_run import BenchOf, h100, two
from webhook.hardware.topology.model import Preflight, Trial, TrialResult
from webhook.programs.verify import preflight
from webhook.programs.verify.here import NothingToMeasure
from webhook.programs.verify.preflight import tried

__all__ = ["bench_of", "cuda_libraries", "play_bench"]

AT = "2026-11-26T16:00:00Z"
WORKS = Trial(result=TrialResult.WORKS)


@pytest.fixture
def bench(bench_of: BenchOf) -> Bench:
    """Two cards behind NVSwitches, with all that a preflight tries."""
    return h100(bench_of).with_lines("multicast", "fabric")


@pytest.fixture
def capabilities(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The directory of the driver's capabilities in the agent's container; not there yet."""
    path = tmp_path / "nvidia-caps"
    monkeypatch.setattr(preflight, "CAPABILITIES", path)
    return path


def found(root: Path, paused: list[float] | None = None) -> Preflight:
    return tried("node-1", root, AT, pause=(paused if paused is not None else []).append)


def unknown(problem: str) -> Trial:
    return Trial(result=TrialResult.UNKNOWN, problem=problem)


def fails(problem: str) -> Trial:
    return Trial(result=TrialResult.FAILS, problem=problem)


def test_where_the_driver_keeps_its_promises_both_work(bench: Bench, play_bench: PlayBench) -> None:
    assert found(play_bench(bench)) == Preflight(at=AT, multicast=WORKS, fabric=WORKS)


@pytest.mark.parametrize("function", ["cuMulticastAddDevice", "cuMulticastBindMem"])
def test_a_sick_fabric_manager_is_a_fault_of_the_node(bench: Bench, play_bench: PlayBench, function: str) -> None:
    """As in nccl #1788 and pytorch #177472."""
    assert found(play_bench(bench.with_lines(f"error {function} 401 0"))).multicast == fails(
        f"{function} returned 401: the operation is not possible in the present state: does the fabric manager run, "
        "and do the NVSwitches work?"
    )


def test_a_container_without_capabilities_says_nothing_of_the_node(
    bench: Bench, play_bench: PlayBench, capabilities: Path
) -> None:
    """As in pie #500."""
    multicast = found(play_bench(bench.with_lines("error cuMulticastCreate 1 0"))).multicast
    assert multicast.result is TrialResult.UNKNOWN
    assert multicast.problem.startswith("cuMulticastCreate returned 1: ")
    assert multicast.problem.endswith(f"; the agent's container has no {capabilities}")
    capabilities.mkdir()
    assert found(play_bench(bench.with_lines("error cuMulticastCreate 1 0"))).multicast == multicast


@pytest.mark.parametrize(
    ("code", "words"), [(304, "a call of the operating system failed"), (800, "not permitted")], ids=["system", "right"]
)
def test_what_a_container_may_be_refused_says_nothing_of_the_node(
    bench: Bench, play_bench: PlayBench, capabilities: Path, code: int, words: str
) -> None:
    capabilities.mkdir()
    (capabilities / "nvidia-cap1").touch()
    multicast = found(play_bench(bench.with_lines(f"error cuMulticastCreate {code} 0"))).multicast
    assert multicast == unknown(f"cuMulticastCreate returned {code}: {words}")


def test_the_same_refusal_in_a_container_with_capabilities_is_a_fault_of_the_node(
    bench: Bench, play_bench: PlayBench, capabilities: Path
) -> None:
    capabilities.mkdir()
    (capabilities / "nvidia-cap1").touch()
    multicast = found(play_bench(bench.with_lines("error cuMulticastCreate 1 0"))).multicast
    assert multicast.result is TrialResult.FAILS
    assert str(capabilities) not in multicast.problem


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("error cuMemCreate 2 0", "cuMemCreate returned 2: out of memory"),
        ("error cuMulticastBindMem 2 0", "cuMulticastBindMem returned 2: out of memory"),
        ("error cuDevicePrimaryCtxRetain 999 0", "cuDevicePrimaryCtxRetain returned 999: unknown error"),
    ],
)
def test_what_the_machine_of_the_moment_refuses_is_not_known(
    bench: Bench, play_bench: PlayBench, line: str, problem: str
) -> None:
    assert found(play_bench(bench.with_lines(line))).multicast == unknown(problem)


def test_a_driver_that_promises_nothing_is_not_tried(bench_of: BenchOf, play_bench: PlayBench) -> None:
    both = found(play_bench(h100(bench_of)))
    assert both.multicast == unknown("the driver says that these GPUs have no multicast")
    assert both.fabric == unknown("cuMemCreate returned 801: not supported")


def test_to_ask_for_the_promise_no_memory_of_a_card_is_taken(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(h100(bench_of).with_lines("error cuDevicePrimaryCtxRetain 2 0"))
    assert found(root).multicast == unknown("the driver says that these GPUs have no multicast")


def test_a_fabric_manager_that_is_not_ready_is_asked_three_times(bench: Bench, play_bench: PlayBench) -> None:
    paused: list[float] = []
    both = found(play_bench(bench.with_lines("error cuMulticastBindMem 802 0")), paused)
    assert both.multicast.result is TrialResult.FAILS
    assert len(paused) == 2
    assert both.fabric == WORKS


def test_a_driver_that_hangs_ends_nothing(bench: Bench, play_bench: PlayBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "STEP_SECONDS", 2.0)
    multicast = found(play_bench(bench.with_lines("hang cuMulticastBindMem 0"))).multicast
    assert multicast == unknown("the process that tries it gave no answer within 2 s (step-timed-out)")


def test_a_card_that_others_use_is_left_alone(bench: Bench, play_bench: PlayBench) -> None:
    used = bench.machine.with_card(1, lines=("processes 2",))
    with pytest.raises(NothingToMeasure, match=r"^1 of 2 GPUs with NVLink SHARP are free, and a trial needs 2$"):
        found(play_bench(bench.on(used)))


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (two(machines.hgx_a100()), "0 of 0 GPUs with NVLink SHARP are free"),
        (replace(machines.hgx_h100(), cards=()), "this machine has no GPU to measure"),
    ],
    ids=["Ampere", "no card"],
)
def test_where_nccl_has_no_nvlink_sharp_nothing_is_tried(
    bench_of: BenchOf, play_bench: PlayBench, machine: machines.Machine, words: str
) -> None:
    with pytest.raises(NothingToMeasure, match=words):
        found(play_bench(bench_of(machine).with_lines("multicast")))
