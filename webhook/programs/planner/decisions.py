"""What the program asks of whoever decides: the seam between the planner's loop and its pure core."""

from collections.abc import Callable, Sequence, Set
from datetime import datetime
from typing import Protocol

from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.node_record import NodeRecord
from webhook.decisions.place.planner import Planner
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.round import PlannerReport
from webhook.decisions.place.world import World
from webhook.decisions.place.writes import Write
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.pod import Namespace


class Follower(Protocol):
    """Hears of pods and nodes."""

    def pod_changed(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        """The pod ``namespace/name`` is like that now; ``None``: there is none that has not ended."""

    def node_changed(self, name: str, record: NodeRecord | None, topology: NodeTopology | None) -> None:
        """The node is like that now, and has that topology as far as one is known that can be relied on."""


class Decisions(Follower, Protocol):
    """One time as the leader: it hears of all nodes, then of all pods, then of what changes."""

    @property
    def report(self) -> PlannerReport:
        """How it stood after the last decisions."""

    def decide(self, now: float, at: datetime, busy: Set[str]) -> Sequence[Write]:
        """What is to be written. It takes less than a second; while there is something, it is asked again soon.

        Args:
            now: Seconds of a clock that never goes back.
            at: The time, in UTC.
            busy: Pods, by ``namespace/name``, about which it is not asked: what was written of them last is not
                settled yet, or the API server has just refused it.
        """


NamespaceOf = Callable[[str], Namespace]
"""The namespace of that name; one with ``known`` unset if there is none."""
MakeDecisions = Callable[[NamespaceOf], Decisions]


class PlaceDecisions:
    """:class:`Decisions` of :class:`webhook.decisions.place.planner.Planner`.

    Args:
        policy: The configuration.
        namespaces: Gives what is known of a namespace.
    """

    def __init__(self, policy: AdmitPolicy, namespaces: NamespaceOf) -> None:
        world = World()
        self._planner = Planner(world, policy, namespaces=namespaces)
        self.pod_changed = world.pod_changed
        self.node_changed = world.node_changed
        self.decide = self._planner.decide

    @property
    def report(self) -> PlannerReport:
        """How it stood after the last decisions."""
        return self._planner.report
