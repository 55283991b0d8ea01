"""What the extender logs: of each thing that is wrong a line now and then, however often it happens."""

from collections import Counter
from collections.abc import Callable
from math import inf
from time import monotonic

from webhook.programs.log import Log

EVERY_SECONDS = 10.0
"""Between two lines about the same."""


class Complaints:
    """Lines of a log, not too many.

    Args:
        log: Takes them.
        clock: Seconds that never go back.
    """

    def __init__(self, log: Log, clock: Callable[[], float] = monotonic) -> None:
        self._log = log
        self._clock = clock
        self._told: dict[str, float] = {}
        self._times: Counter[str] = Counter()

    def say(self, what: str, **fields: str) -> None:
        """Something is wrong.

        Args:
            what: One of few words.
            fields: Of the line.
        """
        self._times[what] += 1
        now = self._clock()
        if now - self._told.get(what, -inf) >= EVERY_SECONDS:
            self._told[what] = now
            self._log.say("warning", "extender", result=what, times=self._times.pop(what), **fields)
