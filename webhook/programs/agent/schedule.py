"""The schedule of the agent: a value with the times of the next discovery and the next publication."""

from dataclasses import dataclass, replace

JITTER = 0.1
"""The share by which an interval varies, so that agents that start together do not ask the API server together."""
FIRST_RETRY = 2.0
LAST_RETRY = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """The times of the next steps, in seconds of a clock that never goes back.

    Discovery keeps its interval whether the API server answers or not. A discovered topology is published at once,
    but after a failure only when the retry is due. ``chance`` is a random number from 0 up to 1.
    """

    interval: float
    discover_at: float
    retry_at: float | None = None
    """The time of the retry, before which nothing is published; None if the last publication did not fail."""
    failures: int = 0
    """The number of failed publications in a row."""

    @property
    def wake_at(self) -> float:
        """The time of the next discovery or retry."""
        return self.discover_at if self.retry_at is None else min(self.discover_at, self.retry_at)

    def may_publish(self, now: float) -> bool:
        """Returns whether a publication may be tried."""
        return self.retry_at is None or now >= self.retry_at

    def discovered(self, now: float, chance: float) -> "Schedule":
        """Returns the schedule after a discovery."""
        return replace(self, discover_at=now + self.interval * (1 - JITTER + 2 * JITTER * chance))

    def published(self) -> "Schedule":
        """Returns the schedule after a successful publication."""
        return replace(self, retry_at=None, failures=0)

    def failed(self, now: float, chance: float, *, asked: float = 0.0) -> "Schedule":
        """Returns the schedule after a failed publication; ``asked``: the seconds that the API server asked to wait."""
        failures = self.failures + 1
        longest = min(LAST_RETRY, FIRST_RETRY * 2.0 ** min(failures, 30))
        delay = max(min(asked, LAST_RETRY), longest * (1 + chance) / 2)
        return replace(self, failures=failures, retry_at=now + delay)
