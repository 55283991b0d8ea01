"""The two clocks of the planner, as one value."""

from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import NamedTuple


class Clock(NamedTuple):
    """The two clocks."""

    monotonic: Callable[[], float] = monotonic
    """Returns seconds that never go back."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    """Returns the time in UTC."""
