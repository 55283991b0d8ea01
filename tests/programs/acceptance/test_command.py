"""``gpu-topology acceptance``, as a stranger runs it, on a machine that the stub of NVML plays."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.nvml.machines import Machine as Played
from tests.nvml.machines import h20, write_machine
from tests.nvml.stub import environment_of

ROOT = Path(__file__).parents[3]
MATRIX = ROOT / "tests/hardware/topology/texts/h20.txt"


class Machine:
    """A machine, without another one with eight H20, and the programs of its driver."""

    def __init__(self, library: Path, directory: Path, played: Played | None = None) -> None:
        self.directory, self.bin = directory, directory / "bin"
        self.bin.mkdir()
        environment = environment_of(library, write_machine(played or h20(), directory / "root"))
        self.environment = {**environment, "PATH": f"{self.bin}:{os.environ['PATH']}", "COLUMNS": "200"}
        self.program("nvidia-smi", f'if [ "$1 $2" = "topo -m" ]; then cat {MATRIX}; else echo "$(hostname) $*"; fi')
        self.program("python-with-torch", "echo no module named torch; exit 1")

    def program(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def acceptance(self, *arguments: str, answers: str = "") -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "webhook", "acceptance", "--python", "python-with-torch", *arguments]
        environment = {**self.environment, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command,
            check=False,
            input=answers,
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
            cwd=self.directory,
        )


@pytest.fixture
def machine(nvml_library: Path, tmp_path: Path) -> Machine:
    return Machine(nvml_library, tmp_path)


def test_what_can_be_tried_is_tried_and_the_rest_says_why(machine: Machine) -> None:
    done = machine.acceptance("--yes", "--output", "found.tar.gz")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all 56 cells between 8 cards are the same" in done.stdout
    with tarfile.open(machine.directory / "found.tar.gz") as archive:
        members = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        content = {name.removeprefix("acceptance/"): file.read() for name, file in members.items() if file}
    assert list(content)[-1] == "RESULT.json"
    result = json.loads(content.pop("RESULT.json"))
    assert result["sha256"] == {name: hashlib.sha256(each).hexdigest() for name, each in content.items()}
    words = {each["claim"]: each["verdict"] for each in result["verdicts"]}
    assert (words["topology"], words["mapping"], words["training"]) == ("holds", "holds", "not tried")
    assert result["machine"]["cards"] == "8 x NVIDIA H20"


def test_one_card_has_its_mapping_tried_and_nothing_between_cards(nvml_library: Path, tmp_path: Path) -> None:
    one = Machine(nvml_library, tmp_path, replace(h20(), cards=h20().cards[:1]))
    one.program("nvidia-smi", "printf '\\tGPU0\\nGPU0\\t X \\n'")
    done = one.acceptance("--yes", "--output", "found.tar.gz")
    assert done.returncode == 0, done.stdout + done.stderr
    with tarfile.open(tmp_path / "found.tar.gz") as archive:
        file = archive.extractfile("acceptance/RESULT.json")
        assert file is not None
        result = json.load(file)
    words = {each["claim"]: each["verdict"] for each in result["verdicts"]}
    assert [claim for claim, word in words.items() if word != "not tried"] == ["mapping"]
    assert words["mapping"] == "holds"
    assert "verify: exit code" not in done.stdout


def test_the_archive_names_no_card_and_no_host(machine: Machine) -> None:
    machine.acceptance("--yes", "--output", "found.tar.gz")
    with tarfile.open(machine.directory / "found.tar.gz") as archive:
        texts = [file.read() for member in archive.getmembers() if (file := archive.extractfile(member))]
    text = b"".join(texts).decode()
    assert "GPU-00000000-0000-0000-0000-000000000001" in text
    assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", text)
    assert not any(card.uuid in text for card in h20().cards)


def test_what_it_would_do_is_shown_and_nothing_is_written(machine: Machine) -> None:
    done = machine.acceptance("--dry-run")
    assert done.returncode == 0
    assert "verify-without-p2p" in done.stdout
    assert not list(machine.directory.glob("*.tar.gz"))


def test_who_says_no_runs_nothing(machine: Machine) -> None:
    done = machine.acceptance(answers="n\n")
    assert "remap-right: exit code" not in done.stdout
    assert not list(machine.directory.glob("*.tar.gz"))


def test_the_content_is_listed_before_it_is_written(machine: Machine) -> None:
    done = machine.acceptance(answers="y\nn\n")
    assert "topology/topology.json" in done.stdout
    assert not list(machine.directory.glob("*.tar.gz"))


def test_a_claim_that_fails_is_an_exit_code(machine: Machine) -> None:
    machine.program("nvidia-smi", f"sed s/NV18/NV4/g {MATRIX}")
    done = machine.acceptance("--yes")
    assert done.returncode == 1
    assert "NV18 here and NV4 there" in done.stdout


def test_a_machine_without_a_driver(machine: Machine) -> None:
    machine.environment.pop("LD_LIBRARY_PATH")
    machine.program("nvidia-smi", "exit 9")
    done = machine.acceptance("--yes")
    assert done.returncode == 2
    assert "nothing else can be tried" in done.stderr


def test_an_archive_that_is_there_already_is_kept(machine: Machine) -> None:
    (machine.directory / "found.tar.gz").write_text("mine")
    done = machine.acceptance("--yes", "--output", "found.tar.gz")
    assert done.returncode == 1
    assert "found.tar.gz cannot be written: File exists. Give another file with --output" in done.stderr
    assert (machine.directory / "found.tar.gz").read_text() == "mine"
