"""What the planner has done, in plain numbers."""

from collections import Counter
from datetime import datetime

from webhook.decisions.place.writes import Write
from webhook.programs.exposition import Spread

GATED_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
CHOICE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
GBPS = (1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 400.0, 800.0)
"""Upper bounds of buckets."""
CHOSEN = ("pinned", "repinned")
OBSERVED = ("same", "better-possible")
"""Results of writes: cards were chosen; what would have been chosen was compared with what HAMi gave."""


class Counts:
    """All that the planner counts. One thread writes, those of scrapes read."""

    def __init__(self) -> None:
        self.results: Counter[str] = Counter()
        """Pods by what was done about them."""
        self.links: Counter[str] = Counter()
        """Choices by link class."""
        self.given_up = Spread(GBPS)
        """What the best cards of such a node have more than those that were chosen; nothing is not counted."""
        self.observed: Counter[str] = Counter()
        """Pods that the planner only looked at, by whether better cards were free."""
        self.lost = Spread(GBPS)
        """What those had more; nothing is not counted."""
        self.writes: Counter[str] = Counter()
        """Writes by :class:`webhook.programs.planner.writer.Fate`."""
        self.api_errors: Counter[tuple[str, str]] = Counter()
        """Failed requests, by resource and kind of :class:`webhook.cluster.api.errors.ApiError`."""
        self.bugs = 0
        """Decisions that ended in an exception."""
        self.gated_seconds = Spread(GATED_SECONDS)
        """From the creation of a pod to the moment at which its gate was opened."""
        self.choice_seconds = Spread(CHOICE_SECONDS)
        """How long one round of choices took."""

    def done(self, write: Write) -> None:
        """A write was made."""
        if write.result in OBSERVED:
            self.observed[write.result] += 1
            _add(self.lost, write.given_up)
        elif write.result:
            self.results[write.result] += 1
        if write.result in CHOSEN:
            self.links[write.link] += 1
            _add(self.given_up, write.given_up)

    def opened(self, created: str, at: datetime) -> None:
        """The gate of a pod with this ``creationTimestamp`` was opened."""
        try:
            seconds = (at - datetime.fromisoformat(created)).total_seconds()
        except (ValueError, TypeError):  # none, or one without a zone: the API server writes neither
            return
        self.gated_seconds.add(max(0.0, seconds))


def _add(spread: Spread, value: float) -> None:
    if value > 0.0:
        spread.add(value)
