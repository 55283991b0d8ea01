"""A program of the Go ecosystem: found, or built from its module and kept outside the checkout for the next run."""

import fcntl
import hashlib
import json
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
    """A Go program and the way to build it.

    Attributes:
        name: Name of the executable.
        package: Import path of its package ``main``.
        modules: A directory with the ``go.mod`` and ``go.sum`` that determine the versions, and with the modules that
            their ``replace`` lines name.
        cgo: Whether the program is built with the C compiler.
        tags: Build tags.
        stamps: Go variables of type string with the values that the linker sets. ``{version}``, ``{major}`` and
            ``{minor}`` stand for those of the module that has the package, such as ``v1.36.3``, ``1`` and ``36``.
        assets: An environment variable that may name a directory with the executable.
        assets_are_whole: Whether a directory that is named there must have the executable. If not, a missing executable
            is built.
        on_demand: Whether only ``python -m tests.go_programs NAME`` builds it, because that takes minutes which
            ``make test`` does not have. Tests use what is there.
    """

    name: str
    package: str
    modules: Path
    cgo: bool = False
    tags: tuple[str, ...] = ()
    stamps: Mapping[str, str] = field(default_factory=dict)
    assets: str = ""
    assets_are_whole: bool = True
    on_demand: bool = False

    @property
    def remedy(self) -> str:
        """The advice for a machine without Go, or on which Go fails."""
        return f"Install Go 1.26 or later{' and a C compiler' if self.cgo else ''}" + self.or_assets

    @property
    def remedy_of_failure(self) -> str:
        """The advice where Go is there and its build failed, such as for want of a module at the proxy."""
        return "Look at the lines above: Go needs its module proxy (GOPROXY) and a C compiler" + self.or_assets

    @property
    def or_assets(self) -> str:
        """The other way to have the program, as the end of an advice."""
        return f", or set {self.assets} to a directory with {self.name}" if self.assets else ""


@dataclass(frozen=True)
class Missing:
    """The reason why a program is missing, with advice."""

    reason: str


def find_or_build(
    program: GoProgram, environment: Mapping[str, str], *, say: Callable[[str], None] = print, build: bool = True
) -> Path | Missing:
    """Returns the executable that the environment names, that of an earlier build, or that of a new build.

    A build takes minutes and needs the network; ``say`` is called when one begins. Of several callers at a time, also
    in different processes, one builds and the others wait for it.

    Args:
        program: The program.
        environment: Variables of the process: ``program.assets``, ``PATH``, ``XDG_CACHE_HOME`` and Go's own.
        say: Takes a line for the person who waits.
        build: Whether it may be built.
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
        task = _Build(go, environment, program)
        if not build and not _is_executable(task.finished / program.name):
            return Missing(
                f"it is not built yet. Build it with `python -m tests.go_programs {program.name}`{program.or_assets}"
            )
        return _cached(task, say)
    except OSError as error:
        return Missing(f"{program.name} cannot be kept: {error}. Set XDG_CACHE_HOME to a directory that can be written")
    except BuildError as error:
        return Missing(str(error))


def built(program: GoProgram, environment: Mapping[str, str], executable: Path) -> Path | Missing:
    """Builds a program anew, from modules that may change; Go keeps what it has compiled.

    Args:
        program: The program.
        environment: Variables of the process: ``PATH`` and Go's own.
        executable: Where it goes.
    """
    go = shutil.which("go", path=environment.get("PATH"))
    if go is None:
        return Missing(f"no Go compiler is on the PATH. {program.remedy}")
    try:
        _Build(go, environment, program).compile(executable)
    except BuildError as error:
        return Missing(str(error))
    return executable


def required(program: GoProgram) -> Path:
    """Returns the executable of a program, found or built with the environment of this process.

    Raises:
        LookupError: there is none; the message has the reason and advice.
    """
    found = find_or_build(program, os.environ)
    if isinstance(found, Missing):
        raise LookupError(found.reason)
    return found


def sources(program: GoProgram, environment: Mapping[str, str]) -> Path:
    """Returns the directory with the module of a program, as Go keeps it: for the manifests that belong to the program.

    Raises:
        LookupError: Go is missing, or the module cannot be had.
    """
    go = shutil.which("go", path=environment.get("PATH"))
    if go is None:
        raise LookupError(f"no Go compiler is on the PATH. {program.remedy}")
    task = _Build(go, environment, program)
    try:
        module = task.run("list", "-f", "{{.Module.Path}}", program.package).strip()
        return Path(json.loads(task.run("mod", "download", "-json", module))["Dir"])
    except BuildError as error:
        raise LookupError(str(error)) from error


class BuildError(Exception):
    """A failure of Go. The text ends with the last lines of its output."""


@dataclass(frozen=True)
class _Build:
    """A build of a program, with everything on which it depends."""

    go: str
    environment: Mapping[str, str]
    program: GoProgram

    @property
    def finished(self) -> Path:
        """The directory in which the executable is kept."""
        # XDG base directory specification: an empty variable counts as not set.
        caches = Path(self.environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return caches / "gpu-topology-webhook" / "programs" / f"{self.program.name}-{self.digest()}"

    def digest(self) -> str:
        """Returns a digest that changes with the modules, the compiler and the build flags."""
        parts = [self.run("version").encode(), repr((self.program.package, self.program.cgo, self._flags())).encode()]
        for path in sorted(self.program.modules.rglob("*")):
            if path.is_file():
                parts += [str(path.relative_to(self.program.modules)).encode(), path.read_bytes()]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]

    def compile(self, executable: Path) -> None:
        self.run("build", *self._flags(), "-o", str(executable), self.program.package)

    def run(self, *arguments: str) -> str:
        """Runs ``go`` with these arguments, and returns its standard output.

        Raises:
            BuildError: ``go`` failed.
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
                f"{self.program.remedy_of_failure}"
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
    name, finished = build.program.name, build.finished
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
    """Holds a lock that one process has at a time. The kernel releases it when the process dies."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
