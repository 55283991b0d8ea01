"""What the program asks of whoever decides: the seam between the planner's loop and its pure core."""

from collections.abc import Callable, Sequence, Set
from datetime import datetime
from typing import Protocol

from webhook.model.pod import Namespace
from webhook.place.node import NodeRecord
from webhook.place.pod import PodRecord
from webhook.place.write import Write
from webhook.topology.model import NodeTopology


class Follower(Protocol):
    """Hears of pods and nodes."""

    def pod_changed(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        """The pod ``namespace/name`` is like that now; ``None``: there is none that has not ended."""

    def node_changed(self, name: str, record: NodeRecord | None, topology: NodeTopology | None) -> None:
        """The node is like that now, and has that topology as far as one is known that can be relied on."""


class Decisions(Follower, Protocol):
    """One time as the leader: it hears of all nodes, then of all pods, then of what changes."""

    def decide(self, now: datetime, busy: Set[str]) -> Sequence[Write]:
        """What is to be written. It takes less than a second; while there is something, it is asked again soon.

        Args:
            now: The time, in UTC.
            busy: Pods, by ``namespace/name``, about which it is not asked: what was written of them last is not
                settled yet, or the API server has just refused it.
        """


NamespaceOf = Callable[[str], Namespace]
"""The namespace of that name; one with ``known`` unset if there is none."""
MakeDecisions = Callable[[NamespaceOf], Decisions]
