"""The files of a state directory, which may come out of an archive of another person."""

import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from webhook.objects.manifest.manifest import read_yaml
from webhook.words.errors import ManifestError

MAX_BYTES = 1024**3
"""The most bytes of a file. A list of 100,000 pods takes a third of that."""


def read_state_yaml(path: Path) -> list[Any]:
    """Returns the documents of a file of a state directory as plain values, without empty documents.

    Raises:
        ManifestError: as :func:`check_state_file` and :func:`webhook.objects.manifest.manifest.read_yaml` do.
    """
    check_state_file(path)
    return read_yaml(path)


def check_state_file(path: Path) -> None:
    """Raises if reading a file of a state directory might have no end.

    A named pipe waits for a writer, a link to a device can be read for ever, and a file with holes takes no room in an
    archive. What is missing or a directory is left to the reader.

    Raises:
        ManifestError: the path is a pipe, a device or a socket, or longer than :data:`MAX_BYTES`.
    """
    with suppress(OSError):
        found = path.stat()
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise ManifestError(f"{path}: expected a file, found a pipe, a device or a socket. Remove it")
        if found.st_size > MAX_BYTES:
            raise ManifestError(f"{path}: expected at most {MAX_BYTES // 1024**2} MiB, found more. Give fewer objects")
