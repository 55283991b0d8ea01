"""Machines of any NVML: that of the stub, and those of a library of others, which a process of its own loads.

A test that holds over every NVML has the marker ``any_driver`` and takes its machine from the fixture ``any_machine``.
``test_other_libraries.py`` runs all such tests once more for each machine of ``NVML_ASSETS``.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import pytest

from tests.nvml.machines import hgx_h100
from tests.nvml.stub import DESCRIPTION, LIBRARY, SHOWN, Play, environment_of

ASSETS = "NVML_ASSETS"
"""Environment variable: a directory whose subdirectories are machines (docs/testing.md)."""
CHOSEN = "NVML_MACHINE"
"""Environment variable: the directory of the machine that this process is told to use in place of the stub's."""
WELL = ("healthy", "absent")


@dataclass(frozen=True)
class AnyMachine:
    """A machine that NVML shows.

    Attributes:
        name: For people.
        root: Where its ``/sys`` and ``/proc`` are, as far as there are any.
        environment: Of a process that finds the library and this machine.
        health: The states of the node, one of which it has.
        lost: Indices of the GPUs that cannot be reached.
    """

    name: str
    root: Path
    environment: Mapping[str, str]
    health: tuple[str, ...] = WELL
    lost: tuple[int, ...] = ()


def machines_in(assets: Path) -> list[Path]:
    """The directories of the machines, by their names."""
    return sorted(path.parent for path in assets.glob("*/environment"))


def other_machine(directory: Path) -> AnyMachine:
    """The machine of a directory of ``NVML_ASSETS``.

    Raises:
        FileNotFoundError: no library is there, nor beside the machines.
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
    """Eight H100 of the stub, or the machine that ``NVML_MACHINE`` names; NVML of this process shows the same."""
    if chosen := os.environ.get(CHOSEN):
        return other_machine(Path(chosen))
    play: Play = request.getfixturevalue("play")
    library: Path = request.getfixturevalue("nvml_library")
    machine = hgx_h100()
    root = play(machine)
    return AnyMachine(machine.name, root, environment_of(library, root / "nvml.txt"))
