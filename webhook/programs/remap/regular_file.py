"""Reads and writes of regular files in places where others may write: without waiting, and up to a limit."""

import errno
import os
import stat
from pathlib import Path

_CAREFULLY = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""The flags against special files: to open a FIFO waits for its other end, and to open a terminal may make it the
controlling terminal of this process (open(2))."""


def read_regular(path: Path, limit: int, *, follow: bool = False) -> bytes:
    """Reads the first ``limit`` bytes of a regular file.

    Args:
        path: The path of the file.
        limit: The most bytes to read.
        follow: Whether a symbolic link in its place is followed.

    Raises:
        OSError: the file cannot be read, or is no regular file.
    """
    descriptor = _opened(path, os.O_RDONLY | (0 if follow else os.O_NOFOLLOW))
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit)


def replace_text(path: Path, data: bytes) -> None:
    """Replaces the contents of an existing regular file.

    Raises:
        OSError: the file does not exist, cannot be written, or is no regular file.
    """
    descriptor = _opened(path, os.O_WRONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        file.truncate(0)
        file.write(data)


def _opened(path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | _CAREFULLY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor
