"""The stub of NVML, for the tests of the remap program."""

from pathlib import Path

import pytest

from tests.nvml.any_driver import any_machine
from tests.nvml.machines import MACHINES, write_machine
from tests.nvml.stub import nvml_library, play, played
from webhook.hardware.discovery.machine import discover
from webhook.hardware.topology.model import NodeTopology

__all__ = ["any_machine", "nvml_library", "play"]


class Drivers:
    """The machines of ``tests.hardware.topology.machines`` by their nodes, as their drivers show them."""

    def __init__(self, library: Path, directory: Path) -> None:
        self._library = library
        self._roots: dict[str, Path] = {}
        for name, make in MACHINES.items():
            machine = make()
            self._roots[machine.name] = directory / name
            write_machine(machine, directory / name)

    def see(self, node: str, shown: str) -> NodeTopology:
        """What a container sees there whose ``NVIDIA_VISIBLE_DEVICES`` is this."""
        root = self._roots[node]
        with played(self._library, root / "nvml.txt", shown):
            return discover(node=node, root=root)


@pytest.fixture(scope="session")
def drivers(nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Drivers:
    return Drivers(nvml_library, tmp_path_factory.mktemp("drivers"))
