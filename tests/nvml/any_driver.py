"""Machines of any NVML: that of the stub, and those of other libraries, each of which a separate process loads.

A test that is valid for every NVML has the marker ``any_driver`` and takes its machine from the fixture
``any_machine``. ``test_other_libraries.py`` runs all such tests once more for each machine of ``NVML_ASSETS``.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import pytest

from tests.nvml.library import DESCRIPTION, LIBRARY
from tests.nvml.machines import hgx_h100
from tests.nvml.stub import SHOWN, Play, environment_of

ASSETS = "NVML_ASSETS"
"""Environment variable: a directory whose subdirectories are machines (docs/testing.md)."""
CHOSEN = "NVML_MACHINE"
"""Environment variable: the directory of the machine that this process uses in place of the stub's."""
WELL = ("healthy", "absent")


@dataclass(frozen=True)
class AnyMachine:
    """A machine that NVML shows.

    Attributes:
        name: Name of the machine.
        root: The directory that holds its ``/sys`` and ``/proc``, if there are any.
        environment: The environment of a process that finds the library and this machine.
        health: The allowed states of the node.
        lost: Indices of the GPUs that cannot be reached.
    """

    name: str
    root: Path
    environment: Mapping[str, str]
    health: tuple[str, ...] = WELL
    lost: tuple[int, ...] = ()


def machines_in(assets: Path) -> list[Path]:
    """Returns the directories of the machines, sorted by name."""
    return sorted(path.parent for path in assets.glob("*/environment"))


def other_machine(directory: Path) -> AnyMachine:
    """Reads the machine of a directory of ``NVML_ASSETS``.

    Raises:
        FileNotFoundError: the library is neither in the directory nor in its parent.
    """
    libraries = (directory, directory.parent)
    library = next((path for path in libraries if (path / LIBRARY).exists()), None)
    if library is None:
        raise FileNotFoundError(f"{directory}: expected {LIBRARY} there or in {directory.parent}")
    lines = (directory / "environment").read_text(encoding="utf-8").splitlines()
    text = dict(line.split("=", 1) for line in lines if line)
    variables = {name: Template(value).safe_substitute(directory=directory) for name, value in text.items()}
    kept = {name: value for name, value in os.environ.items() if name not in (DESCRIPTION, SHOWN)}
    known = _known(directory / "expected.json")
    return AnyMachine(
        name=directory.name,
        root=directory / "root",
        environment=kept | variables | {"LD_LIBRARY_PATH": str(library), CHOSEN: str(directory)},
        health=(known["health"],) if "health" in known else WELL,
        lost=tuple(known.get("lost", ())),
    )


def _known(path: Path) -> dict[str, Any]:
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if unknown := known.keys() - {"health", "lost"}:
        raise ValueError(f"{path}: expected health and lost, found {', '.join(sorted(unknown))}")
    return known


@pytest.fixture
def any_machine(request: pytest.FixtureRequest) -> AnyMachine:
    """The machine that the NVML of this process shows: eight H100 of the stub, or that of ``NVML_MACHINE``."""
    if chosen := os.environ.get(CHOSEN):
        return other_machine(Path(chosen))
    play: Play = request.getfixturevalue("play")
    library: Path = request.getfixturevalue("nvml_library")
    machine = hgx_h100()
    root = play(machine)
    return AnyMachine(machine.name, root, environment_of(library, root / "nvml.txt"))
