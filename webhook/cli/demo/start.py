"""The start of a pod: its remap container as a process, with the variables that the kubelet would give it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webhook.cli.demo.cluster import environment_of
from webhook.words import names
from webhook.words.errors import ManifestError

if TYPE_CHECKING:
    from rich.console import Console

_KEPT = ("PATH", "PYTHONPATH", "PYTHONWARNINGS", "LANG", "HOME")


@dataclass(frozen=True, kw_only=True, slots=True)
class Driver:
    """A stand-in for the driver of a node: a directory with ``libnvidia-ml.so.1``, sysfs, and its variables."""

    library: Path
    root: Path
    environment: Mapping[str, str]

    @classmethod
    def read(cls, directory: Path) -> "Driver":
        """Read the stand-in in this directory; ``python -m tests.nvml`` makes one.

        Raises:
            ManifestError: the directory has none.
        """
        settings = directory / "environment"
        if not settings.is_file():
            raise ManifestError(
                f"--driver {directory}: expected a stand-in for a driver, as 'make demo' makes, found none"
            )
        lines = settings.read_text(encoding="utf-8").splitlines()
        return cls(
            library=directory,
            root=directory / "root",
            environment=dict(line.split("=", 1) for line in lines if "=" in line),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """The result of a remap container."""

    code: int
    report: str
    environment: str
    """The text of the env file."""
    message: str
    """The termination message."""


def run_remap(pod: dict[str, Any], driver: Driver | None) -> Started:
    """Run the remap program of a pod on its node."""
    containers = pod["spec"]["initContainers"]
    (remap,) = (container for container in containers if container["name"] == names.REMAP_CONTAINER)
    kept = {name: value for name in _KEPT if (value := os.environ.get(name))}
    played = {"LD_LIBRARY_PATH": str(driver.library), **driver.environment} if driver else {}
    with tempfile.TemporaryDirectory() as directory:
        files, log = Path(directory, "files"), Path(directory, "termination-log")
        files.mkdir()
        log.touch()  # as the kubelet does
        arguments = ["--mode", "init", "--directory", str(files), "--termination-log", str(log)]
        root = ["--root", str(driver.root)] if driver else []
        done = subprocess.run(  # noqa: S603 - ourselves
            [sys.executable, "-m", "webhook", *remap["command"][1:], *arguments, *root],
            env={**kept, **environment_of(remap, pod), **played},
            capture_output=True,
            check=False,
            text=True,
        )
        return Started(
            code=done.returncode,
            report=_read(files / "report.txt"),
            environment=_read(files / names.ENV_FILE),
            message=_read(log).strip() or done.stderr.strip(),
        )


def print_started(console: "Console", started: Started, *, full: bool) -> None:
    """Print the result of the program."""
    colour = "green" if started.code == 0 else "red"
    console.print(f"          [{colour} bold]remap: exit code {started.code}[/]")
    if started.message:
        console.print(f"          {started.message}", style=colour, markup=False)
    if full:
        for name, text in (("report.txt", started.report), ("env", started.environment)):
            console.print(f"          {names.FILES_PATH}/{name}", style="bold", markup=False)
            for line in text.splitlines():
                console.print(f"            {line}", markup=False)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
