"""Where atheris cannot be had, fuzzing that follows the coverage is left out, and the run says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.go_programs.run_apart import ROOT, run_apart


@pytest.mark.long
def test_it_is_counted_at_the_end_with_the_reason(tmp_path: Path) -> None:
    """In a run of its own, of a Python that finds no atheris."""
    (tmp_path / "sitecustomize.py").write_text('import sys\n\nsys.modules["atheris"] = None\n')
    selected = ("-m", "long", "-k", "short_run and (hami or smi)", "tests/fuzz/test_targets.py")
    done = run_apart(tmp_path, *selected, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert "TESTS LEFT OUT: 2 tests without atheris, because pip found no wheel of it" in done.stdout
    assert "2 skipped" in done.stdout


def test_the_command_says_why_it_cannot_fuzz(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text('import sys\n\nsys.modules["atheris"] = None\n')
    command = [sys.executable, "-m", "tests.fuzz", "smi", "--runs=1"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("atheris is not installed: there is no wheel of it for this Python and machine")
