"""Headers of CUDA from the packages that NVIDIA publishes on PyPI, fetched once and kept in the cache of this user."""

import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 300


@dataclass(frozen=True)
class Wheel:
    """A wheel with a header; the header is the same for each machine of 64 bits."""

    project: str
    version: str
    sha256: str
    member: str
    """The path of the header in the wheel."""

    @property
    def directory(self) -> Path:
        """The directory in which the header is kept."""
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return caches / "gpu-topology-webhook" / "headers" / f"{self.project}-{self.version}-{self.sha256[:16]}"


CUDA_12 = Wheel(
    "nvidia-cuda-runtime-cu12",
    "12.9.79",
    "25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3",
    "nvidia/cuda_runtime/include/cuda.h",
)
"""3.5 MB."""
CUDA_13 = Wheel(
    "nvidia-cuda-runtime",
    "13.5.37",
    "df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d",
    "nvidia/cu13/include/cuda.h",
)
"""2.5 MB."""


def fetched(wheel: Wheel) -> Path:
    """Returns the directory with the header of a wheel.

    Raises:
        LookupError: it cannot be fetched; the text says why.
    """
    header = wheel.directory / Path(wheel.member).name
    if not header.is_file():
        try:
            header.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=header.parent) as directory:
                content = zipfile.ZipFile(_download(wheel, Path(directory))).read(wheel.member)
                part = Path(directory) / header.name
                part.write_bytes(content)
                part.replace(header)
        except OSError as error:
            raise LookupError(f"{wheel.project} cannot be kept: {error}") from None
    return header.parent


def _download(wheel: Wheel, directory: Path) -> Path:
    wanted = directory / "wanted.txt"
    wanted.write_text(f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    which = ["--platform", "manylinux2014_x86_64", "--only-binary", ":all:", "--no-deps", "--require-hashes"]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", *which]
    command += ["--dest", str(directory), "--requirement", str(wanted)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise LookupError(f"pip was not done with {wheel.project} after {_SECONDS} seconds") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise LookupError(f"pip does not get {wheel.project} {wheel.version}: {said[-1]}")
    return next(directory.glob("*.whl"))
