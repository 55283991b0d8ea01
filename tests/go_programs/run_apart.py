"""A run of pytest of its own, for tests of what a run does where a program or package is missing."""

import os
import subprocess
import sys
from pathlib import Path

from tests.go_programs.left_out import MAY_LACK

ROOT = Path(__file__).parents[2]
_NOT_INHERITED = frozenset({"CI", MAY_LACK, "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"})
"""Of the run around it: each test says itself whether CI runs it, what that may lack, and in how many processes."""


def run_apart(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in the root of the project.

    Args:
        directory: Where it puts its temporary files, in ``run``.
        arguments: More of its command line.
        environment: Variables beside those of this process.
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
