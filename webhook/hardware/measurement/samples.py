"""What several samples of one measurement say together."""

from collections.abc import Sequence
from statistics import median

_UNSTEADY = 0.1
"""Spread, as a share of the median, beyond which one had better measure again."""


def rates(size: int, milliseconds: Sequence[float]) -> list[float]:
    """GB/s of so many bytes, for each time that they took; none for a time that was too short for the clock."""
    return [size / time / 1e6 for time in milliseconds if time > 0]


def middle(samples: Sequence[float]) -> float | None:
    """The median: one sample that another program disturbed does not move it. None without samples."""
    return median(samples) if samples else None


def spread(samples: Sequence[float]) -> float | None:
    """From the least to the greatest; one sample has none."""
    return max(samples) - min(samples) if samples[1:] else None


def is_unsteady(samples: Sequence[float]) -> bool:
    """Whether the samples differ by more than a tenth."""
    between, of = spread(samples), middle(samples)
    return bool(between and of and between > _UNSTEADY * of)
