"""Both clocks of the planner, as one value."""

from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import NamedTuple


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Clock(NamedTuple):
    """What time it is."""

    monotonic: Callable[[], float] = monotonic
    """Seconds that never go back."""
    now: Callable[[], datetime] = _utc_now
    """In UTC."""
