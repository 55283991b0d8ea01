"""``make gpu`` on machines that stand-ins for NVML, CUDA and NCCL simulate: sound and broken."""

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cuda.machines import Bench, Way
from tests.cuda.stub import PlayBench
from tests.gpu import nccl
from tests.gpu.outcome import ROOT, Machine, Outcome, Verdict
from tests.gpu.run import Hidden, Run, environment, run_step
from tests.gpu.steps import STEPS
from tests.hardware.topology import machines as topologies
from tests.nvml.machines import Machine as Simulated
from tests.nvml.machines import hgx_h100, in_nvml
from webhook.hardware.topology.matrix import format_matrix, matrix

BY_NAME = {step.name: step for step in STEPS}
SEVERAL = {step.name for step in STEPS if step.gpus > 1}
SEEN = {"multicast", "fabric-handle"}
OF_GPU_0 = "pair 0 0 1500 pcie 1"
PERIOD = 0.5
"""Seconds for which the agent runs at least."""


Simulate = Callable[[Bench], Path]


@pytest.fixture
def simulate(play_bench: PlayBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """A function that simulates a machine with its ``nvidia-smi``; returns the folder of what that prints."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def start(bench: Bench) -> Path:
        play_bench(bench)
        machine, topology = bench.machine, topologies.hgx_h100()
        rows = [
            f"{index}, {gpu.uuid}, {in_nvml(gpu.bus)}, {gpu.name}, {machine.driver}, {gpu.memory_mib}, 9.0"
            for index, gpu in enumerate(machine.cards)
        ]
        topology = replace(topology, gpus=topology.gpus[: len(rows)])
        (folder / "rows").write_text("\n".join(rows) + "\n")
        (folder / "matrix").write_text(format_matrix(matrix(topology)))
        program = folder / "nvidia-smi"
        program.write_text(f'#!/bin/sh\ncase "$1" in --query*) cat {folder}/rows;; topo) cat {folder}/matrix;; esac\n')
        program.chmod(0o755)
        return folder

    return start


@pytest.fixture
def eight(bench_of: Callable[[Simulated], Bench]) -> Bench:
    return bench_of(hgx_h100()).with_lines("pair 7 7 1500 pcie 1", "multicast", "fabric")  # GPU 7 is CUDA's first


@pytest.fixture
def one(bench_of: Callable[[Simulated], Bench]) -> Bench:
    machine = hgx_h100()
    bench = bench_of(replace(machine, cards=machine.cards[:1]))
    return bench.with_lines(OF_GPU_0, "multicast", "fabric")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "run").mkdir()
    return Machine(tmp_path / "run", agent_seconds=PERIOD, idle_seconds=0.0)


def command(archive: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run ``make gpu`` without make."""
    words = [sys.executable, "-m", "tests.gpu", "--output", str(archive), "--agent-seconds", f"{PERIOD}", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=archive.parent)


def members(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as opened:
        files = {member.name.removeprefix("gpu/"): opened.extractfile(member) for member in opened.getmembers()}
        return {name: file.read().decode() for name, file in files.items() if file}


def verdicts(archive: Path) -> dict[str, str]:
    return {row["step"]: row["outcome"]["verdict"] for row in json.loads(members(archive)["RESULT.json"])["steps"]}


def finds(monkeypatch: pytest.MonkeyPatch, text: str, folder: Path) -> None:
    """Have the stand-in for NCCL find this topology by itself."""
    (folder / "finds.xml").write_text(text)
    monkeypatch.setenv("STUB_NCCL_FINDS", str(folder / "finds.xml"))


@pytest.mark.long
def test_of_one_sound_gpu_all_that_it_can_prove_holds(one: Bench, simulate: Simulate, tmp_path: Path) -> None:
    simulate(one)
    done = command(tmp_path / "gpu.tar.gz", "--idle-seconds", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    expected = dict.fromkeys(BY_NAME, "holds") | dict.fromkeys(SEEN, "seen")
    expected |= dict.fromkeys({*SEVERAL, "hami-core", "imex-channel", "nccl-topology"}, "not tried")
    assert verdicts(tmp_path / "gpu.tar.gz") == expected
    files = members(tmp_path / "gpu.tar.gz")
    assert len(done.stdout.splitlines()) == len(files["TABLE.txt"].splitlines()) == len(STEPS)
    assert json.loads(files["RESULT.json"])["isWhole"]
    text = "".join(files.values())
    assert one.machine.cards[0].uuid not in text
    assert "GPU-00000000-0000-0000-0000-000000000001" in text
    assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", text)
    assert "gpu.tar.gz exists" in command(tmp_path / "gpu.tar.gz").stderr


@pytest.mark.long
def test_of_eight_sound_gpus_the_links_hold_too(
    eight: Bench, simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(eight)
    xml = subprocess.run(
        [sys.executable, "-m", "webhook", "topology", "xml"], stdout=subprocess.PIPE, check=True
    ).stdout
    (tmp_path / "finds.xml").write_bytes(xml)
    monkeypatch.setenv("STUB_NCCL_FINDS", str(tmp_path / "finds.xml"))  # what NCCL finds by itself
    done = command(tmp_path / "gpu.tar.gz", "--idle-seconds", "0")
    expected = (
        dict.fromkeys(BY_NAME, "holds")
        | dict.fromkeys(SEEN, "seen")
        | dict.fromkeys(("hami-core", "imex-channel"), "not tried")
    )
    found = verdicts(tmp_path / "gpu.tar.gz")
    assert (found, done.returncode) == (expected, 0), done.stdout


SLOW = Way(gbps=9.0, over="pcie")
"""A pair whose NVLinks carry nothing."""
Change = Callable[[Bench], Bench] | str
"""What breaks a machine; a text is one more line for the stand-in for CUDA."""
WITH_ONE: Sequence[tuple[str, Change, str, str]] = (
    ("local-copy", "pair 0 0 1.5 pcie 1", "fails", "3.0 GB/s read"),
    ("local-copy", "error cuInit 802 0", "not tried", "CUDA does not start"),
    ("multicast", lambda b: replace(b, lines=(OF_GPU_0,)), "seen", "has no multicast"),
    ("multicast", "error cuMulticastBindMem 801 0", "seen", "cuMulticastBindMem returned 801: not supported"),
    ("fabric-handle", lambda b: replace(b, lines=()), "seen", "has no fabric handles"),
    ("nccl-file", "error ncclCommInitAll 2 0", "fails", "ncclCommInitAll returned 2"),
    ("nccl-file nccl-broken-file", "error ncclCommInitAll 1 0", "fails", "ncclCommInitAll returned 1"),
    ("ipc-same", "error cuIpcOpenMemHandle_v2 1 0", "fails", "cuIpcOpenMemHandle_v2 returned 1"),
    ("ipc-equal-pids", "error cuIpcOpenMemHandle_v2 1 0", "fails", "PIDs 1 and 1: cuIpcOpenMemHandle_v2 returned 1"),
    ("ipc-different-pids", "error cuIpcGetMemHandle 1 0", "not tried", "no memory was offered"),
    ("discovery", lambda b: b.on(b.machine.with_lost(0)), "not tried", "no GPU can be seen"),
)
WITH_EIGHT: Sequence[tuple[str, Change, str, str]] = (
    ("verify pairs", lambda b: b.with_ways(0, 1, SLOW), "fails", "not-nvlink"),
    ("verify counted-bytes", lambda b: b.with_ways(0, 1, SLOW), "fails", "0 to 1 of"),
    ("verify counted-bytes", lambda b: b.with_ways(0, 1, Way(gbps=370.0, over="half")), "fails", "0.5 to 1 of"),
    ("verify counted-bytes", lambda b: b.without_counters(), "not tried", "count bytes"),
    ("verify pairs", "corrupt 0 1", "fails", "wrong-data"),
    ("verify pairs", "error cuMemcpyPeerAsync 719 0", "not tried", "no pair"),
    ("pairs", "multicast", "not tried", "wrote no report"),
    ("verify", "error cuInit 802 0", "not tried", "exit code 2: "),
    ("health", lambda b: b.on(b.machine.with_links_down(3, 1, 2)), "fails", "GPU3"),
    ("nccl-file all-reduce", "error ncclCommInitAll 2 0", "not tried", "does not start without the file"),
)


@pytest.mark.long
@pytest.mark.parametrize("broken", [*WITH_ONE, *WITH_EIGHT])
def test_a_broken_machine_is_reported_by_its_step(
    one: Bench, eight: Bench, simulate: Simulate, machine: Machine, broken: tuple[str, Change, str, str]
) -> None:
    steps, change, verdict, why = broken
    bench = one if broken in WITH_ONE else eight
    simulate(bench.with_lines(change) if isinstance(change, str) else change(bench))
    found = after(machine, *steps.split())
    assert (found.verdict, why in found.why) == (verdict, True), found


def after(machine: Machine, *steps: str) -> Outcome:
    """The outcome of the last of these steps, after ``discovery``."""
    return [run_step(BY_NAME[step], machine, 60) for step in dict.fromkeys(("discovery", *steps))][-1]


OTHERWISE = (
    ("rows", ", 9.0", ", 8.0", "discovery", "fails", "GPU 0: compute_cap is '9.0' here and '8.0' there"),
    ("rows", "0, GPU-", "9, GPU-", "discovery", "fails", "nvidia-smi lists GPUs 9, 1, 2, 3, 4, 5, 6, 7; found 0"),
    ("rows", ", ", ";", "discovery", "not tried", "nvidia-smi lists no GPU"),
    ("matrix", "NV18", "NV12", "links", "fails", "GPU0-GPU1 is NV18 here and NV12 there"),
    ("matrix", "GPU", "CPU", "links", "not tried", "nvidia-smi topo -m"),
)


@pytest.mark.long
@pytest.mark.parametrize("row", OTHERWISE)
def test_what_nvidia_smi_says_otherwise_is_reported(
    eight: Bench, simulate: Simulate, machine: Machine, row: tuple[str, ...]
) -> None:
    file, here, there, step, verdict, why = row
    path = simulate(eight) / file
    path.write_text(path.read_text().replace(here, there))
    found = after(machine, step)
    assert (found.verdict, why in found.why) == (verdict, True), found


def test_a_step_that_hangs_costs_no_other_step(
    one: Bench, simulate: Simulate, machine: Machine, tmp_path: Path
) -> None:
    simulate(one.with_lines("hang cuMulticastCreate 0"))
    steps = [replace(BY_NAME["multicast"], seconds=3.0), BY_NAME["fabric-handle"]]
    run = Run(machine, tmp_path / "gpu.tar.gz", minutes=5)
    rows = list(run.steps(steps))
    assert [row.outcome.verdict for row in rows] == ["fails", "seen"]
    assert rows[0].outcome.why.startswith("it was not done after 3 seconds")
    assert (run.exit_code(), run.is_whole) == (1, True)


def test_a_step_that_crashes_fails(machine: Machine) -> None:
    found = run_step(replace(BY_NAME["discovery"], name="no-such-step"), machine, 60)
    assert found.verdict is Verdict.FAILS
    assert found.why.startswith("exit code 2: ")


def test_what_the_time_does_not_suffice_for_is_not_tried(machine: Machine, tmp_path: Path) -> None:
    run = Run(machine, tmp_path / "gpu.tar.gz", minutes=0)
    assert {row.outcome.verdict for row in run.steps()} == {Verdict.NOT_TRIED}
    assert run.exit_code() == 2
    assert "the 0 minutes of the run were over" in members(tmp_path / "gpu.tar.gz")["TABLE.txt"]


def test_the_archive_of_a_run_that_was_ended_says_what_was_not_reached(machine: Machine, tmp_path: Path) -> None:
    run = Run(machine, tmp_path / "gpu.tar.gz", minutes=0)
    next(run.steps())
    result = json.loads(members(tmp_path / "gpu.tar.gz")["RESULT.json"])
    assert (result["isWhole"], result["notReached"]) == (False, [step.name for step in STEPS[1:]])


def test_without_a_driver_nothing_holds(machine: Machine) -> None:
    found = run_step(BY_NAME["discovery"], machine, 60)
    assert (found.verdict, "no GPU can be seen" in found.why) == (Verdict.NOT_TRIED, True), found


def test_steps_get_none_of_a_persons_settings_of_nccl() -> None:
    found = environment({"NCCL_P2P_DISABLE": "1", "NCCL_SOCKET_IFNAME": "eth0", "HOME": "/root"})
    assert "NCCL_P2P_DISABLE" not in found
    assert (found["NCCL_SOCKET_IFNAME"], found["NCCL_CONF_FILE"], found["HOME"]) == ("eth0", os.devnull, "/root")


def test_the_same_uuid_has_the_same_placeholder() -> None:
    one, other = (f"GPU-0123abcd-0000-0000-0000-00000000000{digit}" for digit in "12")
    host = os.uname().nodename
    text = Hidden().text(f"{one} {other} {one} <serial>1234</serial> {host} {host}x")
    first, second = (f"GPU-00000000-0000-0000-0000-00000000000{digit}" for digit in "12")
    assert text == f"{first} {second} {first} <serial>serial</serial> this-node {host}x"


FILE = """<system version="1"><cpu numaid="0"><pci busid="0000:1b:00.0"><gpu dev="0">
<nvlink target="0000:05:00.0" count="9" tclass="0x068000"/><nvlink target="0000:06:00.0" count="9" tclass="0x068000"/>
<nvlink target="0000:2C:00.0" count="4" tclass="0x030200"/></gpu></pci></cpu></system>"""


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        ("", "", ""),
        ('count="4"', 'count="2"', ""),  # NCCL leaves out links to GPUs without a rank
        (
            'target="0000:05:00.0" count="9"',
            'target="0000:05:00.0" count="8"',
            "18 NVLinks to NVSwitches here, and 17",
        ),
        ('numaid="0"', 'numaid="1"', "0 C2C links and NUMA node 0 here, 0 C2C links and NUMA node 1"),
        ("0000:1b:00.0", "0000:1c:00.0", "our file has no GPU 0000:1c:00.0"),
    ],
)
def test_the_topology_of_nccl_itself_is_compared(here: str, there: str, said: str) -> None:
    found = nccl.difference(nccl.read_gpus(FILE), nccl.read_gpus(FILE.replace(here, there)))
    assert said in found
    assert bool(said) == bool(found)


def test_a_text_that_is_no_topology_file_has_no_gpu() -> None:
    assert nccl.read_gpus("<system") == {}
