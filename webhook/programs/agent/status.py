"""How the agent is doing: one value that is replaced as a whole, so that a scrape in between sees no half of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from webhook.programs.agent.look import Look


class Count(StrEnum):
    """What is counted, by a word."""

    DISCOVERIES = "discoveries"
    """By what became of them: ``complete``, ``problem``, ``bug``."""
    API_ERRORS = "api-errors"
    """By the kind of :class:`webhook.cluster.api.errors.ApiError`."""
    ERRORS = "errors"
    """By what was wrong: ``api``, ``configuration``, ``bug``."""
    WRITES = "writes"
    """By object: ``configmap``, ``node``, ``event``, ``lease``, ``devicetaintrule``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaintStatus:
    """What is known of the DeviceTaintRules of this node."""

    served: bool
    """Whether the API server has such objects."""
    rules: int = 0
    """Of this agent."""
    unmatched: int = 0
    """Ill GPUs that are no published device, or whose rule is not the agent's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """Times are seconds of one clock that never goes back."""

    confirmed_at: float
    """When the cluster was last known to have what was discovered; until then, when the program started."""
    look: Look | None = None
    discovery_seconds: float = 0.0
    """How long the last discovery took."""
    in_step: bool = False
    """Whether the last publication worked."""
    failure: str = "nothing is published yet"
    """Why the cluster does not have what was discovered, or cannot know that it is still true."""
    busy_since: float | None = None
    """Since when a round has been going on; None between two."""
    taints: TaintStatus | None = None
    """None: not asked for, or not looked at yet."""
    counts: Mapping[tuple[Count, str], int] = field(default_factory=dict)

    def counted(self, what: Count, word: str) -> "Status":
        """The status with one more of them."""
        return replace(self, counts={**self.counts, (what, word): self.counts.get((what, word), 0) + 1})

    def count(self, what: Count) -> dict[str, int]:
        """How many there were, by word."""
        return {word: number for (kind, word), number in self.counts.items() if kind is what}
