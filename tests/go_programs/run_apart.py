"""A separate run of pytest, for tests of a run on a machine without a program or package."""

import os
import subprocess
import sys
from pathlib import Path

from tests.go_programs.left_out import MAY_LACK

ROOT = Path(__file__).parents[2]
_NOT_INHERITED = frozenset({"CI", MAY_LACK, "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"})
"""Variables of the outer run that the separate run does not get. Each test sets itself whether CI runs it, what CI may
lack, and the number of processes."""


def run_apart(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest in the root of the project.

    Args:
        directory: The directory of its temporary files, which are in ``run``.
        arguments: Further arguments of its command line.
        environment: Variables in addition to those of this process.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--basetemp", str(directory / "run"), *arguments],
        cwd=ROOT,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
