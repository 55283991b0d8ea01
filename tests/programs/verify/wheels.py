"""Headers of CUDA, and NCCL, from NVIDIA's packages on PyPI, fetched once and kept in the cache of this user.

``python -m tests.programs.verify.wheels`` fetches NCCL, which has 218 MB, and prints its directory.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 600
NO_NCCL = "python -m tests.programs.verify.wheels has not fetched it (docs/testing.md)"


@dataclass(frozen=True)
class Wheel:
    """A wheel with files that tests need. Headers are the same for each machine of 64 bits."""

    project: str
    version: str
    sha256: str
    members: tuple[str, ...]
    """The paths of the files in the wheel."""

    @property
    def directory(self) -> Path:
        """The directory in which the files are kept, without their folders."""
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return caches / "gpu-topology-webhook" / "wheels" / f"{self.project}-{self.version}-{self.sha256[:16]}"

    @property
    def is_kept(self) -> bool:
        """Whether all files are there."""
        return all((self.directory / Path(member).name).is_file() for member in self.members)


CUDA_12 = Wheel(
    "nvidia-cuda-runtime-cu12",
    "12.9.79",
    "25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3",
    ("nvidia/cuda_runtime/include/cuda.h",),
)
"""3.5 MB."""
CUDA_13 = Wheel(
    "nvidia-cuda-runtime",
    "13.5.37",
    "df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d",
    ("nvidia/cu13/include/cuda.h",),
)
"""2.5 MB."""
NCCL = Wheel(
    "nvidia-nccl-cu12",
    "2.18.3",
    "89cf220910c43e53df992f54f7aa2a35c6d606b077c9ae95b1f17c544d3ad3f3",
    (
        "nvidia/nccl/include/nccl.h",
        "nvidia/nccl/lib/libnccl.so.2",
        "nvidia_nccl_cu12-2.18.3.dist-info/License.txt",
    ),
)
"""218 MB, which are 290 MB unpacked, and the least of all versions with NVLS. For x86-64."""

NCCL_OF_KIT = Wheel(
    "nvidia-nccl-cu12",
    "2.31.2",
    "f9b1dc3c2a7e20176054144ebb3b32fea83b40402ee5d7ac7045cd11ecc956c0",
    (
        "nvidia/nccl/include/nccl.h",
        "nvidia/nccl/lib/libnccl.so.2",
        "nvidia_nccl_cu12-2.31.2.dist-info/licenses/License.txt",
    ),
)
"""342 MB, which are 474 MB unpacked, for drivers of CUDA 12 and later, on x86-64. The one above is older than
``NCCL_CONF_FILE``, so it would leave a step of ``make gpu`` out."""


def fetched(wheel: Wheel) -> Path:
    """Returns the directory with the files of a wheel.

    Raises:
        LookupError: it cannot be fetched; the text says why.
    """
    if not wheel.is_kept:
        try:
            wheel.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=wheel.directory) as directory:
                archive = zipfile.ZipFile(_download(wheel, Path(directory)))
                for member in wheel.members:
                    Path(archive.extract(member, directory)).replace(wheel.directory / Path(member).name)
        except OSError as error:
            raise LookupError(f"{wheel.project} cannot be kept: {error}") from None
    return wheel.directory


def _download(wheel: Wheel, directory: Path) -> Path:
    wanted = directory / "wanted.txt"
    wanted.write_text(f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    which = [
        "--platform",
        "manylinux2014_x86_64",
        "--platform",
        "manylinux_2_18_x86_64",
        "--only-binary",
        ":all:",
        "--no-deps",
        "--require-hashes",
    ]
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


if __name__ == "__main__":
    print(fetched(NCCL))
