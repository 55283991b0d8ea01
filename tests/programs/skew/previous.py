"""The package as the previous commit has it, in a directory of its own, where its programs run."""

import io
import os
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("webhook", "certs")


class NoPreviousCommitError(Exception):
    """The checkout has no earlier commit: it is shallow, no checkout at all, or git is not installed."""


def unpack(checkout: Path, directory: Path, packages: tuple[str, ...] = PACKAGES) -> Path:
    """Writes the packages of the commit before ``HEAD`` into a directory, and returns it.

    Raises:
        NoPreviousCommitError: with what is missing.
    """
    git = ("git", "-c", "safe.directory=*", "-C", str(checkout))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        found = subprocess.run(
            [*git, "archive", "--format=tar", "HEAD~1", *packages], check=False, capture_output=True, env=clean
        )
    except FileNotFoundError:
        raise NoPreviousCommitError("git is not installed") from None
    if found.returncode:
        said = found.stderr.decode(errors="replace").strip().splitlines()
        raise NoPreviousCommitError(f"git archive HEAD~1: {said[-1] if said else found.returncode}")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def call(python: str, tree: Path, arguments: tuple[str, ...], *, environment: Mapping[str, str], stdin: str) -> Ended:
    """Runs Python in a tree, whose packages it finds before those that are installed.

    Args:
        python: The interpreter.
        tree: A directory with the packages.
        arguments: Of the interpreter.
        environment: All variables that it gets.
        stdin: What it reads.
    """
    done = subprocess.run(
        [python, *arguments], check=False, capture_output=True, text=True, cwd=tree, env=environment, input=stdin
    )
    return Ended(done.returncode, done.stdout, done.stderr)
