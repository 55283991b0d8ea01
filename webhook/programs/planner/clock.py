"""The two clocks of the planner, as one value."""

from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import NamedTuple


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Clock(NamedTuple):
    """The two clocks."""

    monotonic: Callable[[], float] = monotonic
    """Returns seconds that never go back."""
    now: Callable[[], datetime] = _utc_now
    """Returns the time in UTC."""
