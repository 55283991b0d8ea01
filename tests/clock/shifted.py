"""The time of day of one process, shifted as if the clock of its machine were wrong."""

import os
from functools import cache
from pathlib import Path

import pytest

from tests.shared_library import compile_library

SOURCE = Path(__file__).with_name("shifted_clock.c")
SECONDS = "SHIFTED_CLOCK_SECONDS"


@pytest.fixture(scope="session")
def shifted_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that shifts it."""
    return _compiled(tmp_path_factory.getbasetemp())


def shifted(library: Path, seconds: int) -> dict[str, str]:
    """The environment of a process whose clock is so much ahead; behind, if that is negative."""
    return {**os.environ, "LD_PRELOAD": str(library), SECONDS: str(seconds)}


@cache
def _compiled(directory: Path) -> Path:
    library = directory / "shifted-clock" / "shifted_clock.so"
    compile_library(SOURCE, library, stands_for="a clock that is wrong")
    return library
