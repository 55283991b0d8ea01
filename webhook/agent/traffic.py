"""Samples the counters of the cards in a thread of its own, apart from the rounds, and keeps what is told of them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from webhook.agent.growth import CardTotals, Growth
from webhook.discovery.facts import CardCounters
from webhook.traffic.model import Traffic

MISSED = 4
"""So many intervals may pass without a sample before the last one is told no more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """The last sample: one value that is replaced as a whole, so that other threads see no half of it."""

    at: float
    """Seconds of a clock that never goes back."""
    cards: Mapping[str, CardTotals] = field(default_factory=dict)
    """By UUID."""
    traffic: Traffic | None = None
    seconds: float = 0.0
    """How long it took."""


class Sampler:
    """Reads counters again and again. ``sampled`` and ``busy_since`` may be read by other threads.

    Args:
        read: Reads the counters of all cards.
        interval: Seconds between two samples.
        clock: Seconds that never go back.
        now: The time on the wall.
        bug: Takes the traceback of a sample that ended in an exception.
    """

    def __init__(
        self,
        read: Callable[[], Sequence[CardCounters]],
        *,
        interval: float,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        bug: Callable[[], None],
    ) -> None:
        self._read = read
        self.interval = interval
        self._clock = clock
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
        return found if found and self._clock() - found.at <= MISSED * self.interval else None

    @property
    def traffic(self) -> Traffic | None:
        """What the cards did until then; None where no card was read."""
        found = self.sampled
        return found.traffic if found and found.cards else None

    def sample(self) -> None:
        """Take one sample. Raises nothing."""
        started = self.busy_since = self._clock()
        try:
            counters = self._read()
            at, now = self._clock(), self._now()
            cards = self._growth.add(counters, at)
            self._sampled = Sampled(at=at, cards=cards, traffic=self._growth.traffic(now), seconds=at - started)
        except Exception:  # an odd machine must not end the samples of it
            self._bug()
        self.busy_since = None

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            began = self._clock()
            self.sample()
            pause.wait(max(self.interval - (self._clock() - began), self.interval / 2))
