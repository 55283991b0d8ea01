"""Runs programs of an image as Kubernetes runs ours: process 1, no root, no privileges, nothing to write to.

With what the kernel has for it, because container runtimes want more of a machine: namespaces of mounts, processes and
IPC, a root that is read-only, ``no_new_privs``. The network is the machine's. Seccomp is not tried.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.image.build import Image

OPENSHIFT = "1000650000:0"
"""OpenShift gives each namespace user ids of its own, and group 0."""
# Arguments: the root, whether there is a /dev/shm, then where to mount which directory, "--", user, group, the command.
_SETUP = """
set -eu
root=$1 shm=$2; shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/shm"
for device in null zero urandom; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
[ "$shm" = no ] || mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -o remount,ro "$root/dev"
while [ "$1" != -- ]; do mkdir -p "$root/$2"; mount --bind "$1" "$root/$2"; shift 2; done
user=$2; shift 2
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs chroot --groups= --userspec="$user" "$root" "$@"
"""


class Container:
    """A way to run programs of an image, each in a container of its own.

    Args:
        image: What was built.
        user: User and group id; empty: those of the image.
        mounts: Directories of this machine, by their path in the container.
        shm: Whether ``/dev/shm`` can be written to; nothing else can.
    """

    def __init__(
        self, image: Image, *, user: str = "", mounts: dict[str, Path] | None = None, shm: bool = True
    ) -> None:
        self.config: dict[str, Any] = json.loads(image.config)["Docker"]["config"]
        pairs = [word for inside, outside in (mounts or {}).items() for word in (str(outside), inside)]
        namespaces = [
            "unshare",
            "--mount",
            "--pid",
            "--ipc",
            "--uts",
            "--fork",
            "--kill-child",
            "--propagation=private",
        ]
        setup = ["sh", "-c", _SETUP, "sh", str(image.root), "yes" if shm else "no"]
        self._prefix = [*namespaces, *setup, *pairs, "--", user or self.config["User"]]

    def run(self, command: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, with the environment of the image and ``environment``."""
        return subprocess.run(
            [*self._prefix, *command],
            env=self._environment(environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def entry(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the image's entry point with these arguments."""
        return self.run([*self.config["Entrypoint"], *arguments], **environment)

    @contextmanager
    def started(self, *arguments: str, **environment: str) -> Iterator["Started"]:
        """The entry point with these arguments, running; killed in the end if it still is."""
        process = subprocess.Popen(
            [*self._prefix, *self.config["Entrypoint"], *arguments],
            env=self._environment(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started = Started(process)
        try:
            yield started
        finally:
            started.kill()

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return dict(one.split("=", 1) for one in self.config["Env"]) | {"HOME": "/"} | more


class Started:
    """A container that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.line = process.stdout.readline() if process.stdout else ""
        """What the program logged first, or nothing if it ended before."""

    @property
    def pid(self) -> int:
        """Of the program, on this machine; in its container it is 1."""
        parent = self._process.pid
        return int(Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii"))

    def status(self) -> dict[str, str]:
        """/proc/<pid>/status of the program."""
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command beside the program, with its user and its environment, as the kubelet runs a probe."""
        status = self.status()
        entered = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--ipc", "--uts", "--root", "--wd"]
        user = [f"--setuid={status['Uid'].split()[0]}", f"--setgid={status['Gid'].split()[0]}"]
        variables = Path(f"/proc/{self.pid}/environ").read_text(encoding="utf-8").split("\0")
        return subprocess.run(
            [*entered, *user, "--", *command],
            env=dict(variable.split("=", 1) for variable in variables if variable),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def kill(self) -> None:
        """End the program if it still runs. It lost its parent death signal when it changed its user: prctl(2)."""
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            os.kill(self.pid, signal.SIGKILL)
        self._process.kill()
        self._process.communicate()

    def wait(self, seconds: float) -> int:
        """The exit code of the program, which ends within so many seconds."""
        return self._process.wait(seconds)
