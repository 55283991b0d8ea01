"""``gpu-topology verify``, which measures in processes of its own."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command import ROOT, Done, gpu_topology
from tests.cuda.machines import Way
from tests.cuda.stub import PlayBench
from tests.nvml import machines
from tests.programs.verify.test_run import BenchOf, h100, two
from webhook.hardware.measurement.report import Skipped, parse_report


def verify(*arguments: str | Path) -> Done:
    """The command, with the environment of this process, in which the stubs are."""
    return gpu_topology("verify", *arguments, env=os.environ | {"COLUMNS": "200"})


@pytest.fixture
def healthy(bench_of: BenchOf, play_bench: PlayBench) -> Path:
    return play_bench(h100(bench_of))


def test_a_healthy_machine_ends_with_0_and_shows_a_matrix(healthy: Path) -> None:
    done = verify("--root", healthy, "--samples", "2", "--node", "node-1")
    assert (done.code, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines()]
    assert rows[1:4] == [["GPU0", "GPU1"], ["GPU0", "X", "369.5"], ["GPU1", "369.5", "X"]]
    assert "all-reduce of 2 GPUs: busbw 370.8 GB/s" in done.out


def test_a_pair_without_nvlink_ends_with_1_and_is_marked(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(h100(bench_of).with_way(0, 1, Way(gbps=48.0)))
    done = verify("--root", root, "--samples", "2")
    assert done.code == 1
    assert "! not-nvlink" in done.out
    assert "GPU0 to GPU1: not-nvlink; measured 48.0 GB/s, expected 370.8 GB/s over NV18, NVLink moved 0.00" in done.out


def test_nothing_to_measure_ends_with_2_and_one_sentence(bench_of: BenchOf, play_bench: PlayBench) -> None:
    machine = machines.hgx_h100()
    root = play_bench(h100(bench_of).on(replace(machine, cards=machine.cards[:1])).seeing(0))
    done = verify("--root", root)
    assert (done.code, done.out) == (2, "")
    assert done.err == "gpu-topology: there is one GPU here, and what is measured is the way between two\n"


def test_a_report_is_saved_shown_and_compared(
    healthy: Path, bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path
) -> None:
    saved = tmp_path / "before.json"
    assert verify("--root", healthy, "--samples", "2", "--save", saved).code == 0
    root = play_bench(h100(bench_of).with_way(1, 0, Way(gbps=345.0, over="nvlink")))
    done = verify("--root", root, "--samples", "2", "--against", saved, "-o", "json")
    assert done.code == 1
    assert parse_report(done.out.encode(), source="output").is_as_expected
    assert "compared with the earlier report: 3 measurements, 1 became slower" in done.err
    assert "GPU1 to GPU0: 369.5 GB/s before, 343.9 now (0.93)" in done.err


def test_a_report_against_itself_has_nothing_slower(healthy: Path, tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    verify("--root", healthy, "--samples", "2", "--save", saved)
    done = verify("-f", saved, "--against", saved)
    assert (done.code, done.err) == (0, "compared with the earlier report: 3 measurements, 0 became slower\n")


@pytest.fixture
def hanging(bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """The command, which hangs in the all-reduce after all pairs, and saves its report."""
    root = play_bench(h100(bench_of).with_lines("hang ncclCommInitAll 0"))
    command = [sys.executable, "-m", "webhook", "verify", "--root", root, "--samples", "1", "-o", "json"]
    command += ["--save", tmp_path / "report.json"]
    # A run of the tests in the background ignores SIGINT, and its children would do so too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as found:
        signal.signal(signal.SIGINT, before)
        assert found.stderr
        for line in found.stderr:
            if "ncclCommInitAll hangs" in line:
                break
        yield found
        found.kill()


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_who_ends_it_gets_what_was_measured(hanging: "subprocess.Popen[str]", how: signal.Signals) -> None:
    hanging.send_signal(how)
    out, _ = hanging.communicate(timeout=60)
    assert hanging.returncode == 1
    report = parse_report(out.encode(), source="output")
    assert (len(report.pairs), report.sets) == (2, [])
    assert [each.reason for each in report.skipped] == [Skipped.INTERRUPTED]


def test_a_saved_report_has_each_result_at_once(hanging: "subprocess.Popen[str]", tmp_path: Path) -> None:
    hanging.kill()
    hanging.wait()
    report = parse_report((tmp_path / "report.json").read_bytes(), source="file")
    assert (len(report.pairs), report.is_as_expected) == (2, False)


def test_each_result_is_shown_on_a_terminal_as_it_comes(healthy: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "webhook", "verify", "--root", str(healthy), "--samples", "1", "-o", "json"]
    with open(theirs, "wb", closefd=True) as terminal:  # noqa: PTH123 - a descriptor
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=terminal, timeout=120, check=True, cwd=ROOT)
        shown = os.read(ours, 65536).decode().splitlines()
    os.close(ours)
    assert [line.split(";")[0] for line in shown if line.startswith("GPU")] == [
        "GPU0 to GPU1: as-expected",
        "GPU1 to GPU0: as-expected",
    ]
    assert shown[-1].startswith("all-reduce of 2 GPUs: busbw 370.8 GB/s")


def test_names_of_variables_are_told_and_values_are_not(healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_SECRET_OF_MINE", "do-not-tell-1234")
    done = verify("--root", healthy, "--samples", "1", "-o", "json")
    assert '"NCCL_SECRET_OF_MINE"' in done.out
    assert "do-not-tell-1234" not in done.out


def test_a_file_that_is_no_report_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "pod.json").write_text('{"apiVersion": "v1", "kind": "Pod"}')
    done = verify("-f", tmp_path / "pod.json")
    assert done.code == 1
    assert 'expected BandwidthReport of gpu.topology/v1, found "Pod of v1"' in done.err


def test_a_report_that_cannot_be_written_is_an_error(healthy: Path, tmp_path: Path) -> None:
    done = verify("--root", healthy, "--samples", "1", "--save", tmp_path / "none" / "report.json")
    assert done.code == 1
    assert "the report cannot be written: No such file or directory" in done.err


def test_only_the_gpus_that_are_asked_for_are_measured(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(bench_of(machines.dgx1_v100()))
    done = verify("--root", root, "--samples", "1", "--gpus", "0,3", "--no-all-reduce")
    assert done.out.splitlines()[1].split() == ["GPU0", "GPU3"]
    assert two(machines.dgx1_v100()).cards[1].uuid not in done.out


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--listen", "127.0.0.1:1", "--size", "64"), "--size"),
        (("--peer", "127.0.0.1:1", "--against", "report.json"), "--against"),
        (("--peer", "127.0.0.1:1", "--no-all-reduce"), "--all-reduce"),
        (("--listen", "127.0.0.1:1", "--publish", "train"), "--publish"),
        (("-f", "report.json", "--gpus", "0,1"), "--gpus"),
        (("-f", "report.json", "--force"), "--force"),
        (("--kubeconfig", "config"), "--kubeconfig"),
        (("-n", "team-a"), "--namespace"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(arguments: tuple[str, ...], option: str) -> None:
    done = verify(*arguments)
    assert done.code == 2
    assert f"Invalid value for {option}: it has no effect here" in " ".join(done.err.replace("│", " ").split())


def test_options_that_a_variable_gives_are_refused_nowhere(
    healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "report.json"
    verify("--root", healthy, "--samples", "2", "--save", saved)
    monkeypatch.setenv("NODE_NAME", "node-1")
    assert verify("-f", saved).code == 0
