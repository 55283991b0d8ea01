"""The status of the agent: one value that is replaced as a whole, so that a scrape never sees half of a change."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from webhook.programs.agent.look import Look


class Count(StrEnum):
    """The counters of the agent, each of which counts by a word."""

    DISCOVERIES = "discoveries"
    """Discoveries by outcome: ``complete``, ``problem``, ``bug``."""
    API_ERRORS = "api-errors"
    """Failed requests by the kind of :class:`webhook.cluster.api.errors.ApiError`."""
    ERRORS = "errors"
    """Failed rounds by cause: ``api``, ``configuration``, ``bug``."""
    WRITES = "writes"
    """Writes by object: ``configmap``, ``node``, ``event``, ``lease``, ``devicetaintrule``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaintStatus:
    """The status of the DeviceTaintRules of this node."""

    served: bool
    """Whether the API server has DeviceTaintRules."""
    rules: int = 0
    """The number of rules of this agent."""
    unmatched: int = 0
    """The number of ill GPUs that cannot be tainted: no device is published, a rule of that name is not the agent's,
    or there would be too many rules."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """The status of the agent. Times are seconds of a clock that never goes back."""

    confirmed_at: float
    """The time of the last successful publication; before the first, the time of the start."""
    look: Look | None = None
    discovery_seconds: float = 0.0
    """The seconds that the last discovery took."""
    in_step: bool = False
    """Whether the last publication worked."""
    failure: str = "nothing is published yet"
    """Why the cluster lacks the newest topology, or cannot know that it is still true; empty after a success."""
    busy_since: float | None = None
    """The start of the current round; None between two rounds."""
    taints: TaintStatus | None = None
    """The status of taints; None if the agent writes none, or before the first round."""
    counts: Mapping[tuple[Count, str], int] = field(default_factory=dict)

    def counted(self, what: Count, word: str) -> "Status":
        """Returns the status with one counter increased."""
        return replace(self, counts={**self.counts, (what, word): self.counts.get((what, word), 0) + 1})

    def count(self, what: Count) -> dict[str, int]:
        """Returns the values of a counter by word."""
        return {word: number for (kind, word), number in self.counts.items() if kind is what}
