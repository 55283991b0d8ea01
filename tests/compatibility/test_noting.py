"""What ``pytest --compatibility FILE`` writes, by a run of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

WHERE = dict(hami="2.10.0", kubernetes="1.36.3", strategy="envvar", judges=["a judge 1"])

def pod(mark):
    return {"metadata": {"annotations": mark}, "spec": {}}

def injected(profile):
    return pod({"gpu.topology/injected": f"0.1.0 {profile}"})

@pytest.fixture
def late(note_pod):
    yield
    note_pod(injected("exclusive"), **WHERE)

def test_passes(late, note_pod): note_pod(injected("exclusive"), **WHERE)
def test_passes_too(note_pod): note_pod(injected("exclusive"), **WHERE)
def test_fails(note_pod):
    note_pod(injected("pod-peers"), **WHERE)
    assert False
def test_not_prepared(note_pod): note_pod(pod({}), **WHERE)
def test_no_pod(): pass
def test_left_out(leave_out): leave_out("a-program", "it is not here")
"""


@pytest.mark.parametrize("processes", ["0", pytest.param("2", marks=pytest.mark.long)])
def test_a_run_tells_what_its_tests_saw(processes: str, tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    plugins = ["-p", "tests.compatibility.noting", "-p", "tests.go_programs.left_out"]
    options = ["-n", processes, "-q", "--rootdir", str(tmp_path), f"--compatibility={tmp_path / 'run.json'}"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options, str(tmp_path)],
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
    )
    run = json.loads((tmp_path / "run.json").read_text())
    counts: dict[str, Any] = {each["cell"]["profile"]: (each["passed"], each["failed"]) for each in run["cells"]}
    assert counts == {"exclusive": (2, 0), "pod-peers": (0, 1)}
    assert run["left_out"] == {"a-program": 1}
