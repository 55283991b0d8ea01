"""Decisions about pods behind the gate: the pods that get their cards now, and the reasons why the others wait."""

from collections.abc import Iterator

import msgspec

from webhook.decisions.place import evidence
from webhook.decisions.place.card_request import Asked, CardsAsked
from webhook.decisions.place.choice import Chosen, grade_of, is_satisfying
from webhook.decisions.place.group_choice import GroupChooser, Member, Placement
from webhook.decisions.place.pin_patches import release
from webhook.decisions.place.pins import pin_of
from webhook.decisions.place.placed_annotation import MOST_CARDS, CardsHeld, Later, Placed
from webhook.decisions.place.pod import PodRecord, UnboundPod
from webhook.decisions.place.reasons import PlaceReason
from webhook.decisions.place.round import NotPlaceable, Round, Scene
from webhook.decisions.place.telling import changed_write, chosen_write, gate_write, waiting_write
from webhook.decisions.place.writes import Write
from webhook.words import names
from webhook.words.catalogue import waiting as said
from webhook.words.catalogue.entry import Message
from webhook.words.choices import PlacementMode

TELL_SECONDS = 30.0
"""Seconds between two writes of the condition of a pod that waits for the same reason."""
_GATES_NAMED = 3


class WaitingPods:
    """Decides about the pods behind the planner's gate."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def decide(self, this: Round) -> Iterator[Write]:
        """Yields the writes of this round: for the most urgent pod first, then for the oldest.

        Pods with many different requests take long. Pods for which a round has no time come first in the next round,
        and among them the pods that had to wait for the most rounds.
        """
        gated = [pod for pod in self._scene.world.unbound.values() if pod.unbound and pod.unbound.is_gated]
        waiting = {pod.uid: self._scene.memory.see(pod, this.now) for pod in gated}
        rounds = self._scene.memory.begin_passing_over()
        for pod in sorted(gated, key=lambda pod: (-rounds.get(pod.uid, 0), _order(pod, waiting[pod.uid]))):
            waited = waiting[pod.uid]
            if pod.key in this.busy or pod.unbound is None or pod.unbound.is_ending:
                continue
            if self._is_for_later(this):
                this.count(_told(pod.unbound), waited)
            else:
                yield from self._decide(pod, pod.unbound.gates, waited, this)

    def _is_for_later(self, this: Round) -> bool:
        """Returns whether no more pods can go on, and the waiting pods were looked at a moment ago.

        In a rush each new pod begins a round. Without this check, each round would look at all waiting pods.
        """
        settings = self._scene.settings
        is_full = settings.mode is PlacementMode.ON and this.in_flight >= settings.in_flight
        return is_full and not this.is_thorough

    def _decide(self, pod: PodRecord, gates: tuple[str, ...], waited: float, this: Round) -> Iterator[Write]:
        if self._scene.settings.mode is not PlacementMode.ON:
            message = said.NOT_PLACEABLE.say(why="placement is off")
            yield _released(pod, PlaceReason.SWITCHED_OFF, message, waited)
            return
        try:
            asked = self._scene.asked(pod)
        except NotPlaceable as problem:
            yield _released(pod, PlaceReason.NOT_PLACEABLE, said.NOT_PLACEABLE.say(why=problem), waited)
            return
        others = [gate for gate in gates if gate != names.PLACE_GATE]
        pinned = pin_of(pod)
        if others:
            message = said.OTHER_GATES.say(gates=", ".join(others[:_GATES_NAMED]))
            yield from self._wait(pod, PlaceReason.OTHER_GATES, message, waited, this)
        elif pinned:
            yield from self._let_go(pod, pinned, waited, this)
        elif not self._scene.has_time_for(asked):
            self._scene.memory.pass_over(pod)
            this.count(PlaceReason.SOON, waited)
        elif asked.group_size > 1 and pod.group:
            yield from self._choose_for_group(pod, asked, waited, this)
        else:
            yield from self._choose(pod, asked, waited, this)

    def _choose_for_group(self, pod: PodRecord, asked: Asked, waited: float, this: Round) -> Iterator[Write]:
        """Yields the writes that give all pods of a group their cards at once.

        The pods whose turn it is go on, and the others hold their cards.
        """
        world, group = self._scene.world, (pod.namespace, pod.group)
        present = len(world.groups[group])
        if group in this.groups:
            this.count(PlaceReason.NO_FREE_CARDS, waited)
            return
        if present < asked.group_size and not world.has_begun(pod) and waited < self._scene.settings.full_seconds:
            name = pod.group.partition("=")[2]
            message = said.GROUP_INCOMPLETE.say(present=present, size=asked.group_size, group=name)
            yield from self._wait(pod, PlaceReason.GROUP_INCOMPLETE, message, waited, this)
            return
        this.groups.add(group)
        members = self._members(pod, asked, this)
        absent = [] if world.has_begun(pod) else _absent(members[0], asked.group_size - present)
        found = self._choose_together(group, [*members, *absent], this)
        if found is None and absent and not asked.waits:
            absent, found = [], self._choose_together(group, members, this)
        if found is None:
            yield from self._group_without_cards(pod, asked, [*members, *absent], waited, this)
            return
        later = _held_for(absent, found, asked.group_size)
        for member in members:
            chosen, what = found[member.pod.key], later if member is members[0] else None
            yield from self._pin(member.pod, member.asked.cards, chosen, this, holds=True, later=what)

    def _choose_together(self, group: tuple[str, str], members: list[Member], this: Round) -> Placement | None:
        """Returns cards for all members; None if there are not enough.

        First as many of the sets that are held for the group are released as there are members, then all of them.
        """
        held = self._scene.later
        for sets in dict.fromkeys((min(len(members), held.sets_for(group)), held.sets_for(group))):
            with held.lifted(group, sets):
                found = GroupChooser(self._scene, this, members).choose()
            if found:
                return found
        return None

    def _members(self, pod: PodRecord, asked: Asked, this: Round) -> list[Member]:
        """Returns the waiting pods of a group that have no cards."""
        members = [Member(pod, asked)]
        for mate in self._scene.world.mates(pod):
            if mate.unbound and mate.unbound.is_gated and not pin_of(mate) and mate.key not in this.busy:
                try:
                    members.append(Member(mate, self._scene.asked(mate)))
                except NotPlaceable:
                    continue  # this pod is released by itself
        return members

    def _group_without_cards(
        self, pod: PodRecord, asked: Asked, members: list[Member], waited: float, this: Round
    ) -> Iterator[Write]:
        scene, count = self._scene, sum(member.asked.cards.count for member in members)
        if not asked.waits and waited >= max(scene.settings.full_seconds, asked.wait):
            free = scene.free_cards(pod, asked.cards)
            message = said.RELEASED_WITHOUT_CARDS.say(count=count, seconds=round(waited), evidence=free)
            for member in members:
                yield _released(member.pod, PlaceReason.RELEASED, message, waited)
            return
        if self._may_tell(pod, PlaceReason.NO_FREE_CARDS, this):
            message = said.GROUP_WITHOUT_CARDS.say(
                size=len(members),
                group=pod.group.partition("=")[2],
                count=count,
                wanted=evidence.wanted(asked.cards),
                evidence=scene.free_cards(pod, asked.cards),
            )
            yield from self._wait(pod, PlaceReason.NO_FREE_CARDS, message, waited, this)
        else:
            this.count(PlaceReason.NO_FREE_CARDS, waited)
        self._keep_a_node(pod, asked, waited, this)

    def _let_go(self, pod: PodRecord, pinned: Placed, waited: float, this: Round) -> Iterator[Write]:
        """Opens the gate of a pod that holds its cards, when it is its turn."""
        if this.in_flight >= self._scene.settings.in_flight or pinned.node in this.releasing:
            yield from self._queue(pod, waited, this)
            return
        this.in_flight += 1
        this.releasing.add(pinned.node)
        self._scene.memory.pinned(pod, pinned, this.now)
        yield gate_write(pod, pinned, waited)

    def _choose(self, pod: PodRecord, asked: Asked, waited: float, this: Round) -> Iterator[Write]:
        chosen = this.best(self._scene, pod, asked)
        if chosen is None:
            yield from self._without_cards(pod, asked, waited, this)
        elif asked.waits and not is_satisfying(chosen):
            if self._may_tell(pod, PlaceReason.REQUIREMENT_NOT_MET, this):
                message = this.once_for(
                    self._scene.world, "no such set", pod, asked.cards, lambda: self._no_such_set(pod, asked)
                )
                yield from self._wait(pod, PlaceReason.REQUIREMENT_NOT_MET, message, waited, this)
            else:
                this.count(PlaceReason.REQUIREMENT_NOT_MET, waited)
            self._keep_a_node(pod, asked, waited, this)
        elif waited < asked.wait and (better := self._better(pod, asked, chosen, this)):
            yield from self._wait(pod, PlaceReason.BETTER_LATER, better, waited, this)
        else:
            yield from self._pin(pod, asked.cards, chosen, this)

    def _pin(
        self,
        pod: PodRecord,
        cards: CardsAsked,
        chosen: Chosen,
        this: Round,
        *,
        holds: bool = False,
        later: Later | None = None,
    ) -> Iterator[Write]:
        """Pins the pod. If it is not its turn yet, its cards are held in this round, or for longer if it ``holds``."""
        scene, waited = self._scene, self._scene.memory.see(pod, this.now)
        scene.intents.hold(pod, chosen.node, chosen.uuids)
        is_turn = this.in_flight < scene.settings.in_flight and chosen.node.name not in this.releasing
        placed = this.placed(chosen, later=later)
        if is_turn:
            this.in_flight += 1
            this.releasing.add(chosen.node.name)
            scene.memory.pinned(pod, placed, this.now)
        if is_turn or holds:
            narrowed = scene.narrowed(pod, chosen, cards)
            yield chosen_write(pod, chosen, placed, waited, opens=is_turn, narrowed=narrowed)
        else:
            yield from self._queue(pod, waited, this)

    def _queue(self, pod: PodRecord, waited: float, this: Round) -> Iterator[Write]:
        """Notes that a pod with cards waits for its turn. If that takes long, the pod says so."""
        if waited < TELL_SECONDS:
            this.count(PlaceReason.SOON, waited)
        else:
            message = said.WAITS_FOR_ITS_TURN.say(count=this.in_flight)
            yield from self._wait(pod, PlaceReason.SOON, message, waited, this)

    def _without_cards(self, pod: PodRecord, asked: Asked, waited: float, this: Round) -> Iterator[Write]:
        """Yields the write for a pod without enough free cards on any node on which it can run."""
        scene, count = self._scene, asked.cards.count
        if not asked.waits and waited >= max(scene.settings.full_seconds, asked.wait):
            free = scene.free_cards(pod, asked.cards)
            message = said.RELEASED_WITHOUT_CARDS.say(count=count, seconds=round(waited), evidence=free)
            yield _released(pod, PlaceReason.RELEASED, message, waited)
            return
        reason = this.once_for(scene.world, "shortage", pod, asked.cards, lambda: self._shortage(pod, count))
        if self._may_tell(pod, reason, this):
            message = this.once_for(
                scene.world, "said", pod, asked.cards, lambda: self._said_of(pod, reason, asked.cards)
            )
            yield from self._wait(pod, reason, message, waited, this)
        else:
            this.count(reason, waited)
        self._keep_a_node(pod, asked, waited, this)

    def _shortage(self, pod: PodRecord, count: int) -> PlaceReason:
        world, chooser = self._scene.world, self._scene.chooser
        if evidence.most_cards(world) < count:
            return PlaceReason.NEVER_FITS
        runs = any(not chooser.refusal(node, pod) for node in world.known_nodes())
        return PlaceReason.NO_FREE_CARDS if runs else PlaceReason.NO_NODE

    def _said_of(self, pod: PodRecord, reason: PlaceReason, cards: CardsAsked) -> Message:
        world, chooser, count = self._scene.world, self._scene.chooser, cards.count
        if reason is PlaceReason.NEVER_FITS:
            return said.NEVER_FITS.say(count=count, most=evidence.most_cards(world))
        if reason is PlaceReason.NO_NODE:
            closed = evidence.closed_nodes(world, chooser, pod)
            cordoned = evidence.cordoned_nodes(world, chooser, pod, cards)
            return said.NO_NODE.say(evidence="; ".join(part for part in (closed, cordoned) if part))
        return said.NO_FREE_CARDS.say(count=count, evidence=self._scene.free_cards(pod, cards))

    def _no_such_set(self, pod: PodRecord, asked: Asked) -> Message:
        free = self._scene.free_cards(pod, asked.cards)
        return said.NO_SUCH_SET.say(count=asked.cards.count, wanted=evidence.wanted(asked.cards), evidence=free)

    def _better(self, pod: PodRecord, asked: Asked, chosen: Chosen, this: Round) -> Message | None:
        """Returns a message about the better cards that would exist if all were free; None if there are none better."""
        scene, found = self._scene, grade_of(chosen, asked.cards)
        ideal = this.once_for(scene.world, "ideal", pod, asked.cards, lambda: scene.chooser.ideal(pod, asked.cards))
        if ideal is None or ideal <= found:
            return None
        better, here = f"{ideal[1]:g} GB/s", f"{found[1]:g} GB/s"
        return said.BETTER_LATER.say(found=here, best=better, seconds=round(asked.wait))

    def _keep_a_node(self, pod: PodRecord, asked: Asked, waited: float, this: Round) -> None:
        """Reserves the node that is nearest to having enough cards for the first pod that has waited for long.

        The node is reserved in every second period of ``reserveSeconds`` only, because some nodes never become free.
        """
        if not this.closed and int(waited // self._scene.settings.reserve_seconds) % 2:
            world, count = self._scene.world, asked.cards.count
            nearest = this.once_for(world, "nearest", pod, asked.cards, lambda: evidence.nearest(world, pod, count))
            this.closed.update({nearest} if nearest else ())

    def _wait(
        self, pod: PodRecord, reason: PlaceReason, message: Message, waited: float, this: Round
    ) -> Iterator[Write]:
        this.count(reason, waited)
        if self._may_tell(pod, reason, this) and (write := waiting_write(pod, reason, message, waited)):
            self._scene.memory.told[pod.uid] = this.now
            yield write

    def _may_tell(self, pod: PodRecord, reason: PlaceReason, this: Round) -> bool:
        """Returns whether the condition may be written: at once for a new reason, else every half minute."""
        told = self._scene.memory.told.get(pod.uid)
        is_new = pod.unbound is not None and pod.unbound.placed.reason != reason
        return told is None or is_new or this.now - told >= TELL_SECONDS


def _told(unbound: UnboundPod) -> PlaceReason:
    """Returns the reason why a pod waits, as the planner has written it to the pod."""
    try:
        return PlaceReason(unbound.placed.reason)
    except ValueError:
        return PlaceReason.SOON


def _absent(first: Member, count: int) -> list[Member]:
    """Returns stand-ins, like the first pod, for the missing pods of a group, as far as cards can be held for them."""
    most = MOST_CARDS // max(1, first.asked.cards.count)
    absent = [f"{first.pod.name}/later-{number}" for number in range(min(count, most))]
    pods = [msgspec.structs.replace(first.pod, name=name) for name in absent]
    return [Member(pod, first.asked, holder=first.pod.key) for pod in pods]


def _held_for(absent: list[Member], found: Placement, size: int) -> Later | None:
    if not absent:
        return None
    chosen = [found[member.pod.key] for member in absent]
    return Later(size, tuple(CardsHeld(each.node.name, each.uuids) for each in chosen))


def _released(pod: PodRecord, reason: PlaceReason, message: Message, waited: float) -> Write:
    return changed_write(pod, reason, message, release(pod), result="released", waited=waited)


def _order(pod: PodRecord, waited: float) -> tuple[int, str, float, str]:
    """Returns the sort key of a pod. Of pods created in the same second, the pod that was seen first comes first."""
    unbound = pod.unbound
    return (-unbound.priority, unbound.created, -waited, pod.uid) if unbound else (0, "", -waited, pod.uid)
