"""Calls the command line as a function in this process, or starts it where only a process shows the behaviour."""

import io
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from webhook.cli.main import main

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "webhook")
"""The program ``gpu-topology``, for the tests that need a process."""

_WIDTH = {"COLUMNS": "200"}
_BUSY = threading.Lock()


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


class Stream(io.TextIOWrapper):
    """Standard output or error of a command, kept in memory."""

    def __init__(self, *, errors: str = "surrogateescape") -> None:
        self._kept = io.BytesIO()
        super().__init__(self._kept, encoding="utf-8", errors=errors, newline="\n", write_through=True)

    def text(self) -> str:
        """Return what was written."""
        self.flush()
        return self._kept.getvalue().decode()


class Terminal(Stream):
    """A terminal that keeps what it shows. Its width is the variable ``COLUMNS``."""

    def isatty(self) -> bool:
        return True


def gpu_topology(
    *arguments: str | Path, stdin: str = "", env: Mapping[str, str] = {}, cwd: Path = ROOT, name: str = "gpu-topology"
) -> Done:
    """Call ``gpu-topology`` with these arguments, and with these variables beside the width of the terminal.

    The environment, the working directory, the standard streams, the handlers of signals and the root logger are those
    of a new process, and are restored at the end. A bug of the command is raised here.
    """
    out, err = Stream(), Stream(errors="backslashreplace")
    code = call(*arguments, stdin=stdin, out=out, err=err, env=env, cwd=cwd, name=name)
    return Done(code, out.text(), err.text())


def call(
    *arguments: str | Path,
    out: TextIO,
    err: TextIO,
    stdin: str = "",
    env: Mapping[str, str] = {},
    cwd: Path = ROOT,
    name: str = "gpu-topology",
) -> int:
    """Call ``gpu-topology`` with these streams, and return its exit code."""
    source = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8", errors="surrogateescape")
    with _like_a_process(source, out, err), _surroundings({**_WIDTH, **env}, cwd):
        sys.argv = [name, *map(str, arguments)]
        try:
            main(name)
        except SystemExit as ended:
            if isinstance(ended.code, str):
                print(ended.code, file=err)
                return 1
            return ended.code or 0
        return 0


def gpu_topology_process(*arguments: str | Path, stdin: str = "", env: Mapping[str, str] = {}) -> Done:
    """Start ``gpu-topology`` as a process, for what only a process shows."""
    command = [*PROGRAM, *map(str, arguments)]
    done = subprocess.run(
        command, input=stdin.encode(), capture_output=True, timeout=120, check=False, cwd=ROOT, env={**_WIDTH, **env}
    )
    err = done.stderr.decode()
    assert "Traceback" not in err, err
    return Done(done.returncode, done.stdout.decode(), err)


@contextmanager
def _like_a_process(stdin: TextIO, out: TextIO, err: TextIO) -> Iterator[None]:
    """The standard streams, arguments, handlers of signals and logging handlers of one command at a time."""
    if not _BUSY.acquire(blocking=False):
        raise RuntimeError("one command at a time: start a process for the second")
    streams, words = (sys.stdin, sys.stdout, sys.stderr), sys.argv
    root = logging.getLogger()
    level, handlers = root.level, [*root.handlers]
    of_signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    sys.stdin, sys.stdout, sys.stderr = stdin, out, err
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        sys.argv = words
        root.setLevel(level)
        root.handlers[:] = handlers
        for number, handler in of_signals.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        _BUSY.release()


@contextmanager
def _surroundings(env: Mapping[str, str], cwd: Path) -> Iterator[None]:
    """The environment and the working directory."""
    before, directory = dict(os.environ), Path.cwd()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    try:
        yield
    finally:
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(before)
