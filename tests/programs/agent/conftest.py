"""The stub of NVML, for the tests of the program."""

from tests.nvml.any_driver import any_machine
from tests.nvml.stub import nvml_library, play

__all__ = ["any_machine", "nvml_library", "play"]
