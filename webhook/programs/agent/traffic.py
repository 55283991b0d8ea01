"""The sampler of the cards' traffic counters, in a thread of its own apart from the rounds."""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime

from webhook.hardware.discovery.facts import CardCounters
from webhook.hardware.traffic.model import Traffic
from webhook.programs.agent.growth import Growth, Sampled

MISSED = 4
"""The number of pauses without a new sample after which the last sample is no longer reported."""
MOST_OF_A_CORE = 0.005
"""The largest share of a CPU core for samples. If samples take more, the pauses between them become longer. They do so
on a node without persistence mode, whose driver starts each idle GPU for a sample."""
LONGEST_PAUSE = 600.0


class Sampler:
    """The sampler, which reads counters at an interval. Other threads may read ``sampled`` and ``busy_since``.

    Args:
        read: Reads the counters of all cards.
        interval: Seconds between two samples.
        clock: Returns the seconds of a clock that never goes back.
        spent: Returns the CPU seconds of this thread.
        now: Returns the wall-clock time.
        bug: Called in the handler of an exception that ended a sample; logs the traceback.
    """

    def __init__(
        self,
        read: Callable[[], Sequence[CardCounters]],
        *,
        interval: float,
        clock: Callable[[], float],
        spent: Callable[[], float],
        now: Callable[[], datetime],
        bug: Callable[[], None],
    ) -> None:
        self._read = read
        self._interval = interval
        self.pause = interval
        """Seconds until the next sample."""
        self._clock = clock
        self._spent = spent
        self._now = now
        self._bug = bug
        self._growth = Growth()
        self._sampled: Sampled | None = None
        self.busy_since: float | None = None
        """The start of the current sample; None between two samples."""

    def start(self) -> None:
        """Starts the thread, which samples until the end of the program."""
        threading.Thread(target=self._run, name="traffic", daemon=True).start()

    @property
    def sampled(self) -> Sampled | None:
        """The last sample, or None if it is no longer fresh."""
        found = self._sampled
        return found if found and self._clock() - found.at <= MISSED * self.pause else None

    @property
    def traffic(self) -> Traffic | None:
        """The traffic up to the last sample; None if no card was read."""
        found = self.sampled
        return found.traffic if found and found.cards else None

    def sample(self) -> None:
        """Takes one sample. Raises nothing."""
        started, spent = self._clock(), self._spent()
        self.busy_since = started
        try:
            counters = self._read()
            at, now = self._clock(), self._now()
            cards = self._growth.add(counters, at)
            self._sampled = Sampled(at=at, cards=cards, traffic=self._growth.traffic(now), seconds=at - started)
        except Exception:  # an odd machine must not end the sampling
            self._bug()
        self.pause = min(max(self._interval, (self._spent() - spent) / MOST_OF_A_CORE), LONGEST_PAUSE)
        self.busy_since = None

    def _run(self) -> None:
        never = threading.Event()
        while True:
            began = self._clock()
            self.sample()
            never.wait(max(self.pause - (self._clock() - began), self.pause / 2))
