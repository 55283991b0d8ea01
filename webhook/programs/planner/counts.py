"""The counts of the planner, in plain numbers."""

from collections import Counter
from datetime import datetime

from webhook.decisions.place.writes import Write
from webhook.programs.exposition import Spread

GATED_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
CHOICE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
GBPS = (1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 400.0, 800.0)
"""Upper bounds of buckets: here in GB/s, above in seconds."""
CHOSEN = ("pinned", "repinned")
OBSERVED = ("same", "better-possible", "slices-same", "slices-better-possible")
"""Results of writes: with chosen cards, and with a comparison of the choice that was possible with what HAMi gave."""


class Counts:
    """The counts of the planner. One thread writes them, and the threads of scrapes read them."""

    def __init__(self) -> None:
        self.results: Counter[str] = Counter()
        """Pods, by what was done about them."""
        self.links: Counter[str] = Counter()
        """Choices, by link class."""
        self.given_up = Spread(GBPS)
        """GB/s that the best cards of such a node have more than the chosen ones, where that is more than 0."""
        self.observed: Counter[str] = Counter()
        """Pods that the planner only observed, by whether better cards were free."""
        self.lost = Spread(GBPS)
        """GB/s that the better free cards had more, where that is more than 0."""
        self.writes: Counter[str] = Counter()
        """Writes, by :class:`webhook.programs.planner.writer.Fate`."""
        self.api_errors: Counter[tuple[str, str]] = Counter()
        """Failed requests, by resource and kind of :class:`webhook.cluster.api.errors.ApiError`."""
        self.bugs = 0
        """Decisions and writes that ended in an exception."""
        self.gated_seconds = Spread(GATED_SECONDS)
        """Seconds from the creation of a pod to the opening of its gate."""
        self.choice_seconds = Spread(CHOICE_SECONDS)
        """Seconds that one round of choices took."""

    def done(self, write: Write) -> None:
        """Count a write that was made."""
        if write.result in OBSERVED:
            self.observed[write.result] += 1
            _add(self.lost, write.given_up)
        elif write.result:
            self.results[write.result] += 1
        if write.result in CHOSEN:
            self.links[write.link] += 1
            _add(self.given_up, write.given_up)

    def opened(self, created: str, at: datetime) -> None:
        """Count the opened gate of a pod with this ``creationTimestamp``."""
        try:
            seconds = (at - datetime.fromisoformat(created)).total_seconds()
        except (ValueError, TypeError):  # no time, or one without a zone: the API server writes neither
            return
        self.gated_seconds.add(max(0.0, seconds))


def _add(spread: Spread, value: float) -> None:
    if value > 0.0:
        spread.add(value)
