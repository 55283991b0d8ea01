"""The turns of pods behind the gate: a pod gets its cards, its gate is opened in its turn, or it says why it waits."""

from collections.abc import Iterator

from webhook.decisions.place import evidence
from webhook.decisions.place.card_request import Asked, CardsAsked
from webhook.decisions.place.choice import Chosen
from webhook.decisions.place.placed_annotation import Placed
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.reasons import PlaceReason
from webhook.decisions.place.round import Round, Scene
from webhook.decisions.place.telling import chosen_write, gate_write, waiting_write
from webhook.decisions.place.writes import Write
from webhook.words.catalogue import waiting as said
from webhook.words.catalogue.entry import Message

GATES_NAMED = 3
"""The most gates of other programs that a message names."""
TELL_SECONDS = 30.0
"""Seconds between two writes of the condition of a pod that waits for the same reason."""


class Turns:
    """Writes for single pods behind the planner's gate, for those of groups too.

    Args:
        scene: The world, the memory and the configuration.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def is_due(self, node: str, this: Round) -> bool:
        """Returns whether the gate of a pod with cards of a node may be opened now."""
        return this.in_flight < self._scene.settings.in_flight and node not in this.releasing

    def pin(self, pod: PodRecord, cards: CardsAsked, chosen: Chosen, this: Round) -> Iterator[Write]:
        """Pins a pod and opens its gate with the same patch.

        If it is not its turn, the pod gets nothing, and its cards are held in this round.
        """
        if self.is_due(chosen.node.name, this):
            yield self._opened(pod, cards, chosen, this.placed(chosen), this)
        else:
            self._scene.intents.hold(pod, chosen.node, chosen.uuids)
            yield from self.queue(pod, this)

    def pin_of_group(
        self,
        pod: PodRecord,
        cards: CardsAsked,
        chosen: Chosen,
        this: Round,
        *,
        together: int,
        absent: int = 0,
    ) -> Write:
        """Pins a pod of a group. The same patch opens its gate only if no other pod is chosen together with it.

        Args:
            pod: The pod.
            cards: The cards that it asks for.
            chosen: Its cards.
            this: The round.
            together: The number of pods of the group that get their cards together, all behind the gate.
            absent: The number of pods of the group that are not there, for which no cards are held.
        """
        placed = this.placed(chosen, together=together)
        if together == 1 and self.is_due(chosen.node.name, this):
            return self._opened(pod, cards, chosen, placed, this, absent)
        self._scene.intents.hold(pod, chosen.node, chosen.uuids)
        waited = self._scene.memory.see(pod, this.now)
        return chosen_write(pod, chosen, placed, waited, opens=False, absent=absent)

    def let_go(self, pod: PodRecord, cards: CardsAsked, pinned: Placed, this: Round) -> Iterator[Write]:
        """Opens the gate of a pod that holds its cards, when it is its turn."""
        if not self.is_due(pinned.node, this):
            yield from self.queue(pod, this)
            return
        scene, node = self._scene, self._scene.world.nodes.get(pinned.node)
        self._begins(pod, pinned, this)
        narrowed = scene.narrowed(pod, node, cards) if node else []
        labels = node.labels_of(pinned.cards) if node else pinned.cards
        yield gate_write(pod, pinned, scene.memory.see(pod, this.now), labels=labels, narrowed=narrowed)

    def queue(self, pod: PodRecord, this: Round) -> Iterator[Write]:
        """Notes that a pod with cards waits for its turn. If that takes long, the pod says so."""
        waited = self._scene.memory.see(pod, this.now)
        if waited < TELL_SECONDS:
            this.count(PlaceReason.SOON, waited)
        else:
            message = said.WAITS_FOR_ITS_TURN.say(count=this.in_flight)
            yield from self.wait(pod, PlaceReason.SOON, message, this)

    def pass_over(self, pod: PodRecord, this: Round) -> None:
        """Notes that this round has no time for a pod. It comes earlier in the next one."""
        self._scene.memory.pass_over(pod)
        this.count(PlaceReason.SOON, self._scene.memory.see(pod, this.now))

    def wait(self, pod: PodRecord, reason: PlaceReason, message: Message, this: Round) -> Iterator[Write]:
        """Notes why a pod waits, and has it say so unless it did a moment ago."""
        waited = self._scene.memory.see(pod, this.now)
        this.count(reason, waited)
        if self._is_due_to_tell(pod, reason, this) and (write := waiting_write(pod, reason, message, waited)):
            self._scene.memory.told[pod.uid] = this.now
            yield write

    def may_tell(self, pod: PodRecord, reason: PlaceReason, this: Round) -> bool:
        """Returns whether the condition may be written in this round; if there is no time, earlier in the next."""
        if not self._scene.shares.has_time:
            self._scene.memory.pass_over(pod)
            return False
        return self._is_due_to_tell(pod, reason, this)

    def _is_due_to_tell(self, pod: PodRecord, reason: PlaceReason, this: Round) -> bool:
        """Returns whether the condition is written: at once for a new reason, else every half minute."""
        told = self._scene.memory.told.get(pod.uid)
        is_new = pod.unbound is not None and pod.unbound.placed.reason != reason
        return told is None or is_new or this.now - told >= TELL_SECONDS

    def keep_a_node(self, pod: PodRecord, asked: Asked, this: Round) -> None:
        """Reserves the node that is nearest to having enough cards for the first pod that has waited for long.

        A node is reserved in every second period of ``reserveSeconds`` only, because some nodes never become free. That
        holds for all pods of a namespace together: pods that were created one after the other would take turns.
        """
        scene, seconds = self._scene, self._scene.settings.reserve_seconds
        waited, memory, world = scene.memory.see(pod, this.now), scene.memory, scene.world
        if asked.cards.part:
            return  # no node is emptied for a part of a card
        if this.closed or not int(waited // seconds) % 2 or not memory.may_keep(pod, this.now, seconds):
            return
        nearest = this.once_for(
            world,
            f"nearest {asked.waits}",
            pod,
            asked.cards,
            lambda: evidence.nearest(world, scene.chooser, pod, asked),
        )
        if nearest:
            this.closed.add(nearest)
        memory.keep(pod, this.now, seconds, is_in_vain=not nearest)

    def _opened(
        self,
        pod: PodRecord,
        cards: CardsAsked,
        chosen: Chosen,
        placed: Placed,
        this: Round,
        absent: int = 0,
    ) -> Write:
        scene = self._scene
        scene.intents.hold(pod, chosen.node, chosen.uuids)
        self._begins(pod, placed, this)
        narrowed = [] if chosen.preempts else scene.narrowed(pod, chosen.node, cards)
        waited = scene.memory.see(pod, this.now)
        return chosen_write(pod, chosen, placed, waited, narrowed=narrowed, absent=absent)

    def _begins(self, pod: PodRecord, placed: Placed, this: Round) -> None:
        this.in_flight += 1
        this.releasing.add(placed.node)
        self._scene.memory.pinned(pod, placed, this.now)
