"""The files of a driver's installation that tools look for: its libraries and its device nodes."""

import os
import stat
from pathlib import Path

from tests.nvml.library import LIBRARY
from tests.nvml.machines import Machine

NVIDIA_MAJOR, CONTROL_MINOR = 195, 255
"""Major number of ``/dev/nvidia*``, and minor number of ``/dev/nvidiactl``."""


def make_driver_root(directory: Path, machine: Machine, library: Path) -> Path:
    """Makes a root directory with the driver of a machine. Needs to be root, because it makes device nodes.

    Args:
        directory: The directory to make.
        machine: The machine with the version of the driver and the cards.
        library: The file of NVML.

    Returns:
        The directory.
    """
    libraries, devices = directory / "usr" / "lib64", directory / "dev"
    libraries.mkdir(parents=True)
    devices.mkdir()
    (libraries / f"libcuda.so.{machine.driver}").touch()
    (libraries / f"{LIBRARY.removesuffix('.1')}.{machine.driver}").write_bytes(library.read_bytes())
    (libraries / LIBRARY).symlink_to(f"{LIBRARY.removesuffix('.1')}.{machine.driver}")
    for name, minor in [("nvidiactl", CONTROL_MINOR), *((f"nvidia{card.minor}", card.minor) for card in machine.cards)]:
        os.mknod(devices / name, 0o666 | stat.S_IFCHR, os.makedev(NVIDIA_MAJOR, minor))
    return directory
