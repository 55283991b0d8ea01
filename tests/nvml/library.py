"""The stand-in for NVML as a compiled library. Without pytest, which is not there when the demo makes one."""

from pathlib import Path

from tests.shared_library import compile_library

SOURCE = Path(__file__).parent / "stub" / "nvml_stub.c"
LIBRARY = "libnvidia-ml.so.1"
DESCRIPTION = "NVML_STUB_MACHINE"
"""Environment variable that names the machine to play."""


def compile_stub(directory: Path, source: Path = SOURCE) -> None:
    """Compiles the stub, or a source that includes it, into a directory, which is made if it is missing."""
    compile_library(source, directory / LIBRARY, stands_for="a GPU driver")
