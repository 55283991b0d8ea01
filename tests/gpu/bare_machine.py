"""A machine that has glibc, the libraries of GCC, a shell and a few programs: no Python, no OpenSSL, no network.

It is a directory that processes have as their root, in namespaces of their own.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.gpu.interpreter import OF_MACHINE

_PROGRAMS = ("sh", "cat", "dirname", "getconf", "head", "mount", "sed", "sort", "umount", "uname")
_APART = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--kill-child"]
# Arguments: the root, directories to mount at their own place, "--", the command. After chroot alone no process could
# make user namespaces.
_SETUP = """
set -eu
root=$1; shift
mount --rbind "$root" "$root"
while [ "$1" != -- ]; do mkdir -p "$root$1"; mount --rbind "$1" "$root$1"; shift; done
shift
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
cd "$root"
pivot_root . old
umount -l old
exec "$@"
"""


class BareMachine:
    """Runs programs with a directory as their root.

    Args:
        root: The directory; it is filled.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("bin", "dev", "old", "proc", "sys", "tmp"):
            (root / name).mkdir(parents=True)
        for name in _PROGRAMS:
            found = shutil.which(name)
            assert found, f"expected {name} on the PATH"
            shutil.copy(found, root / "bin" / name)
            for library in _libraries(found):
                self._place(library)
                for other in library.parent.iterdir():
                    if OF_MACHINE.fullmatch(other.name):
                        self._place(other)

    def run(
        self, command: Sequence[str], mounts: Sequence[Path], environment: Mapping[str, str]
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command that sees these directories at their own place beside the root, and nothing else."""
        return subprocess.run(
            [*_APART, "sh", "-c", _SETUP, "sh", str(self.root), *map(str, mounts), "--", *command],
            env={"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin:/bin", **environment},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def _place(self, library: Path) -> None:
        target = self.root / library.relative_to("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)


def _libraries(program: str) -> Sequence[Path]:
    command = ["ldd", program]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = [word for line in said.splitlines() for word in line.split() if word.startswith("/")]
    return [Path(word) for word in words]


@pytest.fixture
def bare_machine(tmp_path: Path) -> BareMachine:
    """A machine without Python and without a network."""
    if subprocess.run([*_APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets no process have namespaces of its own")
    return BareMachine(tmp_path / "root")
