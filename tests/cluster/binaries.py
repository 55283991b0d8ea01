"""The programs of a Kubernetes control plane: found, or built from their Go modules and kept for the next run.

``python -m tests.cluster.binaries`` builds them ahead of time.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).with_name("tools")
ETCD = "etcd"
KUBE_APISERVER = "kube-apiserver"
PACKAGES = {ETCD: "go.etcd.io/etcd/server/v3", KUBE_APISERVER: "k8s.io/kubernetes/cmd/kube-apiserver"}
LAST_LINES = 15
REMEDY = f"Install Go 1.26 or later, or set KUBEBUILDER_ASSETS to a directory with {' and '.join(PACKAGES)}"


@dataclass(frozen=True)
class Binaries:
    """Executable files of one control plane."""

    etcd: Path
    kube_apiserver: Path


@dataclass(frozen=True)
class Missing:
    """Why there are no binaries, and what to do about it."""

    reason: str


def find_or_build(
    environment: Mapping[str, str], *, tools: Path = TOOLS, say: Callable[[str], None] = print
) -> Binaries | Missing:
    """The binaries that ``KUBEBUILDER_ASSETS`` names, those of an earlier build, or those of a build now.

    A build takes minutes and needs the network; ``say`` is told when one begins. Of several callers at a time, also in
    different processes, one builds and the others wait for it.

    Args:
        environment: Variables of the process: ``KUBEBUILDER_ASSETS``, ``PATH``, ``XDG_CACHE_HOME`` and Go's own.
        tools: A directory with the ``go.mod`` and ``go.sum`` that say what is built.
        say: Takes a line for the person who waits.
    """
    if assets := environment.get("KUBEBUILDER_ASSETS"):
        return _in_directory(Path(assets).absolute()) or Missing(
            f"KUBEBUILDER_ASSETS={assets}: expected executables {' and '.join(PACKAGES)} there. "
            "Put both there, or unset it and they are built with Go"
        )
    go = shutil.which("go", path=environment.get("PATH"))
    if go is None:
        return Missing(f"no Go compiler is on the PATH. {REMEDY}")
    try:
        return _cached(_Build(go, environment, tools), say)
    except OSError as error:
        return Missing(f"the binaries cannot be kept: {error}. Set XDG_CACHE_HOME to a directory that can be written")
    except BuildError as error:
        return Missing(str(error))


class BuildError(Exception):
    """Go did not do what it was asked; the text ends with its last lines."""


@dataclass(frozen=True)
class _Build:
    """What a build depends on."""

    go: str
    environment: Mapping[str, str]
    tools: Path

    def digest(self) -> str:
        """Changes with the modules, with the compiler and with the way they are built."""
        parts = [(self.tools / name).read_bytes() for name in ("go.mod", "go.sum")]
        parts += [self.run("version").encode(), repr((PACKAGES, self._flags())).encode()]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:32]

    def compile(self, directory: Path) -> None:
        for name, package in PACKAGES.items():
            self.run("build", *self._flags(), "-o", str(directory / name), package)

    def run(self, *arguments: str) -> str:
        """Standard output of ``go`` with these arguments.

        Raises:
            BuildError: it failed.
        """
        # Settings of the machine's owner for other projects must not change what is built.
        environment = {**self.environment, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
        done = subprocess.run(
            [self.go, *arguments], cwd=self.tools, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            last = "\n".join(done.stderr.strip().splitlines()[-LAST_LINES:])
            raise BuildError(f"go {arguments[0]} failed with exit code {done.returncode}:\n{last}\n{REMEDY}")
        return done.stdout

    def _flags(self) -> tuple[str, ...]:
        return "-trimpath", "-buildvcs=false", f"-ldflags=-s -w {self._version_stamp()}"

    def _version_stamp(self) -> str:
        """Without it the API server says at /version that it is v0.0.0 (component-base/version/base.go)."""
        release = re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\S*)", (self.tools / "go.mod").read_text())
        if release is None:
            raise BuildError(f"{self.tools / 'go.mod'}: expected a requirement of k8s.io/kubernetes with its version")
        stamp = {"gitVersion": release[1], "gitMajor": release[2], "gitMinor": release[3], "gitTreeState": "clean"}
        return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamp.items())


def _cached(build: _Build, say: Callable[[str], None]) -> Binaries:
    # The XDG base directory specification: empty is the same as not set.
    caches = Path(build.environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    finished = caches / "gpu-topology-webhook" / "control-plane" / build.digest()
    if kept := _in_directory(finished):
        return kept
    finished.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(finished.with_suffix(".lock")):
        if built_by_another := _in_directory(finished):
            return built_by_another
        say(f"Building {' and '.join(PACKAGES)} with Go; the first time this takes some minutes ...")
        partial = finished.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        build.compile(partial)
        partial.rename(finished)
    return Binaries(finished / ETCD, finished / KUBE_APISERVER)


def _in_directory(directory: Path) -> Binaries | None:
    binaries = Binaries(directory / ETCD, directory / KUBE_APISERVER)
    usable = all(path.is_file() and os.access(path, os.X_OK) for path in (binaries.etcd, binaries.kube_apiserver))
    return binaries if usable else None


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    """Held by one at a time; the kernel gives it back when the holder dies."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Prints the directory, or the reason; returns the exit code."""
    found = find_or_build(os.environ)
    if isinstance(found, Missing):
        print(found.reason, file=sys.stderr)
        return 1
    print(found.etcd.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
