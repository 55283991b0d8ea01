"""Whether an event loop still moves, for whoever asks in another thread."""

import asyncio
from collections.abc import Callable
from time import monotonic

SECONDS = 0.5
"""Between two beats."""


class Heartbeat:
    """Beats as long as a loop moves.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Beat from now on, until the loop ends."""
        self._last = self._clock()
        loop.call_later(SECONDS, self.start, loop)

    @property
    def silent_seconds(self) -> float:
        """Since the last beat. In any thread."""
        return self._clock() - self._last
