"""Decisions about pods behind the gate: the pods that get their cards now, and the reasons why the others wait."""

from collections.abc import Iterator

from webhook.decisions.place import evidence
from webhook.decisions.place.card_request import Asked, CardsAsked
from webhook.decisions.place.choice import Chosen, grade_of, is_satisfying
from webhook.decisions.place.gated_groups import GatedGroups
from webhook.decisions.place.memory import NoCards
from webhook.decisions.place.pins import pin_of
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.ranking import wanted_of
from webhook.decisions.place.reasons import PlaceReason, told
from webhook.decisions.place.round import NotPlaceable, NotReadYet, Round, Scene
from webhook.decisions.place.telling import released_write
from webhook.decisions.place.turns import GATES_NAMED, Turns
from webhook.decisions.place.writes import Write
from webhook.objects.workload import MISSING
from webhook.words.catalogue import waiting as said
from webhook.words.catalogue.entry import Message

READ_SECONDS = 10.0
"""Seconds for which a pod waits until its PodGroup is read. Readings have a limited rate."""


class WaitingPods:
    """Decides about the pods behind the planner's gate."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._turns = Turns(scene)
        self._groups = GatedGroups(scene, self._turns)

    def decide(self, this: Round) -> Iterator[Write]:
        """Yields the writes of this round: for the most urgent and the oldest first, by shares.

        Namespaces with pods whose changes the API server refuses come last. Each try takes cards for a moment, and
        thousands of tries take them all the time.
        """
        gated = [pod for pod in self._scene.world.unbound.values() if pod.unbound and pod.unbound.is_gated]
        memory = self._scene.memory
        waiting = {pod.uid: memory.see(pod, this.now) for pod in gated}
        gated.sort(key=lambda pod: (pod.namespace in memory.written_in_vain, *_order(pod, waiting[pod.uid])))
        memory.begin_turns()
        for pod in self._scene.shares.in_turn(gated):
            waited = waiting[pod.uid]
            if pod.key in this.busy or pod.key in this.decided or pod.unbound is None or pod.unbound.is_ending:
                continue
            if self._is_for_later(this):
                this.count(told(pod.unbound), waited)
            else:
                yield from self._decide(pod, pod.unbound.other_gates, waited, this)

    def _is_for_later(self, this: Round) -> bool:
        """Returns whether no more pods can go on, and the waiting pods were looked at a moment ago.

        In a rush each new pod begins a round. Without this check, each round would look at all waiting pods.
        """
        settings = self._scene.settings
        is_full = settings.mode.holds_pods and this.in_flight >= settings.in_flight
        return is_full and not this.is_thorough

    def _decide(self, pod: PodRecord, others: tuple[str, ...], waited: float, this: Round) -> Iterator[Write]:
        if not self._scene.settings.mode.holds_pods:
            message = said.NOT_PLACEABLE.say(why="placement is off")
            yield released_write(pod, PlaceReason.SWITCHED_OFF, message, waited)
            return
        refused = self._scene.refused(pod)
        if refused and not this.closed and (refused.is_told or not self._turns.may_tell(pod, refused.reason, this)):
            yield from self._refused_again(pod, refused, waited, this)
            return
        if not self._scene.shares.has_time:
            self._turns.pass_over(pod, this)
            return
        try:
            asked = self._scene.asked(pod)
        except NotPlaceable as problem:
            yield released_write(pod, PlaceReason.NOT_PLACEABLE, said.NOT_PLACEABLE.say(why=problem), waited)
            return
        pinned = pin_of(pod)
        if others:
            message = said.OTHER_GATES.say(gates=", ".join(others[:GATES_NAMED]))
            yield from self._turns.wait(pod, PlaceReason.OTHER_GATES, message, this)
        elif asked.group_size > 1 and pod.group:
            yield from self._groups.decide(pod, asked, this)
        elif not pinned and (missing := self._without_pod_group(pod, waited, this)) is not None:
            yield from missing
        elif pinned:
            yield from self._turns.let_go(pod, asked.cards, pinned, this)
        else:
            yield from self._choose(pod, asked, waited, this)

    def _without_pod_group(self, pod: PodRecord, waited: float, this: Round) -> Iterator[Write] | None:
        """Returns the writes for a pod that waits because its PodGroup is not read yet, or not there yet.

        None: it names none, has waited long enough, or it is known how many pods belong to its group.
        """
        try:
            if self._scene.pod_group(pod) != MISSING or waited >= self._scene.settings.full_seconds:
                return None
        except NotReadYet:
            if waited >= READ_SECONDS:
                return None
            this.count(PlaceReason.SOON, waited)
            return iter(())
        message = said.WITHOUT_POD_GROUP.say(group=pod.group.partition("=")[2])
        return self._turns.wait(pod, PlaceReason.GROUP_INCOMPLETE, message, this)

    def _refused_again(self, pod: PodRecord, refused: NoCards, waited: float, this: Round) -> Iterator[Write]:
        """Yields the write for a pod to which the last answer still holds: only its time may be over now."""
        if refused.reason is not PlaceReason.REQUIREMENT_NOT_MET and self._is_time_over(refused.asked, waited):
            yield self._released_without_cards(pod, refused.asked, waited)
            return
        this.count(refused.reason, waited)
        if self._scene.shares.has_time:
            self._turns.keep_a_node(pod, refused.asked, this)

    def _is_time_over(self, asked: Asked, waited: float) -> bool:
        return not asked.waits and waited >= max(self._scene.settings.full_seconds, asked.wait)

    def _choose(self, pod: PodRecord, asked: Asked, waited: float, this: Round) -> Iterator[Write]:
        chosen = this.best(self._scene, pod, asked)
        if chosen is None or (asked.waits and not is_satisfying(chosen)):
            chosen = this.best_by_preemption(self._scene, pod, asked) or chosen
        if chosen is None:
            yield from self._without_cards(pod, asked, waited, this)
        elif asked.waits and not is_satisfying(chosen):
            tells = self._turns.may_tell(pod, PlaceReason.REQUIREMENT_NOT_MET, this)
            if tells:
                message = this.once_for(
                    self._scene.world, "no such set", pod, asked.cards, lambda: self._no_such_set(pod, asked)
                )
                yield from self._turns.wait(pod, PlaceReason.REQUIREMENT_NOT_MET, message, this)
            else:
                this.count(PlaceReason.REQUIREMENT_NOT_MET, waited)
            self._refuse(pod, asked, PlaceReason.REQUIREMENT_NOT_MET, this, is_told=tells)
            self._turns.keep_a_node(pod, asked, this)
        elif waited < asked.wait and (better := self._better(pod, asked, chosen, this)):
            yield from self._turns.wait(pod, PlaceReason.BETTER_LATER, better, this)
        else:
            yield from self._turns.pin(pod, asked.cards, chosen, this)

    def _without_cards(self, pod: PodRecord, asked: Asked, waited: float, this: Round) -> Iterator[Write]:
        """Yields the write for a pod without enough free cards on any node on which it can run."""
        scene, count = self._scene, asked.cards.count
        if self._is_time_over(asked, waited):
            yield self._released_without_cards(pod, asked, waited)
            return
        reason = this.once_for(scene.world, "shortage", pod, asked.cards, lambda: self._shortage(pod, count))
        tells = self._turns.may_tell(pod, reason, this)
        if tells:
            spared = evidence.spared_pods(scene.world, pod)
            message = this.once_for(
                scene.world, f"said {spared}", pod, asked.cards, lambda: self._said_of(pod, reason, asked.cards, spared)
            )
            yield from self._turns.wait(pod, reason, message, this)
        else:
            this.count(reason, waited)
        self._refuse(pod, asked, reason, this, is_told=tells)
        self._turns.keep_a_node(pod, asked, this)

    def _refuse(self, pod: PodRecord, asked: Asked, reason: PlaceReason, this: Round, *, is_told: bool) -> None:
        """Remembers the answer, unless nodes are kept for others in this round."""
        if not this.closed:
            self._scene.refuse(pod, asked, reason, is_told=is_told)

    def _released_without_cards(self, pod: PodRecord, asked: Asked, waited: float) -> Write:
        free = self._scene.free_cards(pod, asked.cards)
        entry = said.RELEASED_WITHOUT_ROOM if asked.cards.part else said.RELEASED_WITHOUT_CARDS
        message = entry.say(count=asked.cards.count, seconds=round(waited), evidence=free)
        return released_write(pod, PlaceReason.RELEASED, message, waited)

    def _shortage(self, pod: PodRecord, count: int) -> PlaceReason:
        world, chooser = self._scene.world, self._scene.chooser
        if evidence.most_cards(world) < count:
            return PlaceReason.NEVER_FITS
        runs = any(not chooser.refusal(node, pod) for node in world.known_nodes())
        return PlaceReason.NO_FREE_CARDS if runs else PlaceReason.NO_NODE

    def _said_of(self, pod: PodRecord, reason: PlaceReason, cards: CardsAsked, spared: str) -> Message:
        world, chooser, count = self._scene.world, self._scene.chooser, cards.count
        if reason is PlaceReason.NEVER_FITS:
            return said.NEVER_FITS.say(count=count, most=evidence.most_cards(world))
        if reason is PlaceReason.NO_NODE:
            closed = evidence.closed_nodes(world, chooser, pod)
            cordoned = evidence.cordoned_nodes(world, chooser, pod, cards)
            return said.NO_NODE.say(evidence="; ".join(part for part in (closed, cordoned, spared) if part))
        entry = said.NO_ROOM_FOR_PARTS if cards.part else said.NO_FREE_CARDS
        return entry.say(count=count, evidence=self._scene.free_cards(pod, cards))

    def _no_such_set(self, pod: PodRecord, asked: Asked) -> Message:
        free = self._scene.free_cards(pod, asked.cards)
        return said.NO_SUCH_SET.say(count=asked.cards.count, wanted=evidence.wanted(asked.cards), evidence=free)

    def _better(self, pod: PodRecord, asked: Asked, chosen: Chosen, this: Round) -> Message | None:
        """Returns a message about the better cards that would exist if all were free; None if there are none better."""
        scene, found = self._scene, grade_of(chosen, asked.cards)
        ideal = this.once_for(scene.world, "ideal", pod, asked.cards, lambda: scene.chooser.ideal(pod, asked.cards))
        if ideal is None or wanted_of(ideal, asked.cards) <= wanted_of(found, asked.cards):
            return None
        better, here = f"{ideal[1]:g} GB/s", f"{found[1]:g} GB/s"
        return said.BETTER_LATER.say(found=here, best=better, seconds=round(asked.wait))


def _order(pod: PodRecord, waited: float) -> tuple[int, str, float, str]:
    """Returns the sort key of a pod. Of pods created in the same second, the pod that was seen first comes first."""
    unbound = pod.unbound
    return (-unbound.priority, unbound.created, -waited, pod.uid) if unbound else (0, "", -waited, pod.uid)
