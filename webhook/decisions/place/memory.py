"""The memory of the planner between two rounds. All of it can be lost: the necessary state stands on the pods."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import msgspec

from webhook.decisions.place.card_request import Asked
from webhook.decisions.place.pins import pin_of
from webhook.decisions.place.placed_annotation import Placed
from webhook.decisions.place.pod import PodRecord, UnboundPod
from webhook.decisions.place.reasons import PlaceReason
from webhook.decisions.place.world import PlaceNode, World
from webhook.objects.pod import NO_CONDITION, Namespace, PodCondition

ALL_SECONDS = 0.95
"""Least seconds between two rounds that look at all pods. If nothing changes, rounds come each second
(``EVERY_SECONDS`` of the planner's rounds), and each looks at all pods."""

LONGEST_PAUSE = 60.0
"""Longest time in seconds from a choice for a group that was taken back to the next one."""
SOON = 300.0
"""Seconds after which a choice that is taken back counts as the first one again."""
_MOST_TIMES = 10
IN_VAIN_SECONDS = 120.0
"""Seconds for which the pods of a namespace come behind those of others after the next try for one was put off."""
NEW_SECONDS = 20.0
"""Seconds for which a card counts as new after HAMi's plugin has registered it. HAMi's scheduler reads the registers
every 15 seconds (pkg/scheduler/scheduler.go, RegisterFromNodeAnnotations), and refuses the card until then."""


@dataclass(slots=True)
class Followed:
    """A pin whose pod has no node yet."""

    placed: Placed
    pinned_at: float
    since: float
    """The beginning of the planner's patience: when the pod was pinned, or when a pod that was pinned before got its
    node."""
    before: PodCondition
    """The scheduler's condition when the pod was pinned. A condition that differs from it was set later."""
    is_overtaken: bool = False
    """Whether a pod that was pinned later has got its node already."""


class TakenBack(NamedTuple):
    """The pins of a group that were taken back."""

    times: int
    """The number of times, each soon after the one before."""
    at: float
    """The last time."""

    @property
    def until(self) -> float:
        """The time from which on the group is chosen anew: at once, and later each time that this follows soon.

        Another program that undoes each pin would otherwise keep the planner and the API server busy.
        """
        return self.at + min(LONGEST_PAUSE, 2.0 ** (self.times - 1) - 1.0)


class Search(NamedTuple):
    """The last search for cards for a pod that is past its gate and holds none."""

    at: float
    gains: int
    """The number of changes of the world by which a pod could win, at that time."""
    until: float
    """The time until which such a change causes no search, so that a pod is not pinned in vain again and again."""


class NoCards(NamedTuple):
    """The answer to a pod for which there were no cards, or none that it would take."""

    unbound: UnboundPod
    namespace: Namespace
    gains: int
    """The number of changes of the world by which a pod could win."""
    asked: Asked
    reason: PlaceReason
    is_told: bool
    """Whether the pod says so with what is free now, as far as it was its turn to say something."""
    is_for_ever: bool = False
    """Whether no node could serve the pod even if all of its cards were free, as far as this is known."""

    def holds(self, pod: PodRecord, namespace: Namespace, gains: int) -> bool:
        """Returns whether the answer would be the same now: nothing became free, and the pod asks for the same."""
        if self.gains != gains or self.namespace != namespace or pod.unbound is None:
            return False
        return pod.unbound is self.unbound or _wishes(pod.unbound) == _wishes(self.unbound)


def _wishes(unbound: UnboundPod) -> tuple[object, ...]:
    """Returns all that can change of what a pod behind the gate asks for."""
    return unbound.needs, unbound.pod.annotations, unbound.pod.labels


class Kept(NamedTuple):
    """A node that is kept for a pod which has waited for long."""

    since: float
    uid: str
    """The UID of the pod for which a node was kept first."""


@dataclass(slots=True)
class Memory:
    """The memory of the planner, by the uids of pods. Times are seconds of a clock that never goes back."""

    seen: dict[str, float] = field(default_factory=dict)
    """The time when each pod was seen first. The creation time is by another clock."""
    followed: dict[str, Followed] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)
    """The time when the condition of each pod was last written."""
    rested: dict[str, Search] = field(default_factory=dict)
    """The last search for cards, for pods that are past their gate and hold none."""
    arrived: dict[str, float] = field(default_factory=dict)
    """The time when each new card was registered, by its UUID."""
    has_begun: bool = False
    """Whether there was a round before. The cards of the first round may be old."""

    taken_back: dict[str, TakenBack] = field(default_factory=dict)
    """How often pins of a group were taken back, by the uid of its oldest pod."""

    looked_at_all: float = -inf
    """The time when a round last looked at all pods that wait."""
    passed_over: dict[str, int] = field(default_factory=dict)
    """For each pod that the last round had no time for: the number of such rounds in a row."""
    passed_over_before: dict[str, int] = field(default_factory=dict)
    """The value of ``passed_over`` after the round before."""
    without_turn: dict[str, int] = field(default_factory=dict)
    """For each namespace that no pod of had a turn in the last round: the number of such rounds in a row."""
    written_in_vain: dict[str, float] = field(default_factory=dict)
    """For namespaces with pods whose changes the API server refuses: the last time when a next try was put off."""
    refused: dict[str, NoCards] = field(default_factory=dict)
    """The last answer to pods for which there were no cards."""
    kept: dict[str, Kept] = field(default_factory=dict)
    """The last period in which nodes were kept for pods of a namespace, by its name."""

    def is_time_for_all(self, now: float) -> bool:
        """Returns whether a round looks at all pods that wait, and notes the time if it does."""
        is_time = now - self.looked_at_all >= ALL_SECONDS
        if is_time:
            self.looked_at_all = now
        return is_time

    def arrive(self, uuids: Collection[str], now: float) -> None:
        """Notes cards that HAMi's plugin has registered since the last round."""
        if self.has_begun:
            self.arrived.update(dict.fromkeys(uuids, now))
        self.has_begun = True
        for uuid in [uuid for uuid, at in self.arrived.items() if now - at >= NEW_SECONDS]:
            del self.arrived[uuid]

    def has_new(self, uuids: Collection[str]) -> bool:
        """Returns whether any of these cards is so new that HAMi's scheduler may not know it."""
        return any(uuid in self.arrived for uuid in uuids)

    def note_put_off(self, pods: Iterable[PodRecord], now: float) -> None:
        """Notes the pods whose next try is put off, because the API server has refused the last one."""
        recent = {name: at for name, at in self.written_in_vain.items() if now - at < IN_VAIN_SECONDS}
        self.written_in_vain = recent | dict.fromkeys([pod.namespace for pod in pods], now)

    def begin_turns(self) -> None:
        """Begins a round."""
        self.passed_over_before, self.passed_over = self.passed_over, {}

    def end_turns(self, namespaces: Collection[str]) -> None:
        """Ends a round in which these namespaces had no turn."""
        self.without_turn = {name: self.without_turn.get(name, 0) + 1 for name in namespaces}

    def pass_over(self, pod: PodRecord) -> None:
        """Notes that this round has no time for a pod."""
        self.passed_over[pod.uid] = self.passed_over_before.get(pod.uid, 0) + 1

    def see(self, pod: PodRecord, now: float) -> float:
        """Returns the seconds since the pod was seen first."""
        return now - self.seen.setdefault(pod.uid, now)

    def may_keep(self, pod: PodRecord, now: float, seconds: float) -> bool:
        """Returns whether a node may be kept for a pod.

        For pods of one namespace that is so for ``seconds``, and then not for as long again.
        """
        last, refused = self.kept.get(pod.namespace), self.refused.get(pod.uid)
        is_resting = last is not None and seconds <= now - last.since < 2 * seconds
        return not is_resting and not (refused and refused.is_for_ever)

    def keep(self, pod: PodRecord, now: float, seconds: float, *, is_in_vain: bool) -> None:
        """Notes that a node is kept for a pod, or that none could serve the pod."""
        if is_in_vain:
            if refused := self.refused.get(pod.uid):
                self.refused[pod.uid] = refused._replace(is_for_ever=True)
            return
        self.kept = {name: last for name, last in self.kept.items() if now - last.since < 2 * seconds}
        self.kept.setdefault(pod.namespace, Kept(now, pod.uid))

    def pinned(self, pod: PodRecord, placed: Placed, now: float) -> None:
        """Notes that a pod is being pinned."""
        if (last := self.kept.get(pod.namespace)) and last.uid == pod.uid:
            del self.kept[pod.namespace]  # it was kept with success
        before = pod.unbound.scheduled if pod.unbound else NO_CONDITION
        self.followed[pod.uid] = Followed(placed, now, now, before)

    def follow(self, pod: PodRecord, now: float) -> Followed | None:
        """Returns the memory of the pin of a pod; None if the pod has none."""
        placed = pin_of(pod)
        if placed is None:
            self.followed.pop(pod.uid, None)
            return None
        found = self.followed.get(pod.uid)
        if found is None or found.placed != placed:
            self.pinned(pod, placed, now)
        return self.followed[pod.uid]

    def take_back(self, oldest: PodRecord, now: float) -> None:
        """Notes that the pins of the group of a pod are taken back."""
        before = self.taken_back.get(oldest.uid)
        times = before.times if before and now - before.at < SOON else 0
        self.taken_back[oldest.uid] = TakenBack(min(times + 1, _MOST_TIMES), now)

    def may_choose(self, oldest: PodRecord, now: float) -> bool:
        """Returns whether cards are looked for now for the group of a pod, whose pins may have been taken back."""
        before = self.taken_back.get(oldest.uid)
        return before is None or now >= before.until

    def begin_anew(self, pinned_at: float, now: float) -> None:
        """Restarts the patience with other pods after HAMi has bound a pod that was pinned at a moment.

        Patience with each pod that was pinned later begins anew, because it was not its turn. Patience with each pod
        that was pinned earlier begins anew once, because HAMi is at work.
        """
        for found in self.followed.values():
            if found.pinned_at > pinned_at or (found.pinned_at < pinned_at and not found.is_overtaken):
                found.since = now
            found.is_overtaken |= found.pinned_at < pinned_at

    def forget(self, present: Collection[str]) -> None:
        """Forgets all pods except these."""
        kept: dict[str, Any]
        for kept in (self.seen, self.followed, self.told, self.rested, self.taken_back, self.refused):
            for uid in [uid for uid in kept if uid not in present]:
                del kept[uid]


class Intents:
    """Cards that are chosen and not yet written onto their pods. No other pod gets them meanwhile."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: dict[str, PodRecord] = {}
        """The stand-in for each pod, which takes as much of a node as the pod would, and holds the cards."""

    def hold(self, pod: PodRecord, node: PlaceNode, uuids: tuple[str, ...]) -> None:
        """Counts cards and room of a node as taken by a pod."""
        self.drop(pod.key)
        stand_in = self._held[pod.key] = msgspec.structs.replace(
            pod, node=node.name, held=uuids, parts=(), held_on=node.name, group="", unbound=None
        )
        self._world.pod_changed(_name(pod.key), None, stand_in)

    def nodes(self) -> list[str]:
        """Returns the node of each pod for which cards are held; a node occurs once for each such pod."""
        return [stand_in.node for stand_in in self._held.values()]

    def drop(self, key: str) -> None:
        """Drops what is held for a pod: the cards are free again, or written onto the pod."""
        stand_in = self._held.pop(key, None)
        if stand_in is not None:
            self._world.pod_changed(_name(key), stand_in, None)

    def settle(self, busy: Collection[str], put_off: Collection[str]) -> None:
        """Drops what is held for pods that are not being written, or whose next try is put off.

        Else pods whose changes the API server refuses would keep cards from all others, for as long as they wait.
        """
        for key in list(self._held):
            if key not in busy or key in put_off:
                self.drop(key)


def _name(key: str) -> str:
    """Returns a key that belongs to no pod."""
    return f"{key}/intended"
