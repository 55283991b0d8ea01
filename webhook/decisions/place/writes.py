"""What the planner wants done about one pod."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.objects.binding import PodEvent
from webhook.words.patch import Operation


@dataclass(frozen=True, slots=True)
class PodCondition:
    """The condition ``gpu.topology/Placed`` of a pod."""

    status: str
    """``True`` or ``False``."""
    reason: str
    """In camel case, of a closed vocabulary."""
    message: str
    """For people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """Changes of one pod, which are made in this order; without the first, none of the others is."""

    namespace: str
    name: str
    uid: str
    patch: tuple[Operation, ...] = ()
    """A JSON patch of the pod that begins with tests of what it was decided on; empty: the pod stays as it is."""
    condition: PodCondition | None = None
    event: PodEvent | None = None
    result: str = ""
    """What happens to the pod, for a counter: ``pinned``, ``repinned``, ``released``, ``refused``, ``given-up``,
    ``taken`` or ``missed``; empty: nothing to count."""
    link: str = ""
    """The link class of the cards that were chosen, if any."""
    given_up: float = 0.0
    """GB/s per direction that rings over the best set of such a node have more than those over the chosen cards; in
    mode ``observe`` what the weakest pair of the best free set has more than that of the cards that HAMi gave."""
    log: Mapping[str, str | int | float] = field(default_factory=dict)
    """Members of a line of the log; empty: no line."""

    @property
    def key(self) -> str:
        """Of the pod."""
        return f"{self.namespace}/{self.name}"
