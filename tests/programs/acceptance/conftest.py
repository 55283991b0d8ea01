"""The stub of NVML."""

from tests.nvml.stub import nvml_library

__all__ = ["nvml_library"]
