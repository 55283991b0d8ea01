"""What is known of the cluster at the moment of a question: a world that follows the planner's mirrors."""

import traceback
from collections.abc import Callable

from webhook.decisions.node_record import NodeRecord
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.world import World
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.planner.mirrors import Mirrors

AGAIN_SECONDS = 15.0
"""After an exception nothing is known for so long; then the world is made anew."""


class Knowledge:
    """Follows the mirrors from the beginning.

    It shares no world with the planner's decisions, which hold cards in theirs for pods that they think about.

    Args:
        mirrors: What is known of the cluster.
        bug: Takes the traceback of an exception.
        clock: Seconds that never go back.
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
        """Why no question can be answered at the moment; empty when it can."""
        if self._broken_at is not None and self._clock() - self._broken_at >= AGAIN_SECONDS:
            self._follow()
        return self._mirrors.blindness or ("an exception, which is in the log" if self._broken_at is not None else "")

    @property
    def world(self) -> World:
        """What there is."""
        self._world.newly_bound.clear()  # it is the planner who compares
        return self._world

    def doubt(self) -> None:
        """An exception came of what is known; to be called while it is handled."""
        self._mirrors.leave(self)
        self._broken_at = self._clock()
        self._bug(traceback.format_exc())

    def pod_changed(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        """:class:`webhook.programs.planner.decisions.Follower`: an exception must not end a mirror."""
        self._guarded(lambda: self._world.pod_changed(key, before, after))

    def node_changed(self, name: str, record: NodeRecord | None, topology: NodeTopology | None) -> None:
        """The same."""
        self._guarded(lambda: self._world.node_changed(name, record, topology))

    def _follow(self) -> None:
        self._world, self._broken_at = World(), None
        self._mirrors.follow(self)

    def _guarded(self, change: Callable[[], None]) -> None:
        if self._broken_at is not None:  # what was still to be told after an exception
            return
        try:
            change()
        except Exception:
            self.doubt()
