"""The extender's knowledge of the cluster: a :class:`World` that follows the planner's mirrors."""

import traceback
from collections.abc import Callable

from webhook.decisions.node_record import NodeRecord
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.world import World
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.planner.mirrors import Mirrors

AGAIN_SECONDS = 15.0
"""Time after an exception without knowledge. Then the world is made anew."""


class Knowledge:
    """The knowledge of one extender, which follows the mirrors from the beginning.

    It shares no world with the planner's decisions, because these reserve cards in their world while they decide.

    Args:
        mirrors: The mirrors of the cluster.
        bug: Takes the traceback of an exception.
        clock: Returns seconds that never go back.
    """

    def __init__(self, mirrors: Mirrors, *, bug: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._mirrors = mirrors
        self._bug = bug
        self._clock = clock
        self._broken_at: float | None = None
        self._world = World()
        self._follow()

    @property
    def blindness(self) -> str:
        """The reason for which no question can be answered at the moment; empty if there is none."""
        if self._broken_at is not None and self._clock() - self._broken_at >= AGAIN_SECONDS:
            self._follow()
        return self._mirrors.blindness or ("an exception, which is in the log" if self._broken_at is not None else "")

    @property
    def world(self) -> World:
        """The world as it is now."""
        return self._world

    def doubt(self) -> None:
        """Discard the world after an exception that came of it. To be called in the handler of the exception."""
        self._mirrors.leave(self)
        self._broken_at = self._clock()
        self._bug(traceback.format_exc())

    def pod_changed(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        """Tell the world of a pod; an exception must not end the mirror.

        See :class:`webhook.programs.planner.decisions.Follower`.
        """
        self._guarded(lambda: self._world.pod_changed(key, before, after))
        self._world.newly_bound.clear()  # only the planner needs these pods

    def node_changed(self, name: str, record: NodeRecord | None, topology: NodeTopology | None) -> None:
        """Tell the world of a node; an exception must not end the mirror."""
        self._guarded(lambda: self._world.node_changed(name, record, topology))

    def _follow(self) -> None:
        self._world, self._broken_at = World(), None
        self._mirrors.follow(self)

    def _guarded(self, change: Callable[[], None]) -> None:
        if self._broken_at is not None:  # a change that comes after an exception
            return
        try:
            change()
        except Exception:
            self.doubt()
