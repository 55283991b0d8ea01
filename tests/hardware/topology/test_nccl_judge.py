"""NCCL's own parser takes the files that are written for it, and refuses what our check says that it refuses."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.programs.left_out import LeaveOut
from tests.topology.machines import MACHINES
from tests.topology.nccl_files import BRIDGED, SWITCHED
from webhook.topology.nccl.check import check
from webhook.topology.nccl.writer import format_nccl_topology

PARSER = "NCCL_PARSER"
"""Environment variable: a program that has NCCL read the file of its argument, and whose exit code is 0 if NCCL takes
it, otherwise 1 (docs/testing.md)."""
SPOILT = {
    "version": ('version="1"', 'version="2"'),
    "no version": (' version="1"', ""),
    "quotes": ('arch="x86_64"', "arch='x86_64'"),
    "no end": ("</system>", ""),
    "numaid": ('numaid="0" ', ""),
}


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


@pytest.mark.parametrize("text", [SWITCHED, BRIDGED], ids=["switched", "bridged"])
def test_nccl_takes_files_that_people_write(text: str, parser: Path, tmp_path: Path) -> None:
    assert check(text).accepted
    assert takes(parser, tmp_path, text)


@pytest.mark.parametrize("what", SPOILT)
def test_nccl_takes_a_spoilt_file_only_if_our_check_accepts_it(what: str, parser: Path, tmp_path: Path) -> None:
    old, new = SPOILT[what]
    assert old in SWITCHED
    spoilt = SWITCHED.replace(old, new, 1)
    assert takes(parser, tmp_path, spoilt) == check(spoilt).accepted
