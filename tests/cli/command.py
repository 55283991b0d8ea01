"""Runs the command line in a process of its own."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def gpu_topology(*arguments: str | Path, stdin: str = "", env: Mapping[str, str] = {}) -> Done:
    """``gpu-topology`` with these arguments, and with these variables beside the width of the terminal."""
    command = [sys.executable, "-m", "webhook", *map(str, arguments)]
    variables = {"COLUMNS": "200", **env}
    done = subprocess.run(
        command, input=stdin.encode(), capture_output=True, timeout=120, check=False, cwd=ROOT, env=variables
    )
    err = done.stderr.decode()
    assert "Traceback" not in err, err
    return Done(done.returncode, done.stdout.decode(), err)
