"""The interface between the planner's loop and its pure decisions."""

from collections.abc import Callable, Collection, Sequence, Set
from datetime import datetime
from time import thread_time
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
from webhook.objects.workload import Workload, WorkloadRef


class Follower(Protocol):
    """An object that is told of each change of pods and nodes."""

    def pod_changed(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        """Take the new state of the pod ``namespace/name``; ``None`` if it is gone or has ended."""

    def node_changed(self, name: str, record: NodeRecord | None, topology: NodeTopology | None) -> None:
        """Take the new state of a node; ``None`` if it is gone. ``topology`` is ``None`` if no usable one is known."""


class Decisions(Follower, Protocol):
    """The decisions of one term as the leader. They are told of all nodes, then of all pods, then of each change."""

    @property
    def report(self) -> PlannerReport:
        """The report after the last decisions."""

    @property
    def wishes(self) -> Collection[WorkloadRef]:
        """The objects that the last decisions would like to know, known ones too."""

    def workload_read(self, ref: WorkloadRef, workload: Workload | None) -> bool:
        """Take what an object says, ``None`` if there is none to be read; return whether that is something new."""

    def decide(self, now: float, at: datetime, busy: Set[str], put_off: Set[str]) -> Sequence[Write]:
        """Return the writes to make. It takes less than a second. After a call with writes the next call comes soon.

        Args:
            now: Seconds of a clock that never goes back.
            at: The time, in UTC.
            busy: Pods, by ``namespace/name``, to leave out: the outcome of their last write is not known yet, or the
                API server has just refused it.
            put_off: Those of them that the API server has refused, until their next try.
        """


NamespaceOf = Callable[[str], Namespace]
"""Returns the namespace of that name; one with ``known`` unset if there is none."""
MakeDecisions = Callable[[NamespaceOf], Decisions]


class PlaceDecisions:
    """:class:`Decisions` of :class:`webhook.decisions.place.planner.Planner`.

    Args:
        policy: The configuration.
        namespaces: Returns the namespace of a name.
    """

    def __init__(self, policy: AdmitPolicy, namespaces: NamespaceOf) -> None:
        world = World()
        self._planner = Planner(world, policy, namespaces=namespaces, cpu=thread_time)
        self.pod_changed = world.pod_changed
        self.node_changed = world.node_changed
        self.workload_read = world.workload_read
        self.decide = self._planner.decide

    @property
    def report(self) -> PlannerReport:
        """The report after the last decisions."""
        return self._planner.report

    @property
    def wishes(self) -> Collection[WorkloadRef]:
        """The objects that the last decisions would like to know."""
        return self._planner.wishes
