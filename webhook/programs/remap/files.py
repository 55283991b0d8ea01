"""The files for the other containers of the pod. Each file is there as a whole, or not at all.

A user who may ``exec`` into the container of this program can also write into the directory, with the same user id. So
no entry found there is opened for writing, followed or waited for. Each file is made under a random name, and then
replaces the entry that has its final name.
"""

import os
import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType

from webhook.programs.remap.regular_file import read_regular
from webhook.words import names
from webhook.words.errors import GpuTopologyError

TOPOLOGY, NCCL_SETTINGS = Path(names.TOPOLOGY_FILE).name, Path(names.NCCL_FILE).name
ENVIRONMENT, REPORT = names.ENV_FILE, "report.txt"
READY = "ready"
_OURS = (READY, TOPOLOGY, NCCL_SETTINGS, ENVIRONMENT, REPORT)
_TEMPORARY = re.compile(rf"\.({'|'.join(map(re.escape, _OURS))})\.[0-9a-f]{{16}}\.new")
_LOOKED_AT = 1000
"""The number of directory entries that are searched for temporary files of an earlier run."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MODE = 0o644
"""The mode of each file: readable by all, because other containers run as other users."""
_MARK_LIMIT = 64
"""The bytes read of the mark of readiness, which holds two numbers."""
_START_TIME = 19
"""The position of ``starttime`` in /proc/<pid>/stat, counted after the name (proc(5))."""


class NotWrittenError(GpuTopologyError):
    """A file cannot be written."""


class Files:
    """The directory that the containers of the pod share. It stays the same directory if its path is replaced.

    Raises:
        NotWrittenError: the directory cannot be opened, or is a link.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        try:
            self._descriptor = os.open(directory, _DIRECTORY)
        except OSError as error:
            raise _failure(directory, "opened", error) from None

    def __enter__(self) -> "Files":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def clear(self) -> None:
        """Removes the files of an earlier run, so that they are not mistaken for files of this run.

        Raises:
            NotWrittenError: a file cannot be removed, or a directory has its name.
        """
        for name in _OURS:
            try:
                self._remove(name)
            except OSError as error:
                raise _failure(self._directory / name, "removed", error) from None
        with suppress(OSError):  # left temporary files do no harm
            for name in self._temporaries():
                self._remove(name)

    def write(self, name: str, text: str) -> None:
        """Writes a file that all users can read.

        Raises:
            NotWrittenError: the file cannot be written; an earlier one stays.
        """
        temporary = f".{name}.{os.urandom(8).hex()}.new"
        try:
            self._make(temporary, text.encode(errors="backslashreplace"))
            os.rename(temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except OSError as error:
            with suppress(OSError):
                self._remove(temporary)
            raise _failure(self._directory / name, "written", error) from None

    def mark_ready(self) -> None:
        """Writes the mark that this run has written all its files.

        Raises:
            NotWrittenError: the mark cannot be written.
        """
        pid = os.getpid()
        self.write(READY, f"{pid} {_started(pid)}\n")

    def _make(self, name: str, data: bytes) -> None:
        with os.fdopen(os.open(name, _NEW, 0o600, dir_fd=self._descriptor), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), _MODE)  # independent of the umask
            os.fsync(file.fileno())

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def _temporaries(self) -> list[str]:
        with os.scandir(self._descriptor) as entries:
            return [entry.name for entry in islice(entries, _LOOKED_AT) if _TEMPORARY.fullmatch(entry.name)]


def is_ready(directory: Path) -> bool:
    """Returns whether a process that still runs has written all files. Files of an earlier container do not count."""
    try:
        pid, started = read_regular(directory / READY, _MARK_LIMIT).decode("ascii").split()
        return _started(int(pid)) == started
    except (OSError, ValueError, IndexError):
        return False


def _started(pid: int) -> str:
    """Returns the start time of a process in ticks since boot; with the process id, it identifies the process."""
    return (
        Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[_START_TIME]
    )


def _failure(path: Path, what: str, error: OSError) -> NotWrittenError:
    return NotWrittenError(f"{path} cannot be {what}: {error.strerror}. Is a volume mounted there, and is it full?")
