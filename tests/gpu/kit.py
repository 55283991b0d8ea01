"""``make gpu-kit``: what a machine without a network needs for ``make gpu``, packed beside the checkout.

The kit is for the machine of the person who makes it. It has packages of others under their own licences, which it
lists: do not commit it, publish it, or put it into an image.
"""

import email.parser
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.programs.verify.wheels import NCCL_OF_KIT, fetched

ROOT = Path(__file__).parents[2]
KIT = ROOT / "gpu-kit"
HAMI_CORE = "HAMI_CORE"
"""Environment variable: the built library of HAMi-core, or the directory of its source with a build in it."""
REQUIREMENTS = "requirements.txt"
_INSTALLED = "--no-index --find-links gpu-kit/wheels -r gpu-kit/requirements.txt"
_SECONDS = 900
_OWN = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "PYTHON"))}
"""The environment without the indexes and paths of this machine."""


@dataclass(frozen=True)
class Kit:
    """What a kit has, as paths; empty where it lacks it."""

    nccl: str = ""
    """The directory with NCCL's library."""
    hami_core: str = ""


def found_in_kit(folder: Path) -> Kit:
    """What the kit in this folder has; nothing if there is none."""
    nccl, core = folder / "nccl", folder / "hami-core/libvgpu.so"
    return Kit(
        nccl=str(nccl) if (nccl / "libnccl.so.2").is_file() else "", hami_core=str(core) if core.is_file() else ""
    )


def pack(folder: Path) -> list[str]:
    """Make the kit anew, and return what it lacks, in sentences."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / REQUIREMENTS).write_text("".join(f"{line}\n" for line in needed()), encoding="utf-8")
    lacks = [
        problem
        for problem in (_wheels(folder / "wheels"), _nccl(folder / "nccl"), core(folder / "hami-core"))
        if problem
    ]
    lacks += filter(None, [tried(folder / "wheels")])
    (folder / "LICENCES.txt").write_text("".join(f"{line}\n" for line in sorted(_licences(folder))), encoding="utf-8")
    lines = [
        f"For Python {platform.python_version()} on {platform.machine()}, on your own machine only.",
        f"python3 -m venv .venv && .venv/bin/pip install {_INSTALLED}",
        ".venv/bin/python -m tests.gpu",
        *(f"LACKS: {problem}" for problem in lacks),
    ]
    (folder / "README.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return lacks


def _wheels(folder: Path) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--dest", str(folder)]
    command += ["--only-binary", ":all:", "--requirement", str(folder.parent / REQUIREMENTS)]
    command += ["--constraint", str(ROOT / "requirements.lock")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return "wheels: pip was not done in time"
    said = done.stderr.strip().splitlines()
    return f"wheels: {said[-1] if said else 'pip failed'}" if done.returncode else ""


def needed() -> list[str]:
    """What the program itself needs, without the tools of its tests."""
    found: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    return found


def _nccl(folder: Path) -> str:
    try:
        shutil.copytree(fetched(NCCL_OF_KIT), folder)
    except LookupError as error:
        return f"NCCL: {error}"
    return ""


def tried(wheels: Path) -> str:
    """Install these wheels as the machine without a network will, ask for the plan of ``make gpu``, and return why not.

    Empty: it works. The environment is a new one, and nothing but these wheels is looked at.
    """
    with tempfile.TemporaryDirectory() as place:
        python = Path(place, "venv", "bin", "python")
        install: list[str | Path] = [
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
            "--no-index",
        ]
        install += ["--find-links", wheels, "--requirement", wheels.parent / REQUIREMENTS]
        plan: list[str | Path] = [python, "-m", "tests.gpu", "--dry-run", "--output", Path(place, "gpu.tar.gz")]
        anew: list[str | Path] = [sys.executable, "-m", "venv", Path(place, "venv")]
        for command in (anew, install, plan):
            done = subprocess.run(command, cwd=ROOT, env=_OWN, capture_output=True, text=True, check=False)
            if done.returncode:
                said = (done.stderr or done.stdout).strip().splitlines()
                return f"what an installation from these wheels needs: {said[-1] if said else 'no reason is given'}"
    return ""


def core(folder: Path) -> str:
    """Copy the library of HAMi-core that the variable names, and return why not; empty: it is there."""
    named = os.environ.get(HAMI_CORE)
    if not named:
        return f"HAMi-core: {HAMI_CORE} names neither its library nor a directory with a build"
    path = Path(named)
    found = [path] if path.is_file() else sorted(path.rglob("libvgpu.so"))
    if not found:
        return f"HAMi-core: there is no libvgpu.so below {named}: build it with its own Makefile, which needs CUDA"
    folder.mkdir()
    shutil.copyfile(found[0], folder / "libvgpu.so")
    for licence in path.glob("LICENSE*") if path.is_dir() else ():
        shutil.copyfile(licence, folder / licence.name)
    return ""


def _licences(folder: Path) -> Iterator[str]:
    for wheel in folder.glob("wheels/*.whl"):
        yield f"{wheel.name}: {licence(wheel)}"
    if (folder / "nccl").is_dir():
        yield "nccl/libnccl.so.2: BSD-3-Clause and NVIDIA's additions, nccl/License.txt"
    if (folder / "hami-core").is_dir():
        yield "hami-core/libvgpu.so: Apache-2.0, https://github.com/Project-HAMi/HAMi-core"


def licence(wheel: Path) -> str:
    """The licence that a wheel names."""
    with zipfile.ZipFile(wheel) as archive:
        name = next((name for name in archive.namelist() if name.endswith(".dist-info/METADATA")), "")
        told = email.parser.Parser().parsestr(archive.read(name).decode(errors="replace") if name else "")
    named = told.get("License-Expression") or (told.get("License") or "").strip().partition("\n")[0]
    classifiers = [one for one in told.get_all("Classifier") or [] if one.startswith("License")]
    return named or "; ".join(classifiers) or "its metadata names none"


if __name__ == "__main__":
    for problem in pack(KIT):
        print(f"THE KIT LACKS {problem}", file=sys.stderr)
    print(KIT)
