"""Runs the steps, one after the other. One that fails, or takes too long, keeps none of the others from running."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from tests.gpu.model import Ran, Step

MOST_BYTES = 8 * 1024 * 1024
"""Of one output; the rest is dropped."""
_CHUNK = 64 * 1024
_OWN, _PROBE = "gpu-topology", "probe"
_LATE = "it was not done after"
ROOT = Path(__file__).parents[2]
"""Of the checkout."""
_GRACE_SECONDS = 5.0
_OF_NCCL = "NCCL_"
_KEPT = ("NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY")
"""How the ranks of one machine find each other; they change no way between cards."""


def settings(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The settings of NCCL in this environment that no step gets: with them a step would show what a person set."""
    return tuple(sorted(name for name in environment if name.startswith(_OF_NCCL) and name not in _KEPT))


def run_step(step: Step, folder: Path) -> Ran:
    """Run one step; its output goes to files below the folder.

    Args:
        step: What to run.
        folder: Of the run.
    """
    output = folder / (step.output or f"{step.name}.txt")
    errors = output.with_name(f"{output.name}.stderr")
    for name in (output, *(folder / written for written in step.writes)):
        name.parent.mkdir(parents=True, exist_ok=True)
    files = tuple(str(path.relative_to(folder)) for path in (output, errors)) + step.writes
    begin = time.monotonic()
    code, problem = _run(step, folder, output, errors)
    return Ran(
        name=step.name,
        argv=step.argv,
        exit_code=code,
        problem=problem,
        seconds=round(time.monotonic() - begin, 3),
        files=files,
        timed_out=problem.startswith(_LATE),
        said=_last_line(errors),
    )


def _last_line(path: Path) -> str:
    """The end of a file; empty if there is none."""
    if not path.is_file():
        return ""
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _run(step: Step, folder: Path, output: Path, errors: Path) -> tuple[int | None, str]:
    left_out = settings(os.environ)
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    # With a file of its own NCCL reads no ~/.nccl.conf: src/misc/param.cc.
    environment |= {"PYTHONPATH": str(ROOT), "NCCL_CONF_FILE": os.devnull, **step.environment}
    try:
        process = subprocess.Popen(
            _command(step.argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return None, f"it cannot be started: {error.strerror or error}"
    readers = [_copy(process.stdout, output), _copy(process.stderr, errors)]
    try:
        return process.wait(step.seconds), ""
    except subprocess.TimeoutExpired:
        return None, f"{_LATE} {step.seconds:g} seconds"
    finally:
        _end(process)
        for reader in readers:
            reader.join(_GRACE_SECONDS)


def _command(argv: Sequence[str]) -> list[str]:
    if argv[0] == _PROBE:
        return [sys.executable, "-m", f"tests.gpu.probes.{argv[1]}", *argv[2:]]
    return [sys.executable, "-m", "webhook", *argv[1:]] if argv[0] == _OWN else list(argv)


def _copy(stream: IO[bytes] | None, path: Path) -> threading.Thread:
    """Copies what a program writes, as far as there is room, so that it never waits for us."""

    def copy() -> None:
        if stream is None:
            return
        room = MOST_BYTES
        with stream, path.open("wb") as file:
            while chunk := stream.read(_CHUNK):
                file.write(chunk[:room])
                room -= min(room, len(chunk))

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The program and all that it started, after a moment for what it still writes; a driver may hold some of it up."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
