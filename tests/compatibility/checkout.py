"""A checkout of HAMi: what it is called, the release in whose place it stands, and its programs."""

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.go_programs.build import GoProgram, Missing, built
from tests.go_programs.catalogue import HAMI_DEVICE_PLUGINS, HAMI_SCHEDULERS
from webhook.words.errors import FormatError
from webhook.words.version import Version

RELEASES = tuple(HAMI_SCHEDULERS)
"""The oldest first."""
_MODULE = "module github.com/Project-HAMi/HAMi"
_LINKED_AT_RUN_TIME = "-Wl,--unresolved-symbols=ignore-in-object-files"
"""For NVML, which is opened when the device plugin runs."""


class NotUsableError(Exception):
    """The text says what was expected, and what was found."""


def examined(directory: Path) -> str:
    """Returns the version of which the checkout speaks, such as ``2.10.0``.

    Raises:
        NotUsableError: it is no checkout of HAMi.
    """
    try:
        module = (directory / "go.mod").read_text(encoding="utf-8")
        version = (directory / "VERSION").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotUsableError(f"{directory}: expected a checkout of HAMi, with go.mod and VERSION: {error}") from None
    if module.partition("\n")[0].strip() != _MODULE:
        found = module.partition("\n")[0].strip()
        raise NotUsableError(f"{directory}/go.mod: expected the first line {_MODULE!r}, found {found!r}")
    try:
        return str(Version.parse(version, source=f"{directory}/VERSION"))
    except FormatError as error:
        raise NotUsableError(str(error)) from None


def stands_for(version: str) -> str:
    """The newest release that the tests know and that is not newer than this version.

    Raises:
        NotUsableError: the version is older than all of them.
    """
    wanted = Version.parse(version, source="VERSION")
    fitting = [each for each in RELEASES if Version.parse(each, source="release") <= wanted]
    if not fitting:
        raise NotUsableError(f"HAMi {version} is older than {RELEASES[0]}, the oldest that the tests know")
    return fitting[-1]


def called(directory: Path, version: str) -> str:
    """A name for it: the version, with the commit where git knows one."""
    command = ["git", "-C", str(directory), "rev-parse", "--short", "HEAD"]
    has_own = (directory / ".git").exists() and shutil.which("git")
    done = subprocess.run(command, capture_output=True, text=True, check=False) if has_own else None
    return f"{version} at {done.stdout.strip()}" if done and done.returncode == 0 else version


def build(checkout: Path, release: str, directory: Path, environment: Mapping[str, str]) -> None:
    """Builds scheduler, which has the webhook in it, and device plugin, under the names of the release.

    Raises:
        NotUsableError: Go is missing or fails; its last lines are in the text.
    """
    flags = f"{environment.get('CGO_LDFLAGS', '')} {_LINKED_AT_RUN_TIME}".strip()
    for program in (HAMI_SCHEDULERS[release], HAMI_DEVICE_PLUGINS[release]):
        found = built(_from(program, checkout), {**environment, "CGO_LDFLAGS": flags}, directory / program.name)
        if isinstance(found, Missing):
            raise NotUsableError(found.reason)


def _from(program: GoProgram, checkout: Path) -> GoProgram:
    return replace(program, modules=checkout, assets="")
