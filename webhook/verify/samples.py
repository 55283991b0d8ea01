"""What several samples of one measurement say together."""

from collections.abc import Sequence
from statistics import median

_UNSTEADY = 0.1
"""Spread, as a share of the median, beyond which one had better measure again."""


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
