"""A machine is measured by a process of its own, against stand-ins for the driver and for NCCL."""

import ctypes
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path

import pytest

from tests.cuda.machines import Bench, Way
from tests.cuda.stub import PlayBench
from tests.nvml import machines
from tests.nvml.machines import Machine
from tests.nvml.stub import Play
from webhook.hardware.discovery.machine import discover
from webhook.hardware.measurement.report import BandwidthReport, Pair, Skipped, Verdict, Warn
from webhook.hardware.measurement.verdict import Expectations
from webhook.programs.verify.process import ASK, TOLD, LookAtCuda, MeasurePair, MeasureSet, Method, Supervisor
from webhook.programs.verify.run import NothingToMeasure, Run, Wanted
from webhook.programs.verify.worker import no_library

NOW = datetime(2026, 11, 23, 4, 0, tzinfo=UTC)
QUICK = Method(copies=4, staged_copies=2, samples=3, warm_ups=1, latency_copies=10)

BenchOf = Callable[[Machine], Bench]


class Impatient(Supervisor):
    """It waits for every answer but for those to one kind of request, which never come."""

    def __init__(self, unanswered: type[ASK]) -> None:
        super().__init__()
        self._unanswered = unanswered

    def ask(self, request: ASK, seconds: float) -> TOLD:
        return super().ask(request, 0.1 if isinstance(request, self._unanswered) else seconds)


def measured(root: Path, unanswered: type[ASK] | None = None, **wanted: object) -> BandwidthReport:
    asked = Wanted(node="node-1", root=root, method=QUICK, step_seconds=60.0)
    asked = replace(asked, **wanted)  # type: ignore[arg-type]
    with Impatient(unanswered) if unanswered else Supervisor() as supervisor:
        return Run(supervisor, asked, lambda _: None).report(NOW)


def pair(report: BandwidthReport, one: int, other: int) -> Pair:
    uuids = {card.index: card.uuid for card in report.cards}
    return next(each for each in report.pairs if (each.source, each.target) == (uuids[one], uuids[other]))


def two(machine: Machine) -> Machine:
    """The first two cards of a machine."""
    return replace(machine, cards=machine.cards[:2])


def h100(bench_of: BenchOf) -> Bench:
    return bench_of(two(machines.hgx_h100()))


def test_a_healthy_machine_with_switches_is_as_expected_in_every_pair(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(bench_of(machines.hgx_h100()))
    report = measured(root)
    assert len(report.pairs) == 56
    assert report.is_as_expected
    assert report.sets[0].verdict is Verdict.AS_EXPECTED
    assert report.versions.nccl == "2.27.3"
    found = pair(report, 0, 1)
    assert (found.link, found.expected_gbps, found.warnings) == ("NV18", 370.8, [])
    assert found.measured_gbps == pytest.approx(370.8, rel=0.01)
    assert found.staged_gbps == pytest.approx(9.0, rel=0.01)
    assert found.latency_us == pytest.approx(2.5, rel=0.01)
    assert found.sent_bytes == pytest.approx(found.copied_bytes, rel=0.001)


def test_pairs_of_a_hybrid_mesh_are_judged_by_the_links_that_they_have(
    bench_of: BenchOf, play_bench: PlayBench
) -> None:
    root = play_bench(bench_of(machines.dgx1_v100()))
    report = measured(root)
    assert report.is_as_expected
    assert [pair(report, 0, other).link for other in (1, 3, 5)] == ["NV1", "NV2", "SYS"]


def test_an_all_reduce_over_a_ring_of_nvlinks_is_judged_as_one_though_some_pairs_have_none(
    bench_of: BenchOf, play_bench: PlayBench
) -> None:
    mesh = bench_of(machines.dgx1_v100()).seeing(0, 1, 5, 4)
    (found,) = measured(play_bench(mesh.with_set(Way(gbps=40.0, over="nvlink")))).sets
    assert (found.link, found.verdict, found.warnings) == ("NVLink-partial", Verdict.AS_EXPECTED, [])
    (found,) = measured(play_bench(mesh.with_set(Way(gbps=20.0, over="nvlink")))).sets
    assert (found.verdict, found.warnings) == (Verdict.SLOWER, [])
    (found,) = measured(play_bench(mesh.with_set(Way(gbps=40.0)))).sets
    assert (found.verdict, found.warnings) == (Verdict.NOT_NVLINK, [])


@pytest.mark.long
def test_a_full_board_of_hopper_is_expected_to_let_its_switches_reduce(
    bench_of: BenchOf, play_bench: PlayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = bench_of(machines.hgx_h100()).seeing(*range(6))
    (found,) = measured(play_bench(board.with_set(Way(gbps=450.0, over="half")))).sets
    assert (found.nvls, found.verdict, found.warnings) == (True, Verdict.AS_EXPECTED, [])
    assert found.expected_gbps == pytest.approx(8 * 40 * 0.85 * 10 / 6)
    as_rings = play_bench(board.with_set(Way(gbps=360.0, over="nvlink")))
    (found,) = measured(as_rings).sets
    assert (found.verdict, found.warnings) == (Verdict.SLOWER, [Warn.NO_NVLS])
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    (found,) = measured(as_rings).sets
    assert (found.nvls, found.verdict, found.expected_gbps) == (False, Verdict.AS_EXPECTED, 370.8)


def test_all_reduces_of_several_sizes_are_measured_and_the_largest_is_judged(
    bench_of: BenchOf, play_bench: PlayBench
) -> None:
    bench = h100(bench_of)
    (found,) = measured(play_bench(bench)).sets
    assert [size.reduced_bytes for size in found.smaller] == [1024**2, 16 * 1024**2, 256 * 1024**2]
    assert (found.reduced_bytes, found.reductions) == (1024**3, 1 + 20 * QUICK.rounds)
    assert found.latency_us is not None
    (found,) = measured(play_bench(bench.with_lines(f"free {1536 * 1024**2}"))).sets
    assert found.reduced_bytes == 256 * 1024**2


def test_all_reduces_follow_each_other_unless_they_are_slow(bench_of: BenchOf, play_bench: PlayBench) -> None:
    (found,) = measured(play_bench(h100(bench_of).with_set(Way(gbps=5.0)))).sets
    assert found.reductions == 1 + 4 * QUICK.rounds  # 1 GiB takes 215 ms


def test_the_cpu_that_forwards_copies_is_named_and_a_switch_has_none(bench_of: BenchOf, play_bench: PlayBench) -> None:
    report = measured(play_bench(bench_of(machines.l40s())), all_reduce=False)
    words = {each.link: each.chipset for each in report.pairs}
    assert words["PIX"] is None
    assert words["SYS"].startswith("GenuineIntel family 6 model ")  # type: ignore[union-attr]


def test_an_all_reduce_whose_ring_needs_pcie_is_judged_by_pcie(bench_of: BenchOf, play_bench: PlayBench) -> None:
    bridged = bench_of(machines.a100_pcie_bridged())
    (found,) = measured(play_bench(bridged)).sets
    assert (found.link, found.verdict, found.warnings) == ("NVLink-partial", Verdict.AS_EXPECTED, [])


def test_a_slow_link_is_slower_and_the_others_are_not(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(bench_of(machines.dgx1_v100()).with_ways(0, 3, Way(gbps=17.5, over="nvlink")))
    report = measured(root, all_reduce=False)
    slow = [(one, other) for one, other in permutations(range(8), 2) if pair(report, one, other).verdict == "slower"]
    assert slow == [(0, 3), (3, 0)]
    assert pair(report, 0, 3).ratio == pytest.approx(17.5 / 40, rel=0.01)


def test_counters_that_are_refreshed_late_are_waited_for(bench_of: BenchOf, play_bench: PlayBench) -> None:
    bench = h100(bench_of)
    report = measured(play_bench(bench.on(bench.machine.with_lines("late 3"))))
    found = pair(report, 0, 1)
    assert (found.verdict, found.warnings) == (Verdict.AS_EXPECTED, [])
    assert found.sent_bytes == pytest.approx(found.copied_bytes, rel=0.001)


def test_counters_that_are_not_refreshed_in_time_have_stood_still(bench_of: BenchOf, play_bench: PlayBench) -> None:
    bench = h100(bench_of)
    report = measured(play_bench(bench.on(bench.machine.with_lines("late 1000"))), all_reduce=False)
    assert pair(report, 0, 1).warnings == [Warn.COUNTERS_AT_REST]


def test_a_form_of_counters_that_answers_0_does_not_hide_the_one_that_moves(
    bench_of: BenchOf, play_bench: PlayBench
) -> None:
    bench = h100(bench_of)
    zeros = [f"value {field} {link} ulonglong 0" for field in (202, 204) for link in range(18)]
    machine = bench.machine.with_lines_of_each_card(*zeros)
    found = pair(measured(play_bench(bench.on(machine)), all_reduce=False), 0, 1)
    assert (found.verdict, found.warnings) == (Verdict.AS_EXPECTED, [])


def test_copies_without_peer_access_use_that_of_neither_direction(bench_of: BenchOf, play_bench: PlayBench) -> None:
    report = measured(play_bench(h100(bench_of)), all_reduce=False)
    assert [pair(report, *ends).staged_gbps for ends in ((0, 1), (1, 0))] == pytest.approx([9.0, 9.0], rel=0.01)


def test_an_asymmetric_link_is_slower_in_one_direction(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(h100(bench_of).with_way(0, 1, Way(gbps=185.0, over="nvlink")))
    report = measured(root)
    assert pair(report, 0, 1).verdict is Verdict.SLOWER
    assert pair(report, 1, 0).verdict is Verdict.AS_EXPECTED


def test_without_peer_access_copies_go_through_the_host(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(h100(bench_of).with_ways(0, 1, Way(gbps=1.0, access=False)))
    found = pair(measured(root), 0, 1)
    assert (found.verdict, found.warnings, found.samples_gbps) == (
        Verdict.NOT_NVLINK,
        [Warn.NO_PEER_ACCESS],
        found.staged_samples_gbps,
    )


def test_without_counters_a_rate_well_above_pcie_is_proof_enough(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(h100(bench_of).without_counters())
    found = pair(measured(root), 0, 1)
    assert (found.sent_bytes, found.verdict, found.warnings) == (None, Verdict.AS_EXPECTED, [Warn.NO_COUNTERS])


def test_data_that_arrive_wrong_are_no_measurement(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(h100(bench_of).with_lines("corrupt 0 1"))
    report = measured(root)
    assert pair(report, 0, 1).warnings == [Warn.WRONG_DATA]
    assert pair(report, 1, 0).verdict is Verdict.AS_EXPECTED


def test_a_call_that_hangs_is_ended_and_the_rest_is_measured(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(h100(bench_of).with_lines("hang ncclCommInitAll 0"))
    report = measured(root, MeasureSet)
    assert [(lost.reason, len(lost.cards)) for lost in report.skipped] == [(Skipped.TIMED_OUT, 2)]
    assert len(report.pairs) == 2
    assert not report.is_as_expected


def test_after_three_steps_that_hang_the_rest_is_given_up(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(bench_of(machines.a100_pcie_bridged()).with_lines("hang cuMemcpyPeerAsync 0"))
    report = measured(root, MeasurePair)
    reasons = [lost.reason for lost in report.skipped]
    assert reasons[:3] == [Skipped.TIMED_OUT] * 3
    assert set(reasons[3:]) == {Skipped.GIVEN_UP}


def test_an_error_of_the_driver_in_the_middle_costs_one_pair(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(
        bench_of(replace(machines.hgx_h100(), cards=machines.hgx_h100().cards[:3])).with_lines(
            "error cuCtxEnablePeerAccess 711 5"
        )
    )
    report = measured(root)
    (lost,) = report.skipped
    assert (lost.reason, lost.function, lost.code) == (Skipped.FAILED, "cuCtxEnablePeerAccess", 711)
    assert len(report.pairs) == 5


@pytest.mark.parametrize("said", ["Failed to open /dev/shm: No space left on device", ""])
def test_what_nccl_says_of_its_failure_is_kept(
    bench_of: BenchOf, play_bench: PlayBench, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    root = play_bench(h100(bench_of).with_lines("error ncclCommInitAll 2 0"))
    monkeypatch.setenv("NCCL_STUB_LAST_ERROR", f"{said}\n")
    (lost,) = measured(root).skipped
    assert (lost.reason, lost.function, lost.code) == (Skipped.FAILED, "ncclCommInitAll", 2)
    assert lost.problem == (said or None)


def test_cards_without_memory_for_a_copy_are_skipped(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(h100(bench_of).with_lines("free 1048576"))
    report = measured(root)
    assert {lost.reason for lost in report.skipped} == {Skipped.NO_MEMORY}
    assert not report.is_as_expected


def test_without_nccl_pairs_are_measured_and_sets_are_not(
    bench_of: BenchOf, play_bench: PlayBench, cuda_without_nccl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = play_bench(h100(bench_of))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(cuda_without_nccl))
    report = measured(root)
    assert (report.sets, report.warnings, report.versions.nccl) == ([], [Warn.NO_NCCL], None)
    assert report.is_as_expected


def test_a_card_that_others_use_is_left_alone_unless_forced(bench_of: BenchOf, play_bench: PlayBench) -> None:
    machine = replace(machines.hgx_h100(), cards=machines.hgx_h100().cards[:3])
    used = machine.with_card(1, lines=("processes 2",))
    root = play_bench(bench_of(machine).on(used))
    report = measured(root)
    assert [lost.reason for lost in report.skipped] == [Skipped.BUSY]
    assert {each.source for each in report.pairs} == {machine.cards[0].uuid, machine.cards[2].uuid}
    assert len(measured(root, force=True).pairs) == 6


def test_memory_that_the_driver_keeps_for_itself_is_no_use(bench_of: BenchOf, play_bench: PlayBench) -> None:
    machine = two(machines.hgx_h100())
    root = play_bench(bench_of(machine).on(machine.with_lines_of_each_card(f"reserved {700 * 1024**2}")))
    assert measured(root).skipped == []


@pytest.mark.parametrize(("mib", "skipped"), [(518, []), (947, []), (1025, [Skipped.BUSY, Skipped.BUSY])])
def test_nor_is_it_where_an_old_driver_counts_it_as_used(
    bench_of: BenchOf, play_bench: PlayBench, mib: int, skipped: list[Skipped]
) -> None:
    machine = two(machines.hgx_h100())
    old = machine.with_lines_of_each_card(f"reserved {mib * 1024**2}", "error nvmlDeviceGetMemoryInfo_v2 13")
    root = play_bench(bench_of(machine).on(old))
    if skipped:
        with pytest.raises(NothingToMeasure, match="--force measures all the same"):
            measured(root)
    else:
        assert measured(root, all_reduce=False).skipped == []


def test_a_card_in_mig_mode_is_skipped(bench_of: BenchOf, play_bench: PlayBench) -> None:
    machine = replace(machines.hgx_h100(), cards=machines.hgx_h100().cards[:3])
    root = play_bench(bench_of(machine).on(machine.with_mig(0)))
    report = measured(root)
    assert [lost.reason for lost in report.skipped] == [Skipped.MIG]
    assert len(report.pairs) == 2


def test_cards_are_joined_by_uuid_where_cuda_sees_only_some(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(bench_of(machines.dgx1_v100()).seeing(6, 3, 0))
    report = measured(root)
    assert [lost.reason for lost in report.skipped] == [Skipped.NOT_VISIBLE] * 5
    assert [pair(report, one, other).link for one, other in ((0, 3), (0, 6), (3, 6))] == ["NV2", "SYS", "SYS"]
    assert report.is_as_expected


@pytest.mark.parametrize(
    ("machine", "sentence"),
    [
        (machines.hgx_h100().without_gpus(), "this machine has no GPU to measure: the NVIDIA driver lists no GPU"),
        (replace(machines.hgx_h100(), cards=machines.hgx_h100().cards[:1]), "there is one GPU here"),
        (two(machines.hgx_h100()).with_mig(0), "1 of 2 GPUs can be measured, .*: GPUs in MIG mode have no NVLink"),
        (two(machines.hgx_h100()).with_lines_of_each_card("processes 1"), "none of 2 .* --force measures all the same"),
    ],
    ids=["no GPU", "one GPU", "MIG", "busy"],
)
def test_where_there_is_no_pair_one_sentence_says_why(
    bench_of: BenchOf, play_bench: PlayBench, machine: Machine, sentence: str
) -> None:
    root = play_bench(h100(bench_of).on(machine).seeing(*range(len(machine.cards))))
    with pytest.raises(NothingToMeasure, match=sentence):
        measured(root)


def test_without_the_driver_one_sentence_says_so() -> None:
    absent = "libof-no-driver.so.1"
    with pytest.raises(OSError) as found:  # noqa: PT011 - the text is what is tested
        ctypes.CDLL(absent)
    assert no_library(absent, found.value).sentence == f"{absent} is not here"


def test_a_driver_that_does_not_start_says_why(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(h100(bench_of).with_lines("error cuInit 802 0"))
    with pytest.raises(NothingToMeasure, match=r"cuInit returned 802: .* fabric manager"):
        measured(root)


def test_a_driver_that_hangs_at_once_says_so(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(h100(bench_of).with_lines("hang cuInit 0"))
    with pytest.raises(NothingToMeasure, match=r"CUDA gives no answer within 60 s \(step-timed-out\)"):
        measured(root, LookAtCuda)


def test_a_driver_that_is_there_and_cannot_be_loaded_says_what_the_linker_says(
    bench_of: BenchOf, play_bench: PlayBench, nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = play_bench(h100(bench_of))
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "libcuda.so.1").write_bytes(b"")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{broken}:{nvml_library}")
    with pytest.raises(NothingToMeasure, match=r"libcuda.so.1 cannot be loaded: .*file too short"):
        measured(root)


def test_an_nccl_that_is_there_and_cannot_be_loaded_is_told_in_the_words_of_the_linker(
    bench_of: BenchOf, play_bench: PlayBench, cuda_libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = play_bench(h100(bench_of))
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "libnccl.so.2").write_bytes(b"")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{broken}:{cuda_libraries}")
    report = measured(root)
    (skipped,) = report.skipped
    assert skipped.reason is Skipped.NO_NCCL
    assert "file too short" in (skipped.problem or "")
    assert report.warnings == [Warn.NO_NCCL]


@pytest.mark.parametrize(("number", "nvls"), [(2, False), (4, False), (6, True), (8, True)])
def test_nccl_prefers_nvls_to_rings_on_full_boards_of_hopper_only(play: Play, number: int, nvls: bool) -> None:
    machine = machines.hgx_h100()
    root = play(machine)
    uuids = [card.uuid for card in machine.cards[:number]]
    expectations = Expectations(discover(node="node-1", root=root))
    found, rings = expectations.set(uuids, nvls=True), expectations.set(uuids)
    assert found is not None
    assert rings is not None
    assert (found.ring_gbps, rings.ring_gbps, rings.gbps) == (370.8 if nvls else None, None, 370.8)
    assert found.gbps == pytest.approx({6: 453.3, 8: 476.0}.get(number, 370.8), rel=0.001)
