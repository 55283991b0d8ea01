"""Steps, run as real processes."""

import os
import sys
import time
from pathlib import Path

import pytest

from tests.gpu.model import Ran, Step
from tests.gpu.probes.nccl_settings import read_settings
from tests.gpu.result import step_result
from tests.gpu.run import MOST_BYTES, run_step, settings


def run(folder: Path, code: str, seconds: float = 20.0, **environment: str) -> Ran:
    argv = (sys.executable, "-c", code)
    return run_step(Step(name="step", says="", argv=argv, seconds=seconds, environment=environment), folder)


def test_what_a_step_says_goes_to_files(tmp_path: Path) -> None:
    found = run(tmp_path, "import os, sys; print(os.environ['TOLD']); sys.exit('no')", TOLD="yes")
    assert (found.exit_code, found.problem) == (1, "")
    assert (tmp_path / "step.txt").read_text() == "yes\n"
    assert (tmp_path / "step.txt.stderr").read_text() == "no\n"


def test_a_step_gets_none_of_the_settings_of_nccl_that_a_person_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NCCL_P2P_DISABLE", "NCCL_CONF_FILE", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "of the person")
    assert settings(os.environ) == ("NCCL_CONF_FILE", "NCCL_P2P_DISABLE")
    code = "import os; print({name: value for name, value in sorted(os.environ.items()) if name.startswith('NCCL')})"
    run(tmp_path, code, NCCL_ALGO="of the step")
    told = "{'NCCL_ALGO': 'of the step', 'NCCL_CONF_FILE': '/dev/null', 'NCCL_SOCKET_IFNAME': 'of the person'}"
    assert (tmp_path / "step.txt").read_text() == f"{told}\n"
    run(tmp_path, code, NCCL_CONF_FILE="of the step")
    assert "'NCCL_CONF_FILE': 'of the step'" in (tmp_path / "step.txt").read_text()


def test_the_lines_of_a_configuration_file_are_its_settings(tmp_path: Path) -> None:
    (tmp_path / "nccl.conf").write_text("# NCCL_ALGO=Ring\n\n NCCL_P2P_DISABLE=1\nno setting\n")
    assert read_settings(tmp_path / "nccl.conf") == ["NCCL_P2P_DISABLE=1"]
    assert read_settings(tmp_path / "absent") == []


def test_a_step_runs_where_its_files_go(tmp_path: Path) -> None:
    step = Step(name="a", says="", argv=("touch", "deep/er/file"), seconds=20.0, writes=("deep/er/file",))
    assert run_step(step, tmp_path).is_done
    assert (tmp_path / "deep/er/file").exists()


def test_our_own_command_is_the_one_that_runs_this(tmp_path: Path) -> None:
    step = Step(name="a", says="", argv=("gpu-topology", "version"), seconds=20.0)
    assert run_step(step, tmp_path).is_done


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    found = run_step(Step(name="a", says="", argv=("no-such-program",), seconds=1.0), tmp_path)
    assert found.exit_code is None
    assert found.problem == "it cannot be started: No such file or directory"


def test_a_step_that_takes_too_long_ends_with_all_that_it_started(tmp_path: Path) -> None:
    child = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    found = run(tmp_path, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])", seconds=2.0)
    assert found.problem == "it was not done after 2 seconds"
    started = int((tmp_path / "step.txt").read_text())
    for _ in range(200):
        if not _is_running(started):
            return
        time.sleep(0.05)
    pytest.fail("the program that it started still runs")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import sys; sys.exit('no')", "exit code 1: no"),
        ("import sys; sys.exit(3)", "exit code 3: see step.txt in the archive"),
        ("import os; os.kill(os.getpid(), 9)", "it was ended by signal 9: see step.txt in the archive"),
    ],
)
def test_a_step_that_fails_says_how_it_ended(tmp_path: Path, code: str, why: str) -> None:
    found = step_result(Step(name="step", says="", argv=(), seconds=1.0), run(tmp_path, code), has_gpu=True)
    assert (found.verdict, found.why) == ("fails", why)


def test_a_step_that_talks_without_end_ends_and_fills_no_disk(tmp_path: Path) -> None:
    found = run(tmp_path, f"import sys; sys.stdout.write('x' * {MOST_BYTES + 99})")
    assert found.is_done
    assert (tmp_path / "step.txt").stat().st_size == MOST_BYTES


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
