"""``make gpu-kit``: what a machine without Python and without a network needs for ``make gpu``, beside the checkout.

The kit is for the machine of the person who makes it. It has software of others under their own licences, which it
lists: do not commit it, publish it, or put it into an image.
"""

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageMetadata
from pathlib import Path

from tests.gpu.interpreter import OWN, closure, copy_python, licence_of_library, needed_glibc
from tests.gpu.kit import KIT
from tests.programs.verify.wheels import NCCL_OF_KIT, fetched

ROOT = Path(__file__).parents[2]
HAMI_CORE = "HAMI_CORE"
"""Environment variable: the built library of HAMi-core, or the directory of its source with a build in it."""
_START = """\
#!/bin/sh
# Does what "make gpu" does, with the Python beside this file.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd) || exit
if [ "$(uname -m)" != {machine} ]; then
    echo "This kit is for {machine}, and this machine is $(uname -m): make it on a machine like this one." >&2
    exit 2
fi
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed 's/^glibc //')
if [ "$(printf '%s\\n' {glibc} "$glibc" | sort -V | head -n 1)" != {glibc} ]; then
    echo "This kit needs glibc {glibc} or later, and this machine has ${{glibc:-none}}." >&2
    echo "Make the kit where glibc is as old as here: docs/topology.md, under Acceptance run." >&2
    exit 2
fi
unset PYTHONHOME
PYTHONPATH=${{here%/*}} exec "$here/python/bin/python3" -P -m tests.gpu "$@"
"""
"""In POSIX sh: the machine may have nothing better."""


def pack(folder: Path) -> list[str]:
    """Make the kit anew, and return what it lacks, in sentences."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    parts = (core(folder / "hami-core"), _nccl(folder / "nccl"), pack_python(folder))
    lacks = [problem for problem in parts if problem]
    lines = [_for_whom(folder), "On your own machine only: LICENCES.txt says whose software it has."]
    lines += [f"LACKS: {problem}" for problem in lacks]
    (folder / "README.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return lacks


def _for_whom(folder: Path) -> str:
    return (
        f"For {platform.machine()} with glibc {_glibc(folder)} or later. Beside the checkout: make gpu, or gpu-kit/gpu."
    )


def _glibc(folder: Path) -> str:
    """NCCL is left out: its wheel is for machines that are older than any Python here."""
    return ".".join(map(str, max(needed_glibc(folder / part) for part in ("python", "hami-core"))))


def pack_python(folder: Path) -> str:
    """Bring Python, the packages and a program that starts them into the kit; return why not. Empty: they run."""
    try:
        libraries = copy_python(folder / "python", needed())
    except LookupError as error:
        return f"Python: {error}"
    start = folder / "gpu"
    start.write_text(_START.format(machine=platform.machine(), glibc=_glibc(folder)), encoding="utf-8")
    start.chmod(0o755)
    lines = sorted(_licences(folder, libraries))
    (folder / "LICENCES.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tried(start)


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


def tried(start: Path) -> str:
    """Ask the kit for the plan of ``make gpu``, as the other machine will, and return why it gives none.

    Empty: it works.
    """
    with tempfile.TemporaryDirectory() as place:
        command: list[str | Path] = [start, "--dry-run", "--output", Path(place, "gpu.tar.gz")]
        done = subprocess.run(command, cwd=place, env=OWN, capture_output=True, text=True, check=False)
    said = (done.stderr or done.stdout).strip().splitlines() or ["no reason is given"]
    if done.returncode:
        return f"what it needs to start: {said[-1]}"
    missing = next((line for line in said if "ModuleNotFoundError" in line or "ImportError" in line), "")
    return f"what it needs: {missing}" if missing else ""


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


def _licences(folder: Path, libraries: Mapping[str, Path]) -> Iterator[str]:
    texts = folder / "licences"
    texts.mkdir()
    yield f"python {platform.python_version()}: PSF-2.0, {_python_text(texts)}"
    for name, path in libraries.items():
        if name.startswith("libpython"):
            continue
        text = licence_of_library(path)
        if text:
            shutil.copyfile(text, texts / f"{name}.txt")
        yield f"python/lib/{name}: {f'licences/{name}.txt' if text else f'that of the package that has {path} here'}"
    for package in closure(needed()):
        yield f"{package.name} {package.version}: {licence(package.metadata)}"
    if (folder / "nccl").is_dir():
        yield "nccl/libnccl.so.2: BSD-3-Clause and NVIDIA's additions, nccl/License.txt"
    if (folder / "hami-core").is_dir():
        yield "hami-core/libvgpu.so: Apache-2.0, https://github.com/Project-HAMi/HAMi-core"


def _python_text(texts: Path) -> str:
    text = Path(sysconfig.get_path("stdlib"), "LICENSE.txt")
    if not text.is_file():
        return "https://docs.python.org/3/license.html"
    shutil.copyfile(text, texts / "python.txt")
    return "licences/python.txt"


def licence(told: PackageMetadata) -> str:
    """The licence that a package names."""
    expression, text = (("".join(told.get_all(name) or [])) for name in ("License-Expression", "License"))
    classifiers = [one for one in told.get_all("Classifier") or [] if one.startswith("License")]
    return expression or text.strip().partition("\n")[0] or "; ".join(classifiers) or "its metadata names none"


if __name__ == "__main__":
    for problem in pack(KIT):
        print(f"THE KIT LACKS {problem}", file=sys.stderr)
    print(KIT)
