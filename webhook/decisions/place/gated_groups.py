"""Decisions about groups behind the gate: a group gets cards for all of its pods, or for none.

First each pod is pinned behind its gate, and the gates are opened when all are seen to be pinned. As long as no pod is
past its gate, all pins are taken back if one is missing or no longer good. The gate of the oldest pod is opened
first and its pin is taken back first, each before that of any other pod. Both writes test its version, so only one of
them is made, however late the other arrives: a leader that stood still opens no gate of a group whose pins another
leader takes back. From the first open gate on, pods go forward one by one, and nothing is taken back.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from webhook.decisions.place import evidence
from webhook.decisions.place.card_request import Asked
from webhook.decisions.place.group_choice import GroupChooser, Member
from webhook.decisions.place.pin_patches import take_back
from webhook.decisions.place.pins import pin_of
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.reasons import PlaceReason, told
from webhook.decisions.place.round import Round, Scene
from webhook.decisions.place.telling import changed_write, released_write
from webhook.decisions.place.turns import GATES_NAMED, Turns
from webhook.decisions.place.waiting_group import FIRST_SECONDS, WaitingGroup, broken_by, look_at_group
from webhook.decisions.place.writes import Write
from webhook.words.catalogue import waiting as said
from webhook.words.catalogue.entry import Message

KEPT_PERIODS = 2
"""The periods of ``reserveSeconds`` after which a node was kept for a pod once."""


class GatedGroups:
    """Decides about the pods of groups behind the planner's gate.

    Args:
        scene: The world, the memory and the configuration.
        turns: Writes for single pods.
    """

    def __init__(self, scene: Scene, turns: Turns) -> None:
        self._scene = scene
        self._turns = turns

    def decide(self, pod: PodRecord, asked: Asked, this: Round) -> Iterator[Write]:
        """Yields the writes for all pods of a group, once in a round.

        Args:
            pod: The pod of the group whose turn comes first. It waits behind the planner's gate alone.
            asked: Its request.
            this: The round.
        """
        group = look_at_group(self._scene, Member(pod, asked), this.busy)
        this.decided |= {member.pod.key for member in group.members}
        if group.has_begun:
            yield from self._go_forward(group, this)
        elif group.is_unsettled:
            self._count(group.members, this)
        elif not group.pinned:
            yield from self._begin(pod, group, this)
        elif why := broken_by(group, self._scene.world):
            yield from self._take_back(group, why, this)
        else:
            (first, pin), *others = group.pinned
            yield from self._turns.let_go(first.pod, first.asked.cards, pin, this)
            self._count([member for member, _ in others], this)

    def _begin(self, pod: PodRecord, group: WaitingGroup, this: Round) -> Iterator[Write]:
        """Yields the pins of a group of which no pod has cards, if there are cards for all."""
        waited = self._scene.memory.see(pod, this.now)
        if group.held_back:
            gates = dict.fromkeys(gate for mate in group.held_back if mate.unbound for gate in mate.unbound.other_gates)
            message = said.GROUP_HELD_BACK.say(
                held=len(group.held_back), group=group.name, gates=", ".join([*gates][:GATES_NAMED])
            )
            for member in group.members:
                yield from self._turns.wait(member.pod, PlaceReason.OTHER_GATES, message, this)
            return
        if not self._has_time(group.members, this):
            return
        if group.absent and group.is_first and waited < FIRST_SECONDS:
            self._count(group.members, this)
        elif group.absent and not group.is_first and waited < self._scene.settings.full_seconds:
            message = said.GROUP_INCOMPLETE.say(present=group.present, size=group.size, group=group.name)
            for member in group.members:
                yield from self._turns.wait(member.pod, PlaceReason.GROUP_INCOMPLETE, message, this)
        elif not self._scene.memory.may_choose(group.members[0].pod, this.now):
            self._count(group.members, this)
        else:
            members = _with_first(pod, group.members)
            yield from self._choose(members, group, this, together=len(members), absent=group.absent)

    def _go_forward(self, group: WaitingGroup, this: Round) -> Iterator[Write]:
        """Yields the writes for the rest of a group that has begun: each pod goes on as soon as it can."""
        settled = [member for member in group.members if member.pod.key not in this.busy]
        without = []
        for member in settled:
            pin = pin_of(member.pod)
            if pin:
                yield from self._turns.let_go(member.pod, member.asked.cards, pin, this)
            else:
                without.append(member)
        if without and self._has_time(without, this):
            yield from self._choose(without, group, this, together=1)

    def _has_time(self, members: Sequence[Member], this: Round) -> bool:
        """Returns whether cards for these pods are looked for in this round; if not, they are passed over."""
        if self._scene.shares.has_time:
            return True
        for member in members:
            self._turns.pass_over(member.pod, this)
        return False

    def _choose(
        self, members: list[Member], group: WaitingGroup, this: Round, *, together: int, absent: int = 0
    ) -> Iterator[Write]:
        """Yields pins for all these members, or the reason why there are no cards for all of them.

        Args:
            members: Pods without cards, at least one.
            group: The group.
            this: The round.
            together: As in :meth:`Turns.pin_of_group`.
            absent: The number of pods of the group that are not there.
        """
        found = GroupChooser(self._scene, this, members).choose()
        if found is None:
            yield from self._without_cards(members, group, this)
            return
        for number, member in enumerate(members):
            chosen, absent_of_first = found[member.pod.key], 0 if number else absent
            yield self._turns.pin_of_group(
                member.pod, member.asked.cards, chosen, this, together=together, absent=absent_of_first
            )

    def _without_cards(self, members: list[Member], group: WaitingGroup, this: Round) -> Iterator[Write]:
        scene, first = self._scene, members[0]
        waited = scene.memory.see(first.pod, this.now)
        is_over = not group.waits and waited >= max(scene.settings.full_seconds, group.wait)
        if is_over and not self._stays_together(members, group, waited, this):
            free, count = scene.free_cards(first.pod, first.asked.cards), _cards(members)
            message = said.RELEASED_WITHOUT_CARDS.say(count=count, seconds=round(waited), evidence=free)
            for member in members:
                waited = scene.memory.see(member.pod, this.now)
                yield released_write(member.pod, PlaceReason.RELEASED, message, waited)
            return
        reason = PlaceReason.NO_FREE_CARDS
        tells = {
            member.pod.key
            for member in members
            if (member is first or told(member.pod.unbound) is not reason)
            and self._turns.may_tell(member.pod, reason, this)
        }
        if tells:
            message = self._group_without_cards(members, group)
        for member in members:
            if member.pod.key in tells:
                yield from self._turns.wait(member.pod, reason, message, this)
            else:
                this.count(reason, scene.memory.see(member.pod, this.now))
        if self._has_room(members, this):
            self._turns.keep_a_node(first.pod, first.asked, this)

    def _group_without_cards(self, members: Sequence[Member], group: WaitingGroup) -> Message:
        asked, count = members[0].asked.cards, _cards(members)
        wanted, free = evidence.wanted(asked), self._scene.free_cards(members[0].pod, asked)
        return said.GROUP_WITHOUT_CARDS.say(
            size=len(members), group=group.name, count=count, wanted=wanted, evidence=free
        )

    def _stays_together(self, members: list[Member], group: WaitingGroup, waited: float, this: Round) -> bool:
        """Returns whether a group without cards goes on waiting, because there would be room if all cards were free.

        HAMi gives the pods of a group that is let go their cards one by one, and each holds its cards idle until the
        last one has some. The others on the nodes may never end, so a group waits until a node was kept for it. A group
        that is not whole behind the gate does not wait: its other pods may come only when the first one runs.
        """
        is_whole = not group.has_begun and not group.absent
        if not is_whole or waited >= KEPT_PERIODS * self._scene.settings.reserve_seconds:
            return False
        return self._has_room(members, this)

    def _has_room(self, members: Sequence[Member], this: Round) -> bool:
        """Returns whether there would be room for pods of a group together if all cards were free."""
        world, first = self._scene.world, members[0]
        counts = [member.asked.cards.count for member in members]
        on_one_node, needs = first.asked.on_one_node, first.pod.unbound.needs if first.pod.unbound else None
        question = ("room", needs, on_one_node, frozenset(Counter(counts).items()))
        return this.once(world, question, lambda: evidence.has_room(world, first.pod, counts, on_one_node=on_one_node))

    def _take_back(self, group: WaitingGroup, why: str, this: Round) -> Iterator[Write]:
        """Yields the writes that take the pins back: that of the oldest pod alone, and then those of all others."""
        pinned, oldest = group.pinned, group.members[0]
        message = said.TAKEN_BACK.say(group=group.name, why=why)
        those = pinned[:1] if pinned[0][0] is oldest else pinned
        if len(those) == len(pinned):
            self._scene.memory.take_back(oldest.pod, this.now)
        for member, _ in those:
            waited = self._scene.memory.see(member.pod, this.now)
            patch = take_back(member.pod)
            yield changed_write(member.pod, PlaceReason.TAKEN_BACK, message, patch, result="taken-back", waited=waited)
        for member in group.members:
            this.count(PlaceReason.TAKEN_BACK, self._scene.memory.see(member.pod, this.now))

    def _count(self, members: Sequence[Member], this: Round) -> None:
        """Counts pods that wait for what they say, or for their turn."""
        for member in members:
            this.count(told(member.pod.unbound), self._scene.memory.see(member.pod, this.now))


def _with_first(pod: PodRecord, members: Sequence[Member]) -> list[Member]:
    """Returns the members, the pod first."""
    return sorted(members, key=lambda member: member.pod.key != pod.key)


def _cards(members: Iterable[Member]) -> int:
    return sum(member.asked.cards.count for member in members)
