"""The files of a run, and the archive that is made of them."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from webhook.programs.acceptance.result import RESULT
from webhook.programs.acceptance.run import MOST_BYTES

MOST_ALL = 64 * 1024 * 1024
"""Bytes of all files together."""


def collected(folder: Path) -> dict[str, bytes]:
    """The files below a folder by their names, the beginning of those that are too long; links are left out."""
    found: dict[str, bytes] = {}
    room = MOST_ALL
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or not room:
            continue
        with path.open("rb") as file:
            content = file.read(min(MOST_BYTES, room))
        found[str(path.relative_to(folder))] = content
        room -= len(content)
    return found


def write_archive(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a ``.tar.gz``; the result is its last member.

    Raises:
        OSError: it cannot be written, or is there already.
    """
    ordered = sorted(files, key=lambda name: (name == RESULT, name))
    with path.open("xb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name in ordered:
            member = tarfile.TarInfo(f"acceptance/{name}")
            member.size, member.mode = len(files[name]), 0o644
            archive.addfile(member, io.BytesIO(files[name]))
