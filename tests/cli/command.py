"""Runs the command line in a process of its own."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def gpu_topology(*arguments: str | Path, stdin: str = "") -> Done:
    """``gpu-topology`` with these arguments."""
    command = [sys.executable, "-m", "webhook", *map(str, arguments)]
    done = subprocess.run(
        command, input=stdin.encode(), capture_output=True, timeout=120, check=False, cwd=ROOT, env={"COLUMNS": "200"}
    )
    err = done.stderr.decode()
    assert "Traceback" not in err, err
    return Done(done.returncode, done.stdout.decode(), err)
