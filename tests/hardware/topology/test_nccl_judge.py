"""NCCL's own parser takes the files that are written for it, and refuses what our rules say that it refuses."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.go_programs.left_out import LeaveOut
from tests.hardware.topology.machines import MACHINES
from tests.hardware.topology.nccl_files import BRIDGED, GRACE, REFUSED_BY_NCCL, SWITCHED, spoilt
from webhook.hardware.topology.nccl_file import format_nccl_topology

PARSER = "NCCL_PARSER"
"""Environment variable: a program that has NCCL read the file of its argument, and whose exit code is 0 if NCCL takes
it, otherwise 1 (docs/testing.md)."""


@pytest.fixture
def parser(leave_out: LeaveOut) -> Path:
    named = os.environ.get(PARSER)
    if not named:
        leave_out("nccl-parser", f"{PARSER} names no program that has NCCL read a file (docs/testing.md)")
    return Path(named)


def takes(parser: Path, directory: Path, text: str) -> bool:
    (directory / "topo.xml").write_text(text)
    done = subprocess.run([parser, directory / "topo.xml"], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), f"{parser}: expected exit code 0 or 1, found {done.returncode}: {done.stderr}"
    return done.returncode == 0


@pytest.mark.parametrize("name", MACHINES)
def test_nccl_takes_the_file_of_a_machine(name: str, parser: Path, tmp_path: Path) -> None:
    assert takes(parser, tmp_path, format_nccl_topology(MACHINES[name]))


@pytest.mark.parametrize("text", [BRIDGED, SWITCHED, GRACE], ids=["bridged", "switched", "grace"])
def test_nccl_takes_files_written_by_hand(text: str, parser: Path, tmp_path: Path) -> None:
    assert takes(parser, tmp_path, text)


@pytest.mark.parametrize("what", REFUSED_BY_NCCL)
def test_nccl_refuses_a_spoilt_file(what: str, parser: Path, tmp_path: Path) -> None:
    assert not takes(parser, tmp_path, spoilt(what))


def test_nccl_takes_single_quotes_which_older_releases_do_not(parser: Path, tmp_path: Path) -> None:
    assert takes(parser, tmp_path, spoilt("single quotes"))
