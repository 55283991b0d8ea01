"""The archive of a platform: the launcher, and libraries for each version of Python."""

import filecmp
import gzip
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.krew.platforms import PYTHONS, Platform

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLUGIN = "kubectl-gpu_topology"
_SOURCE = "direct_url.json"
_SHARED = "lib"


def build_wheel(directory: Path) -> Path:
    """Our own wheel, from the files of this checkout."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--no-build-isolation", "--wheel-dir", directory, ROOT], check=True)
    (wheel,) = directory.glob("*.whl")
    return wheel


def build_archive(platform: Platform, wheel: Path, work: Path, archive: Path) -> None:
    """Write the archive of a platform, with all libraries that the wheel needs, in the versions of requirements.lock.

    Args:
        platform: For which wheels are taken; it need not be this one.
        wheel: Ours.
        work: An empty directory.
        archive: The file to write.
    """
    trees = {version: work / f"cp{version.replace('.', '')}" for version in PYTHONS}
    for version, tree in trees.items():
        _install(platform, version, wheel, tree)
    share(list(trees.values()), work / _SHARED)
    shutil.copy(HERE / "launcher.sh", work / PLUGIN)
    shutil.copy(HERE / "launcher.py", work / "main.py")
    shutil.copy(ROOT / "LICENSE", work / "LICENSE")
    pack(work, archive, executable=PLUGIN)


def _install(platform: Platform, version: str, wheel: Path, tree: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", version]
    for tag in platform.tags:
        command += ["--platform", tag]
    command += ["--constraint", str(ROOT / "requirements.lock"), "--target", str(tree), str(wheel)]
    subprocess.run(command, check=True)
    shutil.rmtree(tree / "bin", ignore_errors=True)
    forget_source(tree)


def forget_source(tree: Path) -> None:
    """Remove the path of our wheel on the machine that built it: packaging.python.org, "Direct URL Data Structure"."""
    for written in tree.glob(f"*.dist-info/{_SOURCE}"):
        record, name = written.with_name("RECORD"), written.relative_to(tree).as_posix()
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not line.startswith(f"{name},")), encoding="utf-8")
        written.unlink()


def share(trees: Sequence[Path], shared: Path) -> None:
    """Move what is the same in all trees, package by package, into one."""
    shared.mkdir()
    first, *others = trees
    for entry in sorted(first.iterdir()):
        if all(_same(entry, other / entry.name) for other in others):
            shutil.move(entry, shared / entry.name)
            for other in others:
                _remove(other / entry.name)


def _same(one: Path, other: Path) -> bool:
    if not one.is_dir():
        return other.is_file() and filecmp.cmp(one, other, shallow=False)
    return other.is_dir() and _files(one) == _files(other)


def _files(directory: Path) -> Mapping[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def pack(directory: Path, archive: Path, *, executable: str) -> None:
    """Write a tar.gz that depends on nothing but the files: sorted, without times and owners."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted(directory.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                tar.add(path, str(path.relative_to(directory)), filter=lambda each: _plain(each, executable))


def _plain(member: tarfile.TarInfo, executable: str) -> tarfile.TarInfo:
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.name == executable else 0o644
    return member
