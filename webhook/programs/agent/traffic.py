"""Samples the counters of the cards in a thread of its own, apart from the rounds, and keeps what is told of them."""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime

from webhook.hardware.discovery.facts import CardCounters
from webhook.hardware.traffic.model import Traffic
from webhook.programs.agent.growth import Growth, Sampled

MISSED = 4
"""So many pauses may pass without a sample before the last one is told no more."""
MOST_OF_A_CORE = 0.005
"""For samples. Where they take more, as on a node whose driver starts each idle GPU for them because nothing keeps it
awake (persistence mode), the pauses between them become longer."""
LONGEST_PAUSE = 600.0


class Sampler:
    """Reads counters again and again. ``sampled`` and ``busy_since`` may be read by other threads.

    Args:
        read: Reads the counters of all cards.
        interval: Seconds between two samples.
        clock: Seconds that never go back.
        spent: Seconds of CPU that this thread has taken.
        now: The time on the wall.
        bug: Takes the traceback of a sample that ended in an exception.
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
        """Since when a sample has been going on; None between two."""

    def start(self) -> None:
        """Sample until the end of the program."""
        threading.Thread(target=self._run, name="traffic", daemon=True).start()

    @property
    def sampled(self) -> Sampled | None:
        """The last sample, as long as it is fresh."""
        found = self._sampled
        return found if found and self._clock() - found.at <= MISSED * self.pause else None

    @property
    def traffic(self) -> Traffic | None:
        """What the cards did until then; None where no card was read."""
        found = self.sampled
        return found.traffic if found and found.cards else None

    def sample(self) -> None:
        """Take one sample. Raises nothing."""
        started, spent = self._clock(), self._spent()
        self.busy_since = started
        try:
            counters = self._read()
            at, now = self._clock(), self._now()
            cards = self._growth.add(counters, at)
            self._sampled = Sampled(at=at, cards=cards, traffic=self._growth.traffic(now), seconds=at - started)
        except Exception:  # an odd machine must not end the samples of it
            self._bug()
        self.pause = min(max(self._interval, (self._spent() - spent) / MOST_OF_A_CORE), LONGEST_PAUSE)
        self.busy_since = None

    def _run(self) -> None:
        never = threading.Event()
        while True:
            began = self._clock()
            self.sample()
            never.wait(max(self.pause - (self._clock() - began), self.pause / 2))
