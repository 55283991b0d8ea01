"""The files of a run, and the archive of at most eight files that is made of them."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from tests.gpu.result import RESULT
from tests.gpu.run import MOST_BYTES

MOST_ALL = 64 * 1024 * 1024
"""Bytes of all files together."""
MOST_FILES = 8
TABLE = "TABLE.txt"
_GROUPS = {
    **{name: name for name in ("versions", "topology", "card", "verify", "training", "pods")},
    "remap": "card",
    "cluster": "pods",
}
"""The file of each folder of a run."""


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


def bundled(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same in one file for each group, one after the other, each below a line with its name."""
    found: dict[str, bytes] = {}
    for name, content in sorted(files.items()):
        bundle = f"{_GROUPS.get(name.partition('/')[0], 'versions')}.txt"
        found[bundle] = found.get(bundle, b"") + f"==> {name} <==\n".encode() + content.rstrip(b"\n") + b"\n\n"
    return found


def write_archive(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a ``.tar.gz`` in the place of the one that is there; the result is its last member.

    Raises:
        OSError: it cannot be written.
    """
    ordered = sorted(files, key=lambda name: (name == RESULT, name))
    part = path.with_name(f"{path.name}.part")
    with tarfile.open(part, mode="w:gz") as archive:
        for name in ordered:
            member = tarfile.TarInfo(f"gpu/{name}")
            member.size, member.mode = len(files[name]), 0o644
            archive.addfile(member, io.BytesIO(files[name]))
    part.replace(path)
