"""Decisions about pods past the gate without a node: whether HAMi takes the chosen cards, and else the next choice."""

from collections.abc import Collection, Iterator

from webhook.decisions.place.card_request import Asked
from webhook.decisions.place.choice import Chosen, is_satisfying
from webhook.decisions.place.memory import Followed, Search
from webhook.decisions.place.pin_patches import release, rest
from webhook.decisions.place.pins import pin_of, placement_of, written_pin
from webhook.decisions.place.placed_annotation import Placed
from webhook.decisions.place.pod import PodRecord, UnboundPod
from webhook.decisions.place.reasons import PlaceReason
from webhook.decisions.place.round import NotPlaceable, Round, Scene
from webhook.decisions.place.telling import adopted_write, bound_write, changed_write, chosen_write, released_write
from webhook.decisions.place.writes import Write
from webhook.objects.pod import PodCondition
from webhook.words import names
from webhook.words.catalogue import waiting as said
from webhook.words.catalogue.entry import Message
from webhook.words.choices import Placement
from webhook.words.errors import shorten
from webhook.words.listing import counted

_UNSCHEDULABLE = "Unschedulable"
"""The reason of the condition ``PodScheduled`` when a scheduling cycle found no node (k8s.io/api core/v1, types.go)."""
AGAIN_SECONDS = 5.0
"""Seconds after which a pin to new cards is written again. HAMi's scheduler wakes no pod when it learns of a card; a
write to the pod does (pkg/scheduler/backend/queue/scheduling_queue.go, Update)."""
MOST_DOUBLINGS = 6
"""After a choice in vain, cards for the pod are looked for two seconds later, and twice as long after each more."""


class FollowedPods:
    """Decides about the pods past the planner's gate."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def decide(self, this: Round) -> Iterator[Write]:
        """Yields the writes of this round, and notes the nodes in use and the pods that count for ``inFlight``."""
        followed, resting = [], []
        for pod in list(self._scene.world.unbound.values()):
            unbound = pod.unbound
            if unbound is None or unbound.is_gated or unbound.is_ending:
                continue
            self._scene.memory.see(pod, this.now)
            found = self._scene.memory.follow(pod, this.now)
            if found:
                followed.append((found.pinned_at, pod.key, pod, unbound, found))
            elif placement_of(pod) == Placement.RELEASED and pod.key not in this.busy:
                write = self._adopt(pod, unbound, this)
                if write:
                    yield write
                else:
                    resting.append((pod, unbound))
        followed.sort(key=lambda entry: entry[:2])
        waiting = [entry[2:] for entry in followed if not self._is_on_its_way(*entry[2:], this)]
        others_move = False
        for pod, unbound, found in waiting:
            for write in self._choose_again(pod, unbound, found, this, others_move=others_move):
                others_move = True
                yield write
            this.releasing.add(found.placed.node)  # the write may fail
        for pod, unbound in resting:
            yield from self._wake(pod, unbound, this)

    def bound(self, before: PodRecord, after: PodRecord, this: Round) -> Iterator[Write]:
        """Yields a write that says whether HAMi gave a pod, which has just got its node, the cards it was pinned to."""
        pin = pin_of(before)
        found = self._scene.memory.followed.pop(after.uid, None)
        if found:
            self._scene.memory.begin_anew(found.pinned_at, this.now)
        if pin:
            yield bound_write(after, pin, self._scene.memory.see(after, this.now))

    def _is_on_its_way(self, pod: PodRecord, unbound: UnboundPod, found: Followed, this: Round) -> bool:
        if pod.key not in this.busy:
            if self._lost(pod, unbound, found.placed):
                return False
            if self._is_waiting_for_room(pod, found, this):
                return True
            if self._is_refused(pod, unbound.scheduled, found, this.now):
                return False
        _stays(found, this)
        return True

    def _lost(self, pod: PodRecord, unbound: UnboundPod, placed: Placed) -> str:
        """Returns why the node of a pin can no longer take the pod, in a clause about the node; empty if it can.

        A pod to which HAMi has just given cards is about to be bound.
        """
        node = self._scene.world.nodes.get(placed.node)
        if pod.held:
            return ""
        if node is None or node.record is None:
            return "is gone"
        lost = set(placed.cards).difference(gpu.uuid for gpu in node.record.registered)
        return f"no longer offers {counted(len(lost), 'card')} of the pod" if lost else node.refusal(unbound.needs)

    def _is_waiting_for_room(self, pod: PodRecord, found: Followed, this: Round) -> bool:
        """Returns whether pods of lower priority are on their way out of the node that kube-scheduler chose for a pod.

        The pod keeps its cards until they are gone, for ``reserveSeconds`` at most. It does not count as on its way,
        because the scheduler can do nothing for it meanwhile.
        """
        scene, placed = self._scene, found.placed
        is_in_time = this.now - found.pinned_at < scene.settings.reserve_seconds
        if not is_in_time or not scene.world.is_making_room(pod.nominated, pod.priority):
            return False
        if pod.nominated != placed.node and (not placed.preempts or self._cards_of_nominated(pod, placed)):
            return False
        found.since = this.now
        return True

    def _cards_of_nominated(self, pod: PodRecord, placed: Placed) -> Chosen | None:
        """Returns cards for a pod on the other node on which kube-scheduler makes room for it; None if there are none.

        The scheduler chooses the node without HAMi, so by the importance of the victims and not by free cards.
        """
        asked = self._asked(pod) if pod.nominated not in ("", placed.node) else None
        chosen = self._best(pod, asked, only={pod.nominated}) if asked else None
        return chosen if asked and chosen and _will_do(chosen, asked) else None

    def _is_refused(self, pod: PodRecord, scheduled: PodCondition, found: Followed, now: float) -> bool:
        """Returns whether the scheduler refuses the chosen cards.

        A scheduler that makes room on the node, or could not yet know a new card, has not refused it.

        Two states of a pod count as a refusal only after ``pinSeconds``: a second refusal in the same words, which
        changes nothing on the pod, and HAMi's allocation of an earlier attempt, which stays on the pod after a refusal.
        A scheduler may also report no result, because HAMi or its lock is in the way. That counts as a refusal only
        after ``pinSeconds``, and only if a pod that was pinned later has got its node.
        """
        is_late = now - found.since >= self._scene.settings.pin_seconds
        if scheduled.reason != _UNSCHEDULABLE:
            return is_late and found.is_overtaken
        if pod.nominated == found.placed.node:
            return is_late
        if self._scene.memory.has_new(found.placed.cards) and now - found.pinned_at < AGAIN_SECONDS:
            return False
        return is_late or (scheduled != found.before and not pod.held)

    def _choose_again(
        self, pod: PodRecord, unbound: UnboundPod, found: Followed, this: Round, *, others_move: bool
    ) -> Iterator[Write]:
        """Yields the write for a pod whose cards the scheduler did not take.

        A node is tried again only if other pods had got its cards, if it lost them, or if they are new to HAMi. Where
        ``others_move`` in this round, the cards that these pods had are free in the next round.
        """
        scene, placed = self._scene, found.placed
        lost = self._lost(pod, unbound, placed)
        is_new = not lost and scene.memory.has_new(placed.cards)
        waited = scene.memory.see(pod, this.now)
        if not scene.settings.mode.holds_pods:
            message = said.NOT_PLACEABLE.say(why="placement is off")
            yield released_write(pod, PlaceReason.SWITCHED_OFF, message, waited)
            return
        asked = self._asked(pod)
        is_others = scene.is_taken(pod, placed, asked) or lost or is_new
        refused = placed.refused if is_others else tuple(dict.fromkeys((*placed.refused, placed.node)))
        if asked and not scene.shares.has_time:
            _stays(found, this)
            return
        chosen = None
        if asked and placed.attempt < scene.settings.attempts:
            chosen = self._cards_of_nominated(pod, placed)
            if chosen is None:
                with scene.world.without(pod):
                    chosen = self._best(pod, asked, closed=this.closed.union(refused))
        if asked and chosen and _will_do(chosen, asked):
            if chosen.node.name in this.releasing:
                _stays(found, this)
                return
            message = _why(chosen, pod, unbound, placed, lost)
            again = this.placed(chosen, placed.attempt + (not is_new), refused)
            yield self._repin(pod, chosen, again, this, refused=message)
        elif others_move and asked and placed.attempt < scene.settings.attempts:
            _stays(found, this)
        elif asked is None or not asked.waits:
            is_last = bool(lost) and placed.attempt < scene.settings.attempts
            tried = said.TRIED_OFTEN.say(attempts=placed.attempt)
            message = said.LAST_NODE_LOST.say(node=placed.node, why=lost) if is_last else tried
            yield changed_write(pod, PlaceReason.GIVEN_UP, message, release(pod), result="given-up", waited=waited)
        else:
            free = scene.free_cards(pod, asked.cards)
            message = said.PIN_WITHOUT_CARDS.say(evidence=free)
            scene.memory.rested[pod.uid] = self._searched(placed.attempt, this)
            yield changed_write(pod, PlaceReason.CARDS_LOST, message, rest(pod), result="refused", waited=waited)

    def _best(
        self, pod: PodRecord, asked: Asked, *, closed: Collection[str] = (), only: Collection[str] | None = None
    ) -> Chosen | None:
        """Returns the best cards for a pod, where none will do those that preemption makes usable; None without any."""
        chooser = self._scene.chooser
        chosen = chooser.best(pod, asked.cards, closed=closed, only=only)
        if chosen and _will_do(chosen, asked):
            return chosen
        return chooser.best_by_preemption(pod, asked.cards, closed=closed, only=only) or chosen

    def _adopt(self, pod: PodRecord, unbound: UnboundPod, this: Round) -> Write | None:
        """Returns the write that holds the cards of a pod whose gate the webhook opened; None: it holds none.

        A replica opens gates while no planner is alive, and may not change the pin of a pod of a group. HAMi keeps to
        that pin. A pod that the planner has put to rest looks alike, but says that its cards are lost.
        """
        scene, pin = self._scene, written_pin(pod)
        if pin is None or not scene.settings.mode.holds_pods or unbound.placed.reason == PlaceReason.CARDS_LOST:
            return None
        node, asked = scene.world.node_with(pin.cards), self._asked(pod)
        if node is None or node.name != pin.node or asked is None or asked.cards.count != len(pin.cards):
            return None
        if scene.is_taken(pod, pin, asked):
            return None
        scene.intents.hold(pod, node, pin.cards)
        this.in_flight += 1
        this.releasing.add(node.name)
        return adopted_write(pod, pin, scene.memory.see(pod, this.now))

    def _wake(self, pod: PodRecord, unbound: UnboundPod, this: Round) -> Iterator[Write]:
        """Yields a new pin for a pod that holds no cards, if there are cards for it; tried once in ``pinSeconds``.

        It is tried at once when something became free or a node changed, but not soon after a choice in vain.
        """
        scene = self._scene
        last = scene.memory.rested.setdefault(pod.uid, Search(this.now, scene.world.gains, this.now))
        before = unbound.chosen
        attempt = before.attempt + 1 if before else 1
        is_users = not written_pin(pod) and names.USE_GPU_UUID in unbound.pod.annotations
        is_on = scene.settings.mode.holds_pods
        is_due = this.now - last.at >= scene.settings.pin_seconds
        is_time = is_due or (scene.world.gains != last.gains and this.now >= last.until)
        if is_users or not is_on or not is_time or unbound.scheduled.reason != _UNSCHEDULABLE:
            return
        if scene.world.is_making_room(pod.nominated, pod.priority):
            return
        asked = self._asked(pod)
        if this.in_flight >= scene.settings.in_flight or (asked and not scene.shares.has_time):
            return
        chosen = this.best(scene, pod, asked) if asked else None
        if asked and asked.waits and not (chosen and is_satisfying(chosen)):
            chosen = this.best_by_preemption(scene, pod, asked) or chosen
        if chosen and chosen.node.name in this.releasing:
            return
        scene.memory.rested[pod.uid] = Search(this.now, scene.world.gains, last.until)
        if asked and chosen and _will_do(chosen, asked) and (asked.waits or attempt <= scene.settings.attempts):
            scene.memory.rested[pod.uid] = self._searched(attempt, this)
            yield self._repin(pod, chosen, this.placed(chosen, attempt), this)

    def _searched(self, attempt: int, this: Round) -> Search:
        """Returns the search that ends with a choice, or with the loss of one; its number says how long others wait."""
        pause = min(self._scene.settings.pin_seconds, 2 ** min(attempt, MOST_DOUBLINGS))
        return Search(this.now, self._scene.world.gains, this.now + pause)

    def _repin(
        self, pod: PodRecord, chosen: Chosen, placed: Placed, this: Round, *, refused: Message | None = None
    ) -> Write:
        scene = self._scene
        scene.intents.hold(pod, chosen.node, chosen.uuids)
        this.releasing.add(chosen.node.name)
        this.in_flight += 1
        scene.memory.pinned(pod, placed, this.now)
        return chosen_write(pod, chosen, placed, scene.memory.see(pod, this.now), refused=refused)

    def _asked(self, pod: PodRecord) -> Asked | None:
        try:
            return self._scene.asked(pod)
        except NotPlaceable:
            return None


def _why(chosen: Chosen, pod: PodRecord, unbound: UnboundPod, placed: Placed, lost: str) -> Message:
    """Returns why cards are chosen anew for a pod."""
    if lost:
        return said.NODE_LOST.say(node=placed.node, why=lost)
    if chosen.node.name == pod.nominated:
        return said.ROOM_MADE_ELSEWHERE.say(node=pod.nominated)
    return said.SCHEDULER_REFUSED.say(node=placed.node, said=shorten(unbound.scheduled.message))


def _will_do(chosen: Chosen, asked: Asked) -> bool:
    return is_satisfying(chosen) or not asked.waits


def _stays(found: Followed, this: Round) -> None:
    """Counts a pod as on its way to the node that was chosen."""
    this.in_flight += 1
    this.releasing.add(found.placed.node)
