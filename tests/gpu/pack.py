"""``make gpu-kit``: what ``make gpu`` needs on a machine without a network, in ``gpu-kit/``.

The kit has the Python packages that the steps import, with compiled parts for Python 3.11 to 3.13 on this kind of
machine, and HAMi-core's library if one is named. CUDA, NCCL and Python are those of the machine with GPUs.
"""

import argparse
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.gpu.outcome import ROOT

KIT = ROOT / "gpu-kit"
PYTHONS = ("3.11", "3.12", "3.13")
PACKAGES = (
    *("aiohappyeyeballs", "aiohttp", "aiosignal", "annotated-doc", "attrs", "click", "frozenlist", "h11", "httptools"),
    *("idna", "jsonpointer", "msgspec", "multidict", "nvidia-ml-py", "prometheus-client"),
    *("propcache", "rich", "ruamel-yaml", "shellingham", "typer", "typing-extensions", "uvicorn", "yarl"),
)
"""What ``gpu-topology topology``, ``verify``, ``remap`` and ``agent`` import."""
MOST_MIB = 40


def main(arguments: Sequence[str]) -> int:
    """Make the kit, and say what it has and lacks. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="make gpu-kit", description=__doc__)
    parser.add_argument("--hami-core", type=Path, metavar="FILE", help="libvgpu.so, to be preloaded in one step")
    parser.add_argument("--output", type=Path, default=KIT, metavar="DIRECTORY", help="the kit; else gpu-kit/")
    options = parser.parse_args(arguments)
    shutil.rmtree(options.output, ignore_errors=True)
    packages = options.output / "packages"
    packages.mkdir(parents=True)
    pins = pinned((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        for python in PYTHONS:
            _download(python, [pins[name] for name in PACKAGES], Path(folder))
        for wheel in Path(folder).glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(packages)
    if options.hami_core:
        shutil.copyfile(options.hami_core, options.output / "libvgpu.so")
    mib = sum(path.stat().st_size for path in options.output.rglob("*") if path.is_file()) / 1024**2
    print(f"{options.output}: {mib:.1f} MiB, for Python {', '.join(PYTHONS)} on {platform.machine()}")
    print("It lacks: CUDA, NCCL and Python" + ("" if options.hami_core else "; HAMi-core (--hami-core FILE)"))
    print("Copy the checkout with it to the machine with GPUs, and run make gpu there.")
    if mib > MOST_MIB:
        print(f"expected at most {MOST_MIB} MiB", file=sys.stderr)
    return int(mib > MOST_MIB)


def pinned(lock: str) -> dict[str, str]:
    """The requirement of each package in a lock, by its name."""
    lines = (line.split(" ")[0] for line in lock.splitlines() if "==" in line and not line.startswith((" ", "#")))
    return {re.sub(r"[-_.]+", "-", re.split(r"[=\[]", line)[0]).lower(): line for line in lines}


def _download(python: str, requirements: Sequence[str], folder: Path) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    options += ["--python-version", python, "--implementation", "cp"]
    for year in ("manylinux2014", "manylinux_2_28", "manylinux_2_34"):
        options += ["--platform", f"{year}_{platform.machine()}"]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, *requirements], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
