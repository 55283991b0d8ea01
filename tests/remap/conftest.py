"""The stub of NVML, for the tests of the remap program."""

from tests.nvml.stub import nvml_library

__all__ = ["nvml_library"]
