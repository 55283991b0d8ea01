"""Tests that are valid for every NVML, run with the other libraries that ``NVML_ASSETS`` names."""

import os
import re
from pathlib import Path

import pytest

from tests.figures import ShowFigures
from tests.go_programs.left_out import LeaveOut
from tests.go_programs.run_apart import run_apart
from tests.nvml.__main__ import make_driver
from tests.nvml.any_driver import ASSETS, AnyMachine, machines_in, other_machine

TESTS = ("tests/hardware/discovery", "tests/programs/agent", "tests/programs/remap")
NAME = "other-nvml"
"""The name in ``CI_MAY_LACK`` of what is missing without ``NVML_ASSETS``."""
ASSETS_GIVEN = os.environ.get(ASSETS, "")
OTHERS = machines_in(Path(ASSETS_GIVEN)) if ASSETS_GIVEN else []


def passed_over(machine: AnyMachine, directory: Path, *options: str) -> int:
    """Returns the number of tests that passed in a process that loads only the NVML of the machine.

    Args:
        machine: The machine that the NVML shows.
        directory: The directory for the files of the run.
        options: Options of pytest that choose some of the tests.

    Raises:
        AssertionError: a test failed, or none was run.
    """
    done = run_apart(directory, "-q", "-m", "any_driver", *TESTS, *options, **machine.environment)
    counted = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0, f"{machine.name}:\n{done.stdout[-12000:]}{done.stderr[-2000:]}"
    assert counted
    return int(counted[1])


def test_the_machines_of_a_directory_are_told_by_their_environment(tmp_path: Path) -> None:
    for name, text in {"b": "SHOW=$directory/x\n", "a": ""}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "environment").write_text(text)
    (tmp_path / "documents").mkdir()
    assert [path.name for path in machines_in(tmp_path)] == ["a", "b"]
    with pytest.raises(FileNotFoundError, match=r"expected libnvidia-ml\.so\.1 there or in"):
        other_machine(tmp_path / "b")
    (tmp_path / "libnvidia-ml.so.1").touch()
    found = other_machine(tmp_path / "b")
    assert (found.environment["SHOW"], found.environment["LD_LIBRARY_PATH"]) == (f"{tmp_path}/b/x", str(tmp_path))
    assert (found.health, found.lost) == (("healthy", "absent"), ())
    (tmp_path / "b" / "expected.json").write_text('{"health": "degraded", "lost": [3]}')
    assert (other_machine(tmp_path / "b").health, other_machine(tmp_path / "b").lost) == (("degraded",), (3,))


@pytest.mark.long
def test_the_stub_is_judged_as_the_library_of_others_would_be(tmp_path: Path, show_figures: ShowFigures) -> None:
    make_driver("gb200_tray", tmp_path / "gb200_tray")
    (machine,) = map(other_machine, machines_in(tmp_path))
    with show_figures():
        print(f"NVML: {passed_over(machine, tmp_path)} tests over the stub in a process of its own")


@pytest.mark.long
def test_a_machine_that_is_not_as_it_is_said_to_be_fails(tmp_path: Path) -> None:
    make_driver("l40s", tmp_path / "l40s")
    (tmp_path / "l40s" / "expected.json").write_text('{"health": "degraded"}')
    with pytest.raises(AssertionError, match=r"test_a_node_is_as_well_as_it_is_known_to_be"):
        passed_over(other_machine(tmp_path / "l40s"), tmp_path, "-k", "as_well_as_it_is_known")


@pytest.mark.parametrize("directory", OTHERS or [None], ids=lambda path: path.name if path else "none")
def test_what_holds_over_every_nvml_holds_over_that_of_others(
    directory: Path | None, leave_out: LeaveOut, tmp_path: Path, show_figures: ShowFigures
) -> None:
    if directory is None:
        leave_out(NAME, f"{ASSETS} names no directory with machines (docs/testing.md)")
    machine = other_machine(directory)
    with show_figures():
        print(f"NVML: {passed_over(machine, tmp_path)} tests over {machine.name} of {ASSETS}")
