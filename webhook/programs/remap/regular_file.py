"""Files that others may have put there: opened so that nothing is waited for, and read so far and no farther."""

import errno
import os
import stat
from pathlib import Path

_CAREFULLY = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""The open of a FIFO waits for its other end, that of a terminal may make it the one of this process: open(2)."""


def read_regular(path: Path, limit: int, *, follow: bool = False) -> bytes:
    """The first ``limit`` bytes of a regular file.

    Args:
        path: Of the file.
        limit: Bytes.
        follow: Whether a link in its place is followed.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    descriptor = _opened(path, os.O_RDONLY | (0 if follow else os.O_NOFOLLOW))
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit)


def replace_text(path: Path, data: bytes) -> None:
    """Give a regular file that is there other contents.

    Raises:
        OSError: it is not there, cannot be written, or is no regular file.
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
