"""The problems that the extender logs: a line now and then for each, however often it occurs."""

from collections import Counter
from collections.abc import Callable
from math import inf
from time import monotonic

from webhook.programs.log import Log

EVERY_SECONDS = 10.0
"""Shortest time between two lines about the same problem."""


class Complaints:
    """The lines about problems, at a limited rate.

    Args:
        log: Takes the lines.
        clock: Returns seconds that never go back.
    """

    def __init__(self, log: Log, clock: Callable[[], float] = monotonic) -> None:
        self._log = log
        self._clock = clock
        self._told: dict[str, float] = {}
        self._times: Counter[str] = Counter()

    def say(self, what: str, **fields: str) -> None:
        """Log a problem, unless a line about the same problem was written just before.

        Args:
            what: The problem, which is one of few words.
            fields: Further fields of the line.
        """
        self._times[what] += 1
        now = self._clock()
        if now - self._told.get(what, -inf) >= EVERY_SECONDS:
            self._told[what] = now
            self._log.say("warning", "extender", result=what, times=self._times.pop(what), **fields)
