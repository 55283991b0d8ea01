"""``make gpu``, as a person runs it, on machines that the stubs of NVML, CUDA and NCCL play."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.machines import Bench, Way
from tests.cuda.stub import PlayBench
from tests.gpu.archive import MOST_FILES, collected
from tests.gpu.judge import Seen, verdicts
from tests.gpu.model import Step, StepResult, Verdict
from tests.gpu.result import step_result
from tests.gpu.run import run_step
from tests.gpu.steps import TOPOLOGY, first_steps, steps_for
from tests.nvml.machines import h20, hgx_h100, write_machine
from tests.nvml.stub import environment_of
from tests.programs.verify.test_run import BenchOf
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import Gpu, NodeTopology

ROOT = Path(__file__).parents[2]
MATRIX = ROOT / "tests/hardware/topology/texts/h20.txt"
BETWEEN_CARDS = {
    "nccl-cards-plain",
    "nccl-cards-file",
    "ipc-cards",
    "verify",
    "verify-without-p2p",
    "links-before",
    "links-after",
    "training",
}


class Person:
    """A person with a shell on a machine, and the programs of its driver."""

    def __init__(self, directory: Path, environment: Mapping[str, str] = os.environ) -> None:
        self.directory, self.bin = directory, directory / "bin"
        self.bin.mkdir()
        self.environment = {**environment, "PATH": f"{self.bin}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        self.archive = directory / "found.tar.gz"

    def program(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def starts(self, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "tests.gpu", "--output", str(self.archive), "--idle-seconds", "0", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=self.environment, cwd=self.directory)

    def tries(self, *arguments: str) -> tuple[int, str, str]:
        with self.starts(*arguments) as process:
            out, err = process.communicate(timeout=400)
        return process.returncode, out, err

    def files(self) -> dict[str, bytes]:
        with tarfile.open(self.archive) as archive:
            members = {member.name: archive.extractfile(member) for member in archive.getmembers()}
            return {name.removeprefix("gpu/"): file.read() for name, file in members.items() if file}

    def result(self) -> Any:
        return json.loads(self.files()["RESULT.json"])

    def words(self) -> dict[str, str]:
        return {each["step"]: each["verdict"] for each in self.result()["results"]}


@pytest.fixture
def one_card(bench_of: BenchOf) -> Bench:
    machine = hgx_h100()
    bench = bench_of(replace(machine, cards=machine.cards[:1]))
    return bench.with_lines("pair 0 0 1500 pcie 1", "multicast")


@pytest.fixture
def person(tmp_path: Path) -> Person:
    (tmp_path / "shell").mkdir()
    return Person(tmp_path / "shell")


def test_with_one_card_all_that_one_card_can_prove_is_tried(
    one_card: Bench, play_bench: PlayBench, tmp_path: Path
) -> None:
    play_bench(one_card)
    (tmp_path / "shell").mkdir()
    person = Person(tmp_path / "shell")
    code, out, err = person.tries()
    assert code == 0, out + err
    words = person.words()
    holds = {
        *("agent-dry-run", "nvml-table", "local-copy", "ipc-plain", "nccl-file", "nccl-conf", "nccl-plain"),
        *("nccl-broken-file", "nccl-settings"),
        *("multicast", "idle-counters", "remap-right", "remap-wrong", "topology", "topology-file"),
    }
    assert {step for step in holds if words[step] != "holds"} == set()
    assert {step for step in BETWEEN_CARDS if words[step] != "not tried"} == set()
    assert words["nccl-hami-core"] == words["torch-plain"] == "not tried"
    files = person.files()
    assert len(files) <= MOST_FILES
    assert list(files)[-1] == "RESULT.json"
    result = person.result()
    assert result["isWhole"]
    assert result["sha256"] == {
        name: hashlib.sha256(each).hexdigest() for name, each in files.items() if name != "RESULT.json"
    }
    why = next(each["why"] for each in result["results"] if each["step"] == "ipc-plain")
    assert "cuda-ipc/different works" in why
    text = b"".join(files.values()).decode()
    assert "GPU-00000000-0000-0000-0000-000000000001" in text
    assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", text)
    assert one_card.machine.cards[0].uuid not in text


@pytest.mark.parametrize(
    ("line", "step", "verdict", "why"),
    [
        ("error cuMulticastBindMem 801 0", "multicast", "fails", "cuMulticastBindMem returned 801: not supported"),
        ("error ncclCommInitAll 2 0", "nccl-plain", "fails", "ncclCommInitAll returned 2"),
        ("error ncclCommInitAll 1 0", "nccl-broken-file", "fails", "ncclCommInitAll returned 1"),
        ("pair 0 0 1.5 pcie 1", "local-copy", "fails", "no memory of a card has this rate"),
        ("error cuInit 802 0", "multicast", "not tried", "cuInit returned 802: the system is not ready"),
        ("error cuDeviceGetAttribute 999 0", "multicast", "not tried", "cuDeviceGetAttribute returned 999"),
    ],
)
def test_a_probe_says_what_fails_and_what_could_not_be_tried(  # noqa: PLR0917 - the columns of the table
    one_card: Bench, play_bench: PlayBench, tmp_path: Path, line: str, step: str, verdict: str, why: str
) -> None:
    play_bench(one_card.with_lines(line))
    found = step_alone(step, one_card, tmp_path)
    assert (found.verdict, why in found.why) == (verdict, True), found.why


@pytest.mark.parametrize(
    ("refused", "freed"),
    [
        ("cuMulticastAddDevice", ["cuMemRelease"]),
        ("cuMemCreate", ["cuMemRelease"]),
        ("cuMulticastBindMem", ["cuMemRelease", "cuMemRelease"]),
        ("", ["cuMulticastUnbind", "cuMemRelease", "cuMemRelease"]),
    ],
)
def test_what_was_made_of_a_multicast_object_is_freed_where_the_driver_refuses_the_rest(
    one_card: Bench, play_bench: PlayBench, tmp_path: Path, refused: str, freed: list[str]
) -> None:
    play_bench(one_card.with_lines(f"error {refused} 802 0") if refused else one_card)
    step_alone("multicast", one_card, tmp_path)
    done = json.loads((tmp_path / "card/multicast.txt").read_text())["done"]
    made = ["cuMulticastCreate", "cuMulticastAddDevice", "cuMemCreate", "cuMulticastBindMem"]
    assert done == [*made[: made.index(refused) if refused else None], *freed]


def test_a_driver_without_multicast_is_not_tried(one_card: Bench, play_bench: PlayBench, tmp_path: Path) -> None:
    play_bench(replace(one_card, lines=()))
    found = step_alone("multicast", one_card, tmp_path)
    assert (found.verdict, found.why) == ("not tried", "the driver says that this card has no multicast")


def finds(monkeypatch: pytest.MonkeyPatch, folder: Path, here: str = "", there: str = "") -> None:
    """Have the stub of NCCL find the topology that our file has, with a change."""
    command = [sys.executable, "-m", "webhook", "topology", "xml"]
    text = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    (folder / "finds.xml").write_text(text.replace(here, there) if here else text)
    monkeypatch.setenv("STUB_NCCL_FINDS", str(folder / "finds.xml"))


def test_with_eight_cards_all_that_stand_ins_can_play_is_tried(
    bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_bench(bench_of(hgx_h100()).with_lines("pair 0 0 1500 pcie 1", "multicast"))
    finds(monkeypatch, tmp_path)
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    (tmp_path / "shell").mkdir()
    person = Person(tmp_path / "shell")
    code, out, err = person.tries()
    assert code == 0, out + err
    words = person.words()
    lacks = {"nccl-hami-core", "torch-plain", "torch-hami-core", "training", "training-plain", "training-without-p2p"}
    lacks |= {"cards", "nvidia-smi-links", "nvidia-smi-capabilities", "nvidia-smi-p2p", "container-toolkit"}
    lacks |= {"nvidia-smi-topo", "links-before", "links-after"}
    assert {step for step, word in words.items() if word != "holds"} == lacks
    claims = {each["claim"]: each["verdict"] for each in person.result()["verdicts"]}
    assert {claim for claim, word in claims.items() if word == "holds"} == {
        *("topology-file", "mapping", "links", "topology-dump", "topology-effect", "counters"),
    }
    assert set(claims.values()) == {"holds", "not tried"}
    assert "left out of the environment: NCCL_P2P_DISABLE" in out


def test_of_eight_cards_a_call_that_hangs_costs_its_own_step_alone(
    bench_of: BenchOf, play_bench: PlayBench, person: Person
) -> None:
    play_bench(bench_of(hgx_h100()).with_lines("pair 0 0 1500 pcie 1", "multicast", "hang cuMulticastCreate 0"))
    person.environment.update({name: os.environ[name] for name in os.environ if "STUB" in name})
    person.environment |= {"LD_LIBRARY_PATH": os.environ["LD_LIBRARY_PATH"], "PATH": str(person.bin)}
    code, out, err = person.tries("--step-seconds", "10")
    assert code == 1, out + err
    result = person.result()
    found = {each["step"]: (each["verdict"], each["why"]) for each in result["results"]}
    assert found["multicast"] == ("fails", "it was not done after 10 seconds")
    held = {step for step, (verdict, _) in found.items() if verdict == "holds"}
    assert {"local-copy", "ipc-cards", "idle-counters", "nccl-cards-file", "remap-wrong", "verify"} <= held
    assert [step for step, (verdict, _) in found.items() if verdict == "fails"] == ["multicast"]
    claims = {each["claim"]: each["verdict"] for each in result["verdicts"]}
    assert (claims["links"], claims["mapping"], claims["counters"]) == ("holds", "holds", "holds")
    assert result["isWhole"]
    assert "cuda_stub: cuMulticastCreate hangs" in person.files()["card.txt"].decode()


SLOW = Way(gbps=9.0, over="pcie")
"""A pair whose NVLinks carry nothing."""


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param(lambda b: b, ("holds", "holds"), id="sound"),
        pytest.param(lambda b: b.with_ways(0, 1, SLOW), ("fails", "fails"), id="a pair over PCIe"),
        pytest.param(
            lambda b: b.with_ways(0, 1, Way(gbps=370.0, over="half")), ("holds", "fails"), id="half of the bytes"
        ),
        pytest.param(lambda b: b.with_ways(0, 1, replace(SLOW, access=False)), ("fails", "holds"), id="no peer access"),
        pytest.param(lambda b: b.without_counters(), ("holds", "not tried"), id="a driver without counters"),
        pytest.param(lambda b: b.with_lines("corrupt 0 1"), ("fails", "holds"), id="wrong data"),
        pytest.param(
            lambda b: b.with_lines("error cuMemcpyPeerAsync 719 0"), ("not tried", "not tried"), id="no copy at all"
        ),
        pytest.param(lambda b: b.with_lines("error cuInit 802 0"), ("not tried", "not tried"), id="no fabric manager"),
        pytest.param(lambda b: b.on(b.machine.with_lost(3)), ("holds", "holds"), id="a lost card"),
        pytest.param(lambda b: b.on(b.machine.with_mig(3)), ("holds", "holds"), id="a card in MIG mode"),
    ],
)
def test_eight_cards_broken_as_the_stand_ins_know(
    bench_of: BenchOf,
    play_bench: PlayBench,
    tmp_path: Path,
    changed: Callable[[Bench], Bench],
    expected: tuple[str, str],
) -> None:
    play_bench(changed(bench_of(hgx_h100())))
    found = claims_after(("verify",), tmp_path)
    assert (found["links"].verdict, found["counters"].verdict) == expected, found


@pytest.mark.parametrize(
    ("here", "there", "line", "expected"),
    [
        ("", "", "", ("holds", "holds")),
        ('count="18"', 'count="12"', "", ("fails", "holds")),
        ("", "", "error ncclCommInitAll 2 0", ("not tried", "not tried")),
        ("<gpu", "<other", "", ("not tried", "holds")),
    ],
)
def test_the_topology_of_nccl_itself_decides(  # noqa: PLR0917 - the columns of the table
    bench_of: BenchOf,
    play_bench: PlayBench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    here: str,
    there: str,
    line: str,
    expected: tuple[str, str],
) -> None:
    play_bench(bench_of(hgx_h100()).with_lines(*filter(None, [line])))
    finds(monkeypatch, tmp_path, here, there)
    found = claims_after(("topology-file", "nccl-cards-plain", "nccl-cards-file"), tmp_path)
    assert (found["topology-dump"].verdict, found["topology-effect"].verdict) == expected, found


def test_two_processes_with_a_card_each_say_when_nothing_arrives(
    bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path
) -> None:
    play_bench(bench_of(hgx_h100()).with_lines("corrupt 0 1", "corrupt 1 0"))
    step = next(step for step in planned(tmp_path) if step.name == "ipc-cards")
    found = step_result(step, run_step(step, tmp_path), has_gpu=True)
    assert (found.verdict, "wrong-data" in found.why) == ("fails", True), found.why


def planned(folder: Path) -> Sequence[Step]:
    """All steps for the machine that is played now."""
    first = {step.name: step for step in first_steps()}
    assert run_step(first["topology"], folder).is_done
    node = parse_topology((folder / TOPOLOGY).read_text(), source=TOPOLOGY)
    return [*first.values(), *steps_for(node, str(folder), "", seconds=0.0)]


def claims_after(names: Sequence[str], folder: Path) -> Mapping[str, Verdict]:
    """The verdicts after these steps alone, on the machine that is played now."""
    ran = {step.name: run_step(step, folder) for step in planned(folder) if step.name in names}
    return {each.claim: each for each in verdicts(Seen(ran, collected(folder)))}


def test_what_the_time_does_not_suffice_for_is_not_tried(
    one_card: Bench, play_bench: PlayBench, tmp_path: Path
) -> None:
    play_bench(one_card.with_lines("hang cuInit 0"))
    (tmp_path / "shell").mkdir()
    person = Person(tmp_path / "shell")
    code, out, err = person.tries("--minutes", "0.06")
    assert (code, "1 minutes" in err, "0.06 minutes of the run were over: --minutes" in out) == (0, False, True)
    words = person.words()
    assert words["topology"] == "holds"
    assert {words[step] for step in ("multicast", "ipc-isolated", "remap-wrong")} == {"not tried"}
    assert not person.result()["isWhole"]


def step_alone(name: str, bench: Bench, folder: Path) -> StepResult:
    """What becomes of one step on the machine that is played now."""
    node = NodeTopology(node="n", source="nvml", gpus=(Gpu(index=0, uuid=bench.machine.cards[0].uuid),))
    step = next(step for step in steps_for(node, str(folder), "", seconds=0.0) if step.name == name)
    return step_result(step, run_step(step, folder), has_gpu=True)


def test_without_a_gpu_nothing_is_tried_and_the_exit_code_says_so(person: Person) -> None:
    code, out, err = person.tries()
    assert code == 2, err
    assert set(person.words().values()) == {"not tried"}
    assert {"multicast", "ipc-isolated", "verify", "training"} < set(person.words())
    assert "holds" not in out


def test_an_end_in_the_middle_loses_nothing(one_card: Bench, play_bench: PlayBench, tmp_path: Path) -> None:
    play_bench(one_card.with_lines("hang cuInit 0"))
    (tmp_path / "shell").mkdir()
    person = Person(tmp_path / "shell")
    with person.starts() as process:
        assert process.stderr
        for line in process.stderr:
            if line.startswith("nvml-table: "):
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    words = person.words()
    assert (words["nvml-table"], words["multicast"]) == ("holds", "not tried")
    assert not person.result()["isWhole"]


def test_several_cards_are_compared_with_what_the_driver_shows(nvml_library: Path, tmp_path: Path) -> None:
    person = Person(tmp_path, environment_of(nvml_library, write_machine(h20(), tmp_path / "root")))
    person.program("nvidia-smi", f'if [ "$1 $2" = "topo -m" ]; then cat {MATRIX}; else echo "$(hostname) $*"; fi')
    person.tries("--dry-run")
    assert not person.archive.exists()
    code, out, _ = person.tries()
    assert "all 56 cells between 8 cards are the same" in out
    person.archive.unlink()
    person.program("nvidia-smi", f"sed s/NV18/NV4/g {MATRIX}")
    code, out, _ = person.tries()
    assert code == 1
    assert "NV18 here and NV4 there" in out


def test_an_archive_that_is_there_already_is_kept(person: Person) -> None:
    person.archive.write_text("mine")
    code, _, err = person.tries()
    assert code == 2
    assert "is there already; give another file with --output" in err
    assert person.archive.read_text() == "mine"


def test_the_command_that_this_replaces_says_so() -> None:
    command = [sys.executable, "-m", "webhook", "acceptance", "--yes"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, "make gpu" in done.stderr) == (2, True)
