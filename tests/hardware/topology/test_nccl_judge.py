"""NCCL's own code takes the files that are written for it, and refuses what our rules say that it refuses.

NCCL is what a program of a person contains, or what libraries of several releases contain: all have to agree.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.go_programs.left_out import LeaveOut
from tests.hardware.topology.machines import MACHINES
from tests.hardware.topology.nccl_facts import (
    BETWEEN_SOCKETS,
    FILE,
    LEVELS,
    NEWEST,
    NO_LEVEL,
    SOCKETS_FROM,
    ReadBy,
    releases,
)
from tests.hardware.topology.nccl_files import BRIDGED, GRACE, REFUSED_BY_NCCL, SWITCHED, spoilt
from tests.hardware.topology.nccl_library import judge, level, version
from webhook.decisions.resolve.nccl import P2P_DEFAULT
from webhook.hardware.topology.nccl_file import format_nccl_topology
from webhook.insight.explain.measurements import NEWEST_NCCL
from webhook.words.version import Version

PARSER = "NCCL_PARSER"
"""Environment variable: a program that has NCCL read the file of its argument, and whose exit code is 0 if NCCL takes
it, otherwise 1 (docs/testing.md)."""
LIBRARIES = "NCCL_LIBRARIES"
"""Environment variable: files libnccl.so.2 of releases, separated as in PATH (docs/testing.md)."""

CPU_MODEL = re.compile(r"(?<=^CPU/)(?P<cpu>[^ ]*) .*")
"""NCCL's own numbers of architecture, vendor and model."""

Takes = Callable[[Path], bool]


@pytest.fixture
def libraries(leave_out: LeaveOut) -> list[Path]:
    """The libraries, the oldest first by the order of the variable."""
    found = _libraries()
    if not found:
        leave_out("nccl-library", f"{LIBRARIES} names no libnccl.so.2 (docs/testing.md)")
    return found


@pytest.fixture
def judges(leave_out: LeaveOut) -> list[Takes]:
    """All that can have NCCL read a file."""
    named = os.environ.get(PARSER)
    found = [*([partial(_parsed, Path(named))] if named else ()), *map(_taken_by, _libraries())]
    if not found:
        leave_out("nccl-parser", f"{PARSER} and {LIBRARIES} name nothing that has NCCL read a file (docs/testing.md)")
    return found


def _libraries() -> list[Path]:
    return [Path(name) for name in os.environ.get(LIBRARIES, "").split(os.pathsep) if name]


def _taken_by(library: Path) -> Takes:
    return lambda file: judge(library, file).result == 0


def _parsed(parser: Path, file: Path) -> bool:
    done = subprocess.run([parser, file], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), f"{parser}: expected exit code 0 or 1, found {done.returncode}: {done.stderr}"
    return done.returncode == 0


def verdicts(judges: list[Takes], directory: Path, text: str) -> set[bool]:
    (directory / "topo.xml").write_text(text)
    return {takes(directory / "topo.xml") for takes in judges}


@pytest.mark.parametrize("name", MACHINES)
def test_nccl_takes_the_file_of_a_machine(name: str, judges: list[Takes], tmp_path: Path) -> None:
    assert verdicts(judges, tmp_path, format_nccl_topology(MACHINES[name])) == {True}


@pytest.mark.parametrize("text", [BRIDGED, SWITCHED, GRACE], ids=["bridged", "switched", "grace"])
def test_nccl_takes_files_written_by_hand(text: str, judges: list[Takes], tmp_path: Path) -> None:
    assert verdicts(judges, tmp_path, text) == {True}


@pytest.mark.parametrize("what", REFUSED_BY_NCCL)
def test_nccl_refuses_a_spoilt_file(what: str, judges: list[Takes], tmp_path: Path) -> None:
    assert verdicts(judges, tmp_path, spoilt(what)) == {False}


def test_nccl_takes_single_quotes_which_older_releases_do_not(judges: list[Takes], tmp_path: Path) -> None:
    assert verdicts(judges, tmp_path, spoilt("single quotes")) == {True}


@pytest.mark.parametrize("name", MACHINES)
def test_all_releases_make_the_same_machine_of_a_file(name: str, libraries: list[Path], tmp_path: Path) -> None:
    """With the same bandwidths, so what we compute as one release does holds for the others."""
    (tmp_path / "topo.xml").write_text(format_nccl_topology(MACHINES[name]))
    machines = {
        tuple(CPU_MODEL.sub(r"\g<cpu>", line) for line in judge(library, tmp_path / "topo.xml").machine)
        for library in libraries
    }
    assert len(machines) == 1
    assert any("GPU/" in line for line in machines.pop())


@pytest.mark.parametrize(("machine", "attribute"), BETWEEN_SOCKETS)
def test_newer_releases_know_newer_sockets(machine: str, attribute: str, libraries: list[Path], tmp_path: Path) -> None:
    name = attribute.partition("=")[0]
    text = re.sub(rf'{name}="\d+"', attribute, format_nccl_topology(MACHINES[machine]))
    (tmp_path / "topo.xml").write_text(text)
    for library in libraries:
        told = "\n".join(judge(library, tmp_path / "topo.xml").machine)
        expected = BETWEEN_SOCKETS[machine, attribute][knows_newer_sockets(library)]
        assert set(re.findall(r"SYS\[([0-9.]+)\]", told)) == {expected}


def test_newer_releases_refuse_amd_without_a_family(libraries: list[Path], tmp_path: Path) -> None:
    """Unless they run on such a machine, and ask its CPU; we always write the family."""
    (tmp_path / "topo.xml").write_text(re.sub(r' familyid="\d+"', "", format_nccl_topology(MACHINES["hgx-a100"])))
    for library in libraries:
        assert (judge(library, tmp_path / "topo.xml").result == 0) != knows_newer_sockets(library)


def knows_newer_sockets(library: Path) -> bool:
    return Version.parse(version(library), source="library") >= Version.parse(SOCKETS_FROM, source="fact")


def test_all_releases_read_the_same_levels(libraries: list[Path]) -> None:
    for library in libraries:
        assert {text: level(library, text) for text in LEVELS} == LEVELS, version(library)


def test_no_release_knows_the_word_that_keeps_its_default(libraries: list[Path]) -> None:
    assert {level(library, P2P_DEFAULT) for library in libraries} == {NO_LEVEL}


def test_the_releases_are_those_of_the_facts(libraries: list[Path]) -> None:
    """Another one was judged too: write it into the table of facts."""
    assert {version(library) for library in libraries} <= set(releases(ReadBy.LIBRARY))


def test_the_program_names_the_newest_release_of_the_facts() -> None:
    assert str(NEWEST_NCCL) == NEWEST


def test_the_page_tells_the_releases_of_each_judge() -> None:
    page = (Path(__file__).parents[3] / "docs" / "nccl.md").read_text(encoding="utf-8")
    assert [line for line in _lines() if line not in page] == []


def _lines() -> Iterator[str]:
    for judged in ReadBy:
        *others, last = releases(judged)
        yield f"{', '.join(others)} and {last}"
    yield f"| the file of topologies | {FILE} |"
