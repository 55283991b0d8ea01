"""Runs ``gpu-topology remap`` in processes of its own, on machines that the stub of NVML plays.

Of this checkout, or of another tree of the project.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.nvml.machines import Machine, write_machine
from tests.nvml.stub import environment_of, without_library

ROOT = Path(__file__).parents[3]
REMAP = (sys.executable, "-m", "webhook", "remap")
PATIENCE_SECONDS = 30.0
"""No test waits so long unless it fails."""


@dataclass
class Done:
    """How a run ended."""

    code: int
    out: str
    err: str
    reason: str
    """The termination message."""


class Node:
    """A machine, and the directory that the containers of one of its pods share.

    Args:
        library: The directory of the stub.
        directory: Where the files of the machine and of the pod are to be; it exists.
        machine: None: one without a driver.
        command: What calls the remap program.
        tree: The directory in which the command runs, whose package it finds first.
    """

    def __init__(
        self,
        library: Path,
        directory: Path,
        machine: Machine | None,
        *,
        command: tuple[str, ...] = REMAP,
        tree: Path = ROOT,
    ) -> None:
        self.command = command
        self.tree = tree
        self.root = directory / "root"
        self.shared = directory / "shared"
        self.shared.mkdir()
        self.termination_log = directory / "termination-log"
        self.termination_log.touch()
        if machine:
            found = environment_of(library, write_machine(machine, self.root))
        else:
            (directory / "no-driver").mkdir()
            found = environment_of(without_library(directory / "no-driver"))
        self.environment: dict[str, str] = {key: value for key, value in found.items() if _is_kept(key, tree)}

    def options(self) -> list[str]:
        """Where this node has what elsewhere is in the root directory."""
        given = ("--directory", self.shared, "--termination-log", self.termination_log, "--root", self.root)
        return [str(option) for option in given]

    def remap(self, variables: Mapping[str, str], *arguments: str) -> Done:
        """One run, to its end."""
        with self.started(variables, *arguments) as process:
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
        reason = self.termination_log.read_text() if self.termination_log.exists() else ""
        return Done(process.returncode, out, err, reason)

    @contextmanager
    def started(self, variables: Mapping[str, str], *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        """A run that is killed if it has not ended by itself."""
        process = subprocess.Popen(
            [*self.command, *self.options(), *arguments],
            env={**self.environment, **variables},
            cwd=self.tree,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def files(self) -> list[str]:
        """What is in the directory, hidden files too."""
        return sorted(os.listdir(self.shared))  # noqa: PTH208

    def read(self, name: str) -> str:
        return (self.shared / name).read_text()

    def is_ready(self) -> bool:
        """What the probe says."""
        return self.remap({}, "--mode", "probe").code == 0

    def wait_until_ready(self, process: "subprocess.Popen[str]") -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.is_ready():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline


def _is_kept(variable: str, tree: Path) -> bool:
    """Nothing else of the test's environment reaches the program. Only this checkout is measured."""
    if variable.startswith("COVERAGE_"):
        return tree == ROOT
    return variable in ("LD_LIBRARY_PATH", "NVML_STUB_MACHINE", "PATH")


def terminated(process: "subprocess.Popen[str]") -> int:
    """The code with which a process answers SIGTERM."""
    process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE_SECONDS)
