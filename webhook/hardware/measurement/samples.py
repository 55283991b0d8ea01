"""Statistics of the samples of one measurement."""

from collections.abc import Sequence
from statistics import median

_UNSTEADY = 0.1
"""Spread, as a share of the median, above which the measurement should be repeated."""


def rates(size: int, milliseconds: Sequence[float]) -> list[float]:
    """Returns the GB/s of ``size`` bytes for each time. A time of 0, too short for the clock, is left out."""
    return [size / time / 1e6 for time in milliseconds if time > 0]


def middle(samples: Sequence[float]) -> float | None:
    """Returns the median, which one disturbed sample does not change; None without samples."""
    return median(samples) if samples else None


def spread(samples: Sequence[float]) -> float | None:
    """Returns the difference between the greatest and the least sample; None with fewer than two samples."""
    return max(samples) - min(samples) if samples[1:] else None


def is_unsteady(samples: Sequence[float]) -> bool:
    """Returns whether the samples differ by more than a tenth of their median."""
    between, of = spread(samples), middle(samples)
    return bool(between and of and between > _UNSTEADY * of)
