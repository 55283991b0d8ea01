"""The stub of NVML, for the tests of the program."""

from tests.nvml.stub import nvml_library, play

__all__ = ["nvml_library", "play"]
