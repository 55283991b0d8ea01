"""The manifests of the option ``-f``, found and ordered as in kubectl: k8s.io/cli-runtime, pkg/resource."""

import codecs
import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from webhook.cluster.files.standard_input import standard_input
from webhook.words.errors import ManifestError

STANDARD_INPUT = "-"
EXTENSIONS = (".json", ".yaml", ".yml")
"""The endings of files in directories. A file that is named itself may have any name."""


@dataclass(frozen=True)
class ManifestFile:
    """A text and its name in messages."""

    source: str
    text: str


def read_files(given: Sequence[str], *, recursive: bool) -> Iterator[ManifestFile]:
    """Yield the named files, in that order; those of a directory by name.

    Args:
        given: Files, directories, patterns such as ``jobs/*.yaml``, and at most once ``-`` for standard input.
        recursive: True if directories are read with all below them.

    Raises:
        ManifestError: an input cannot be read, is no text; a directory has no manifests.
    """
    for name in given:
        if name == STANDARD_INPUT:
            yield ManifestFile("standard input", _text(standard_input(), "standard input"))
            continue
        for path in _expanded(name):
            yield from _read_path(path, recursive=recursive)


def _expanded(name: str) -> list[Path]:
    if not os.path.lexists(name):  # like kubectl, try the literal name before the pattern
        return [Path(found) for found in sorted(glob.glob(name))] or [Path(name)]  # noqa: PTH207 - absolute or not
    return [Path(name)]


def _read_path(path: Path, *, recursive: bool) -> Iterator[ManifestFile]:
    if not path.is_dir():
        yield _read_file(path)
        return
    found = _below(path, recursive=recursive)
    if not found:
        also = "" if recursive else ". With -R the directories in it are read too"
        raise ManifestError(f"{path}: expected files that end in {', '.join(EXTENSIONS)}, found none{also}")
    for file in found:
        if not file.is_file():
            raise ManifestError(f"{file}: expected a file, found {'a directory' if file.is_dir() else 'none'}")
        yield _read_file(file)


def _below(directory: Path, *, recursive: bool) -> list[Path]:
    """List the manifests of a directory in kubectl's order: files and directories together, sorted.

    Links are not followed.


    Raises:
        ManifestError: a directory cannot be read.
    """
    found = []
    try:
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
            path = directory / entry.name
            if entry.is_dir(follow_symlinks=False):
                found += _below(path, recursive=True) if recursive else []
            elif path.suffix in EXTENSIONS:
                found.append(path)
    except OSError as error:
        raise ManifestError(f"{error.filename}: cannot be read: {error.strerror}") from None
    return found


def _read_file(path: Path) -> ManifestFile:
    try:
        with path.open("rb") as file:
            return ManifestFile(str(path), _text(file, str(path)))
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror}") from None


def _text(file: BinaryIO, source: str) -> str:
    """Read the whole text of a file, with its line ends."""
    data = file.read()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"found byte 0x{data[error.start]:02x}"
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            found = "found UTF-16, which PowerShell writes with >"
        raise ManifestError(
            f"{source} line {line}: cannot be read: expected text in UTF-8, {found}. Save it as UTF-8"
        ) from None
