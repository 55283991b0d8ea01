"""Every target, in plain pytest: its seeds, what was once found, and inputs that are bent by a fixed chance."""

import importlib.util
import itertools
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.catalogue import NAMES, bent, find_target, regressions
from tests.go_programs.left_out import LeaveOut

FEW, MANY = 12, pytest.param(60, marks=pytest.mark.long)
"""Inputs of a run without coverage."""
RUNS = 400
"""Inputs of a run with it."""

EACH_TARGET = pytest.mark.parametrize("name", NAMES)


@EACH_TARGET
def test_the_seeds_keep_the_laws(name: str) -> None:
    target = find_target(name)
    assert len(set(target.seeds)) >= 5
    for seed in target.seeds:
        target.check(seed)


@pytest.mark.parametrize(
    ("name", "path"),
    [pytest.param(name, path, id=f"{name}-{path.name}") for name in NAMES for path in regressions(name)],
)
def test_what_was_once_found_keeps_the_laws(name: str, path: Path) -> None:
    find_target(name).check(path.read_bytes())


@EACH_TARGET
@pytest.mark.parametrize("count", [FEW, MANY])
def test_inputs_that_are_bent_by_chance_keep_the_laws(name: str, count: int) -> None:
    target = find_target(name)
    for data in itertools.islice(bent(target, Random(1)), count):
        target.check(data)


@EACH_TARGET
def test_any_bytes_are_an_input(name: str, subtests: pytest.Subtests) -> None:
    for data in (b"", b"\x00", b"{", b"null", b"[]", b"\xff\xfe", b"{}" * 1000, b"[" * 1000):
        with subtests.test(data=data[:10]):
            find_target(name).check(data)


@pytest.fixture(scope="session")
def _atheris(leave_out: LeaveOut) -> None:
    if importlib.util.find_spec("atheris") is None:
        leave_out("atheris", "pip found no wheel of it for this Python and machine: make lists it as the extra fuzz")


@pytest.mark.long
@EACH_TARGET
@pytest.mark.usefixtures("_atheris")
def test_a_short_run_that_follows_the_coverage_finds_nothing(name: str, tmp_path: Path) -> None:
    # Coverage of the tests would count every execution too.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
    command = [sys.executable, "-m", "tests.fuzz", name, f"--runs={RUNS}", "--seed=1", f"--folder={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    finds = "".join(path.read_text() for path in sorted((tmp_path / "finds").glob("*.txt")))
    assert done.returncode == 0, done.stdout + done.stderr + finds
    assert f"Done {RUNS} runs" in done.stderr


def test_the_command_says_why_it_cannot_fuzz(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text('import sys\n\nsys.modules["atheris"] = None\n')
    command = [sys.executable, "-m", "tests.fuzz", "smi", "--runs=1"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("atheris is not installed: there is no wheel of it for this Python and machine")
