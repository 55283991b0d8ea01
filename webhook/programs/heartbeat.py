"""The heartbeat of an event loop, by which other threads see whether the loop still runs."""

import asyncio
from collections.abc import Callable
from time import monotonic

SECONDS = 0.5
"""Time between two beats."""


class Heartbeat:
    """A timer that an event loop sets again and again for as long as it runs.

    Args:
        clock: Returns seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Beat from now on, until ``loop`` ends."""
        self._last = self._clock()
        loop.call_later(SECONDS, self.start, loop)

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last beat. May be read in any thread."""
        return self._clock() - self._last
