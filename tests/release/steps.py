"""The steps of a release that need no registry: each makes files of a checkout, in a folder of its own."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.go_programs.build import required
from tests.go_programs.catalogue import HELM
from tests.release.layout import push

ROOT = Path(__file__).parents[2]
CHECKSUMS = "SHA256SUMS"
_EPOCH = 1577836800
"""2020-01-01, the time of the files in archives. Hatchling takes the same where nothing else is said."""


class NotPossible(Exception):
    """A step cannot run on this machine; the text says what it lacks."""


def python_package(source: Path, release: Path) -> None:
    """Wheel and sdist."""
    command: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "--directory", release / "python"]
    run(*command, cwd=source)


def sbom(source: Path, release: Path) -> None:
    """CycloneDX of the wheel in an environment with the dependencies of the lock."""
    _writes(release / "sbom")
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=False)
        python = Path(directory, "bin", "python")
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python, "install"]
        pip += ["--quiet", "--disable-pip-version-check"]
        run(*pip, "--no-compile", "--constraint", source / "requirements.lock", _wheel(release))
        cyclonedx = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
        text = run(*cyclonedx, "--pyproject", source / "pyproject.toml", python)
    (release / "sbom" / f"{_wheel(release).stem}.cdx.json").write_text(_placeless(text), encoding="utf-8")


def _placeless(text: str) -> str:
    """Without the place of our wheel on the machine that built it."""
    document = json.loads(text)
    for component in document["components"]:
        kept = [one for one in component.get("externalReferences", []) if not one["url"].startswith("file:")]
        component["externalReferences"] = kept
    return json.dumps(document, indent=2) + "\n"


def chart(source: Path, release: Path) -> None:
    """The chart as Helm packs it. Helm keeps the times of the files, which are those of the checkout."""
    try:
        helm = required(HELM)
    except LookupError as error:
        raise NotPossible(str(error)) from None
    _writes(release / "chart")
    with tempfile.TemporaryDirectory() as directory:
        copied = Path(directory, "chart")
        shutil.copytree(source / "deploy" / "chart", copied)
        for path in sorted(copied.rglob("*")):
            os.utime(path, (_EPOCH, _EPOCH))
        run(helm, "package", copied, "--destination", release / "chart")


def registry(source: Path, release: Path) -> None:  # noqa: ARG001 - a step has both
    """The chart in an OCI layout, under the names and media types by which Helm finds it in a registry."""
    (package,) = (release / "chart").glob("*.tgz")
    push(package, release / "registry")


def checksums(source: Path, release: Path) -> None:  # noqa: ARG001 - a step has both
    """``SHA256SUMS``, which ``sha256sum --check`` reads, of all that the steps before have made."""
    lines = [f"{digest}  {name}\n" for name, digest in digests(release).items()]
    (release / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


STEPS: Mapping[str, Callable[[Path, Path], None]] = {
    "python": python_package,
    "sbom": sbom,
    "chart": chart,
    "registry": registry,
    "checksums": checksums,
}
"""In the order in which they run. The name is that of the folder in which a step writes."""


def digests(release: Path) -> dict[str, str]:
    """SHA-256 of each file but the checksums themselves, by its path."""
    files = sorted(path for path in release.rglob("*") if path.is_file() and path.name != CHECKSUMS)
    return {path.relative_to(release).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Standard output.

    Raises:
        RuntimeError: the program failed; the text has what it said last.
    """
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"{Path(command[0]).name}: exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}"
        )
    return done.stdout


def _wheel(release: Path) -> Path:
    (wheel,) = (release / "python").glob("*.whl")
    return wheel


def _writes(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
