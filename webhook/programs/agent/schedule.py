"""When the agent discovers and when it publishes: a value that is asked for the time and told what became of it."""

from dataclasses import dataclass, replace

JITTER = 0.1
"""How far an interval may be shorter or longer: agents that start together must not ask the API server together."""
FIRST_RETRY = 2.0
LAST_RETRY = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """Times in seconds of one clock that never goes back. ``chance`` is a random number from 0 up to 1.

    Discovery goes on at its interval whether the API server answers or not. What was discovered is published at once,
    but after a failure only when the retry is due.
    """

    interval: float
    discover_at: float
    retry_at: float | None = None
    """Nothing is published before; None if nothing failed."""
    failures: int = 0
    """Publications that failed, one after the other."""

    @property
    def wake_at(self) -> float:
        """When there is something to do next."""
        return self.discover_at if self.retry_at is None else min(self.discover_at, self.retry_at)

    def may_publish(self, now: float) -> bool:
        """Whether the API server may be asked."""
        return self.retry_at is None or now >= self.retry_at

    def discovered(self, now: float, chance: float) -> "Schedule":
        """After a discovery, whatever it found."""
        return replace(self, discover_at=now + self.interval * (1 - JITTER + 2 * JITTER * chance))

    def published(self) -> "Schedule":
        """After the cluster has what was discovered."""
        return replace(self, retry_at=None, failures=0)

    def failed(self, now: float, chance: float, *, asked: float = 0.0) -> "Schedule":
        """After a publication failed; ``asked`` are the seconds that the API server asked to be left alone for."""
        failures = self.failures + 1
        longest = min(LAST_RETRY, FIRST_RETRY * 2.0 ** min(failures, 30))
        delay = max(min(asked, LAST_RETRY), longest * (1 + chance) / 2)
        return replace(self, failures=failures, retry_at=now + delay)
