"""What the planner remembers between two rounds. All of it can be lost: what has to be known stands on the pods."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from webhook.decisions.place.later_pods import stand_in
from webhook.decisions.place.pins import pin_of
from webhook.decisions.place.placed_annotation import Placed
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.world import PlaceNode, World
from webhook.objects.pod import NO_CONDITION, PodCondition

ALL_SECONDS = 0.95
"""Rounds come each second if nothing changes (``EVERY_SECONDS`` of the planner's rounds), and look at all pods."""


@dataclass(slots=True)
class Followed:
    """A pin whose pod has no node yet."""

    placed: Placed
    pinned_at: float
    since: float
    """When the planner's patience began: with the pin, or when a pod that was pinned before got its node."""
    before: PodCondition
    """What the scheduler had said of the pod when it was pinned: what differs from it was said later."""
    is_overtaken: bool = False
    """Whether a pod that was pinned later has got its node."""


class Intent(NamedTuple):
    """Cards that are to be written."""

    stand_in: PodRecord
    holder: str
    """The key of the pod onto which they are."""


@dataclass(slots=True)
class Memory:
    """By the uids of pods, unless it says otherwise. Times are seconds of a clock that never goes back."""

    seen: dict[str, float] = field(default_factory=dict)
    """When a pod was seen first. The creation time is by another clock."""
    followed: dict[str, Followed] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)
    """When the condition of a pod was written last."""
    rested: dict[str, float] = field(default_factory=dict)
    """When cards were looked for last for a pod that is past its gate and holds none."""

    looked_at_all: float = -inf
    """When all pods that wait were looked at last."""
    passed_over: dict[str, int] = field(default_factory=dict)
    """Those that the last round had no time for: for how many rounds that is so."""
    passed_over_before: dict[str, int] = field(default_factory=dict)
    """The same of the round before."""

    def is_time_for_all(self, now: float) -> bool:
        """Whether a round looks at all pods that wait; noted, if so."""
        is_time = now - self.looked_at_all >= ALL_SECONDS
        if is_time:
            self.looked_at_all = now
        return is_time

    def begin_passing_over(self) -> Mapping[str, int]:
        """Those that the last round had no time for, and how many rounds in a row had none; a new round begins."""
        self.passed_over_before, self.passed_over = self.passed_over, {}
        return self.passed_over_before

    def pass_over(self, pod: PodRecord) -> None:
        """This round has no time for the pod."""
        self.passed_over[pod.uid] = self.passed_over_before.get(pod.uid, 0) + 1

    def see(self, pod: PodRecord, now: float) -> float:
        """Seconds since the pod was seen first."""
        return now - self.seen.setdefault(pod.uid, now)

    def pinned(self, pod: PodRecord, placed: Placed, now: float) -> None:
        """A pod is being pinned."""
        before = pod.unbound.scheduled if pod.unbound else NO_CONDITION
        self.followed[pod.uid] = Followed(placed, now, now, before)

    def follow(self, pod: PodRecord, now: float) -> Followed | None:
        """What is known of the pin of a pod; None if it has none."""
        placed = pin_of(pod)
        if placed is None:
            self.followed.pop(pod.uid, None)
            return None
        found = self.followed.get(pod.uid)
        if found is None or found.placed != placed:
            self.pinned(pod, placed, now)
        return self.followed[pod.uid]

    def begin_anew(self, pinned_at: float, now: float) -> None:
        """HAMi has bound a pod that was pinned at that moment.

        The time of those that were pinned later begins anew: it was not their turn. So it does, once, for those that
        were pinned earlier: HAMi is at work.
        """
        for found in self.followed.values():
            if found.pinned_at > pinned_at or (found.pinned_at < pinned_at and not found.is_overtaken):
                found.since = now
            found.is_overtaken |= found.pinned_at < pinned_at

    def forget(self, present: Collection[str]) -> None:
        """Keep what is of these pods."""
        kept: dict[str, Any]
        for kept in (self.seen, self.followed, self.told, self.rested):
            for uid in [uid for uid in kept if uid not in present]:
                del kept[uid]


class Intents:
    """Cards that are chosen and not yet written onto their pods: no other pod gets them meanwhile."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: dict[str, Intent] = {}

    def hold(self, pod: PodRecord, node: PlaceNode, uuids: tuple[str, ...], *, holder: str = "") -> None:
        """Count cards and room of a node as taken by a pod.

        Args:
            pod: Whose they are.
            node: The node.
            uuids: The cards.
            holder: The key of the pod onto which they are written; empty: the pod itself.
        """
        self.drop(pod.key)
        intent = self._held[pod.key] = Intent(stand_in(pod, node.name, uuids), holder or pod.key)
        self._world.pod_changed(_name(pod.key), None, intent.stand_in)

    def nodes(self) -> list[str]:
        """The names of the nodes of which something is held, for each pod that is there one."""
        return [intent.stand_in.node for key, intent in self._held.items() if intent.holder == key]

    def drop(self, key: str) -> None:
        """What was held for a pod is free again, or stands on the pod."""
        intent = self._held.pop(key, None)
        if intent is not None:
            self._world.pod_changed(_name(key), intent.stand_in, None)

    def settle(self, busy: Collection[str]) -> None:
        """Drop what is held for pods that are not being written."""
        for key in [key for key, intent in self._held.items() if intent.holder not in busy]:
            self.drop(key)


def _name(key: str) -> str:
    """A key that no pod has."""
    return f"{key}/intended"
