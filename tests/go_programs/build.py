"""A program of the Go ecosystem: found, or built from its module and kept outside the checkout for the next run."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

LAST_LINES = 15
REQUIREMENT = re.compile(r"^(?:require )?\s*(\S+) (v(\d+)\.(\d+)\S*)(?: // indirect)?$", re.MULTILINE)


@dataclass(frozen=True)
class GoProgram:
    """What is built.

    Attributes:
        name: Of the executable.
        package: Import path of its package ``main``.
        modules: A directory with the ``go.mod`` and ``go.sum`` that say which versions it is built from, and with what
            their ``replace`` lines name.
        cgo: Whether it is built with the C compiler.
        tags: Build tags.
        stamps: Go variables of type string and what the linker puts there; ``{version}``, ``{major}`` and ``{minor}``
            stand for those of the module that has the package, such as ``v1.36.3``, ``1`` and ``36``.
        assets: An environment variable that may name a directory with such an executable.
        assets_are_whole: A directory that is named there must have it; otherwise it is built if it is not there.
    """

    name: str
    package: str
    modules: Path
    cgo: bool = False
    tags: tuple[str, ...] = ()
    stamps: Mapping[str, str] = field(default_factory=dict)
    assets: str = ""
    assets_are_whole: bool = True

    @property
    def remedy(self) -> str:
        """What to do where there is no Go, or where it fails."""
        said = f"Install Go 1.26 or later{' and a C compiler' if self.cgo else ''}"
        return said + (f", or set {self.assets} to a directory with {self.name}" if self.assets else "")


@dataclass(frozen=True)
class Missing:
    """Why there is no program, and what to do about it."""

    reason: str


def find_or_build(
    program: GoProgram, environment: Mapping[str, str], *, say: Callable[[str], None] = print
) -> Path | Missing:
    """The executable that the environment names, that of an earlier build, or that of a build now.

    A build takes minutes and needs the network; ``say`` is told when one begins. Of several callers at a time, also in
    different processes, one builds and the others wait for it.

    Args:
        program: What is wanted.
        environment: Variables of the process: ``program.assets``, ``PATH``, ``XDG_CACHE_HOME`` and Go's own.
        say: Takes a line for the person who waits.
    """
    if assets := environment.get(program.assets):
        ready = Path(assets).absolute() / program.name
        if _is_executable(ready):
            return ready
        if program.assets_are_whole:
            return Missing(
                f"{program.assets}={assets}: expected an executable {program.name} there. "
                "Put it there, or unset the variable and it is built with Go"
            )
    go = shutil.which("go", path=environment.get("PATH"))
    if go is None:
        return Missing(f"no Go compiler is on the PATH. {program.remedy}")
    try:
        return _cached(_Build(go, environment, program), say)
    except OSError as error:
        return Missing(f"{program.name} cannot be kept: {error}. Set XDG_CACHE_HOME to a directory that can be written")
    except BuildError as error:
        return Missing(str(error))


def required(program: GoProgram) -> Path:
    """The executable, as the environment of this process has it.

    Raises:
        LookupError: there is none; says why and what to do.
    """
    found = find_or_build(program, os.environ)
    if isinstance(found, Missing):
        raise LookupError(found.reason)
    return found


class BuildError(Exception):
    """Go did not do what it was asked; the text ends with its last lines."""


@dataclass(frozen=True)
class _Build:
    """What a build depends on."""

    go: str
    environment: Mapping[str, str]
    program: GoProgram

    def digest(self) -> str:
        """Changes with the modules, with the compiler and with the way the program is built."""
        parts = [self.run("version").encode(), repr((self.program.package, self.program.cgo, self._flags())).encode()]
        for path in sorted(self.program.modules.rglob("*")):
            if path.is_file():
                parts += [str(path.relative_to(self.program.modules)).encode(), path.read_bytes()]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]

    def compile(self, executable: Path) -> None:
        self.run("build", *self._flags(), "-o", str(executable), self.program.package)

    def run(self, *arguments: str) -> str:
        """Standard output of ``go`` with these arguments.

        Raises:
            BuildError: it failed.
        """
        # Settings of the machine's owner for other projects must not change what is built.
        ours = {"CGO_ENABLED": "1" if self.program.cgo else "0", "GOFLAGS": "", "GOWORK": "off"}
        done = subprocess.run(
            [self.go, *arguments],
            cwd=self.program.modules,
            env={**self.environment, **ours},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            last = "\n".join(done.stderr.strip().splitlines()[-LAST_LINES:])
            raise BuildError(
                f"{self.program.name}: go {arguments[0]} failed with exit code {done.returncode}:\n{last}\n"
                f"{self.program.remedy}"
            )
        return done.stdout

    def _flags(self) -> tuple[str, ...]:
        stamps = "".join(f" -X {name}={value}" for name, value in self._stamps().items())
        tags = (f"-tags={','.join(self.program.tags)}",) if self.program.tags else ()
        return "-trimpath", "-buildvcs=false", *tags, f"-ldflags=-s -w{stamps}"

    def _stamps(self) -> dict[str, str]:
        if not self.program.stamps:
            return {}
        go_mod = self.program.modules / "go.mod"
        found = [
            {"version": version, "major": major, "minor": minor, "module": module}
            for module, version, major, minor in REQUIREMENT.findall(go_mod.read_text())
            if f"{self.program.package}/".startswith(f"{module}/")
        ]
        if not found:
            raise BuildError(f"{go_mod}: expected a requirement of the module that has {self.program.package}")
        known = max(found, key=lambda each: len(each["module"]))
        return {name: value.format(**known) for name, value in self.program.stamps.items()}


def _cached(build: _Build, say: Callable[[str], None]) -> Path:
    # The XDG base directory specification: empty is the same as not set.
    caches = Path(build.environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = build.program.name
    finished = caches / "gpu-topology-webhook" / "programs" / f"{name}-{build.digest()}"
    if _is_executable(finished / name):
        return finished / name
    finished.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(finished.with_name(f"{finished.name}.lock")):
        if not _is_executable(finished / name):
            say(f"Building {name} with Go; the first time this takes some minutes ...")
            partial = finished.with_name(f"{finished.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            build.compile(partial / name)
            partial.rename(finished)
    return finished / name


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    """Held by one at a time; the kernel gives it back when the holder dies."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
