"""The changes that the planner wants made to one pod."""

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
    """A word in camel case, of a closed vocabulary."""
    message: str
    """The explanation, for people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """The changes of one pod, made in this order. If the patch is not made, none of the others is."""

    namespace: str
    name: str
    uid: str
    patch: tuple[Operation, ...] = ()
    """A JSON patch of the pod. It begins with tests of the state it was decided on; empty: the pod stays as it is."""
    condition: PodCondition | None = None
    event: PodEvent | None = None
    result: str = ""
    """The result for a counter: ``pinned``, ``repinned``, ``released``, ``refused``, ``given-up``,
    ``taken-back``, ``taken`` or ``missed``; empty: nothing to count."""
    link: str = ""
    """The link class of the cards that were chosen, if any."""
    given_up: float = 0.0
    """The bandwidth in GB/s per direction that the pod loses: the rings over the best set of such a node compared with
    those over the chosen cards. In mode ``observe``: the weakest pair of the best free set compared with that of the
    cards that HAMi gave."""
    log: Mapping[str, str | int | float] = field(default_factory=dict)
    """The members of a line of the log; empty: no line."""

    @property
    def key(self) -> str:
        """The key of the pod."""
        return f"{self.namespace}/{self.name}"
