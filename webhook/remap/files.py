"""The files for the other containers of the pod: each is there whole, or not at all."""

import os
from contextlib import suppress
from pathlib import Path

from webhook.model import names
from webhook.model.errors import GpuTopologyError

TOPOLOGY, ENVIRONMENT, REPORT = Path(names.TOPOLOGY_FILE).name, names.ENV_FILE, "report.txt"
READY = "ready"
_MODE = 0o644
"""Other containers run as other users."""
_START_TIME = 19
"""Place of ``starttime`` in /proc/<pid>/stat, counted from behind the name: proc(5)."""


class NotWrittenError(GpuTopologyError):
    """A file cannot be written."""


class Files:
    """The directory that the containers of the pod share."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def clear(self) -> None:
        """Remove what an earlier run has left, so that nobody takes it for this one's.

        Raises:
            NotWrittenError: a file cannot be removed.
        """
        for name in (READY, TOPOLOGY, ENVIRONMENT, REPORT):
            for path in (self._directory / name, self._temporary(name)):
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    raise _failure(path, "removed", error) from None

    def write(self, name: str, text: str) -> None:
        """Write a file that all users can read.

        Raises:
            NotWrittenError: it cannot be written; what was there stays.
        """
        target, temporary = self._directory / name, self._temporary(name)
        try:
            with temporary.open("wb") as file:
                file.write(text.encode(errors="backslashreplace"))
                file.flush()
                os.fchmod(file.fileno(), _MODE)  # whatever the umask
                os.fsync(file.fileno())
            temporary.replace(target)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise _failure(target, "written", error) from None

    def mark_ready(self) -> None:
        """Say that this run has written everything.

        Raises:
            NotWrittenError: that cannot be written.
        """
        pid = os.getpid()
        self.write(READY, f"{pid} {_started(pid)}\n")

    def is_ready(self) -> bool:
        """Whether a run that is still there has written everything; an earlier container leaves its files behind."""
        try:
            pid, started = (self._directory / READY).read_text(encoding="ascii").split()
            return _started(int(pid)) == started
        except (OSError, ValueError, IndexError):
            return False

    def _temporary(self, name: str) -> Path:
        return self._directory / f".{name}.new"


def _started(pid: int) -> str:
    """When a process started, in ticks since boot: with its number, what tells it from all others."""
    return (
        Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[_START_TIME]
    )


def _failure(path: Path, what: str, error: OSError) -> NotWrittenError:
    return NotWrittenError(f"{path} cannot be {what}: {error.strerror}. Is a volume mounted there, and is it full?")
