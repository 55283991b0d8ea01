"""What the planner has done, in plain numbers."""

from collections import Counter
from datetime import datetime

from webhook.exposition import Spread
from webhook.place.write import Write

GATED_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
DECISION_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds of buckets."""


class Counts:
    """All that the planner counts. One thread writes, those of scrapes read."""

    def __init__(self) -> None:
        self.results: Counter[str] = Counter()
        """Pods by what was done about them."""
        self.writes: Counter[str] = Counter()
        """Writes by :class:`webhook.planner.writer.Fate`."""
        self.api_errors: Counter[tuple[str, str]] = Counter()
        """Failed requests, by resource and kind of :class:`webhook.kube.errors.ApiError`."""
        self.bugs = 0
        """Decisions that ended in an exception."""
        self.gated_seconds = Spread(GATED_SECONDS)
        """From the creation of a pod to the moment at which its gate was opened."""
        self.decision_seconds = Spread(DECISION_SECONDS)
        """How long one round of decisions took."""

    def done(self, write: Write) -> None:
        """A write was made."""
        if write.result:
            self.results[write.result] += 1

    def opened(self, created: str, at: datetime) -> None:
        """The gate of a pod with this ``creationTimestamp`` was opened."""
        try:
            seconds = (at - datetime.fromisoformat(created)).total_seconds()
        except (ValueError, TypeError):  # none, or one without a zone: the API server writes neither
            return
        self.gated_seconds.add(max(0.0, seconds))
