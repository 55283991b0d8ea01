"""The stub of NVML in place of the driver's library, in this process or in one that a test starts.

A folder of tests that needs the stub imports the fixtures into its ``conftest.py``.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from tests.nvml.library import DESCRIPTION, LIBRARY, compile_stub
from tests.nvml.machines import Machine, write_machine

SHOWN = "NVIDIA_VISIBLE_DEVICES"
"""Environment variable that lists the GPUs to show; without it all GPUs of the machine are shown."""

Play = Callable[[Machine], Path]


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that holds only the stub: the LD_LIBRARY_PATH of a process that shall find it."""
    return _compiled(tmp_path_factory.getbasetemp())


@pytest.fixture
def play(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """A function that plays a machine in this process until the test ends or plays another.

    It returns the root of the files of the machine.
    """
    _load(nvml_library / LIBRARY)

    numbers = count(1)

    def start(machine: Machine) -> Path:
        directory = tmp_path / f"machine-{next(numbers)}"
        monkeypatch.delenv(SHOWN, raising=False)
        monkeypatch.setenv(DESCRIPTION, str(write_machine(machine, directory)))
        return directory

    return start


@contextmanager
def played(library: Path, description: Path, shown: str) -> Iterator[None]:
    """Plays a machine in this process within the context, with only the listed GPUs."""
    _load(library / LIBRARY)
    before = {name: os.environ.get(name) for name in (DESCRIPTION, SHOWN)}
    os.environ |= {DESCRIPTION: str(description), SHOWN: shown}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def environment_of(library: Path, description: Path | None = None) -> dict[str, str]:
    """Returns the environment of a process that finds the library of this directory and the machine to play."""
    kept = {name: value for name, value in os.environ.items() if name not in (DESCRIPTION, SHOWN)}
    played = {DESCRIPTION: str(description)} if description else {}
    return kept | {"LD_LIBRARY_PATH": str(library)} | played


def without_library(directory: Path) -> Path:
    """Returns a directory for LD_LIBRARY_PATH with which the loader finds no NVML, even on a machine that has one."""
    (directory / LIBRARY).write_bytes(b"")  # the loader stops its search at a file that is no library
    return directory


@cache
def _compiled(directory: Path) -> Path:
    target = directory / "nvml-stub"
    compile_stub(target)
    return target


@cache
def _load(library: Path) -> ctypes.CDLL:
    """Loads the stub, so that the bindings find it under the name of NVML."""
    stub = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    if not hasattr(ctypes.CDLL(LIBRARY), "nvml_stub"):
        raise RuntimeError("the NVML of a real driver was loaded before: run these tests in a process of their own")
    return stub
