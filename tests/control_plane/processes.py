"""Programs that live as long as the tests and no longer, and ports that they can be sure of."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LEASH = Path(__file__).with_name("leash.py")
DEADLINE_S = 120.0
POLL_S = 0.05
LAST_LINES = 30


class NotRunningError(Exception):
    """A program ended, or is not ready within the deadline; the text ends with the last lines of its log."""


@dataclass(frozen=True)
class Program:
    """A running program and the file that takes its output."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Returns once ``is_ready()`` holds.

        Raises:
            NotRunningError: the program ended before, or it took longer than the deadline.
        """
        deadline = time.monotonic() + DEADLINE_S
        while not is_ready():
            if (code := self.process.poll()) is not None:
                raise NotRunningError(f"{self.name} ended with exit code {code}:\n{self._last_lines()}")
            if time.monotonic() > deadline:
                raise NotRunningError(f"{self.name} is not ready after {DEADLINE_S:.0f} s:\n{self._last_lines()}")
            time.sleep(POLL_S)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It stands still: its connections stay open, and nothing answers."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGCONT)

    def _last_lines(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LAST_LINES:])


@contextmanager
def running(
    name: str, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Program]:
    """Starts ``command`` in a process group of its own; kills the group at the end, or when this process dies.

    Args:
        name: For messages.
        command: The program, by its path, and its arguments.
        log: Takes what it writes.
        environment: Its variables; those of this process if there are none.
    """
    leashed = [sys.executable, "-I", str(LEASH), str(os.getpid()), *map(str, command)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            leashed,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        yield Program(name, process, log)
    finally:
        # Not SIGTERM: nothing of it is kept, and an API server takes its time to say goodbye to watchers.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
