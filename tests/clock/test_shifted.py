"""The library shifts what Python reads as the time of day, and nothing else."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.clock.shifted import SECONDS, shifted, shifted_clock

__all__ = ["shifted_clock"]

PROGRAM = "import datetime, time; print(time.time(), datetime.datetime.now(datetime.UTC).timestamp(), time.monotonic())"


def read(environment: dict[str, str]) -> list[float]:
    """The time of day in two ways, and the clock that never goes back, of another process."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()]


@pytest.mark.parametrize("seconds", [-420, 0, 420])
def test_the_time_of_day_is_shifted_and_the_clock_that_never_goes_back_is_not(
    shifted_clock: Path, seconds: int
) -> None:
    before = [time.time(), time.time(), time.monotonic()]
    found = read(shifted(shifted_clock, seconds))
    after = [time.time(), time.time(), time.monotonic()]
    shifts = [seconds, seconds, 0]
    for low, value, high, shift in zip(before, found, after, shifts, strict=True):
        assert low <= value - shift <= high


@pytest.mark.parametrize("seconds", ["", "soon", "1.5", None])
def test_a_shift_that_is_no_number_ends_the_process(shifted_clock: Path, seconds: str | None) -> None:
    environment = {**os.environ, "LD_PRELOAD": str(shifted_clock)}
    environment |= {} if seconds is None else {SECONDS: seconds}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert "expected a number" in done.stderr
