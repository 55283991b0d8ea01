"""The writes that carry out a decision about a pod: the patch, the condition, the Event, the log and the counters."""

from collections.abc import Sequence

from webhook.decisions.place.choice import Chosen
from webhook.decisions.place.pin_patches import adopt, let_go, pin, release
from webhook.decisions.place.placed_annotation import Placed, link_text
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.reasons import PlaceReason
from webhook.decisions.place.writes import PodCondition, Write
from webhook.objects.binding import PodEvent
from webhook.words.catalogue import waiting as said
from webhook.words.catalogue.entry import Message
from webhook.words.patch import Operation


def chosen_write(  # noqa: PLR0913 - what there is to say
    pod: PodRecord,
    chosen: Chosen,
    placed: Placed,
    waited: float,
    *,
    opens: bool = True,
    refused: Message | None = None,
    narrowed: Sequence[str] = (),
    absent: int = 0,
) -> Write:
    """Returns the write that pins a pod.

    Args:
        pod: A pod without a node.
        chosen: The cards of the pod.
        placed: The value of the annotation ``gpu.topology/placed``.
        waited: Seconds that the pod has waited.
        opens: Whether the gate is opened at once. Otherwise the pod holds its cards behind the gate.
        refused: Why an earlier choice was not taken; None: this is the first choice.
        narrowed: Host names of the only nodes that the scheduler may look at from now on; empty: all.
        absent: The number of pods of its group that are not there, and for which no cards are held.
    """
    cards = ", ".join(f"GPU{index}" for index in chosen.choice.gpus)
    message = _chosen(placed, cards, link_text(placed), absent)
    return Write(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        patch=pin(pod, placed, opens=opens, narrowed=narrowed),
        condition=PodCondition("True", PlaceReason.PINNED, str(message)),
        event=PodEvent(PlaceReason.REFUSED, refused.advice)
        if refused
        else PodEvent(PlaceReason.PINNED, message.advice, is_warning=False),
        result="pinned" if placed.attempt == 1 else "repinned",
        link=chosen.choice.chosen.link,
        given_up=chosen.given_up,
        log={
            **_log(PlaceReason.PINNED, message, waited),
            "node": placed.node,
            "cards": cards,
            "link": placed.link,
            "bandwidth": placed.bandwidth,
            "share": placed.share,
            "attempt": placed.attempt,
            "gaveUp": "; ".join(placed.gave_up),
        },
    )


def _chosen(placed: Placed, cards: str, link: str, absent: int = 0) -> Message:
    if placed.preempts:
        return said.CARDS_CHOSEN_WITHOUT_ROOM.say(node=placed.node, cards=cards, link=link)
    if absent:
        return said.CARDS_CHOSEN_AND_NONE_HELD.say(node=placed.node, cards=cards, link=link, pods=absent)
    return said.CARDS_CHOSEN.say(node=placed.node, cards=cards, link=link)


def gate_write(
    pod: PodRecord, placed: Placed, waited: float, *, labels: Sequence[str], narrowed: Sequence[str] = ()
) -> Write:
    """Returns the write that opens the gate of a pod which holds its cards.

    Args:
        pod: A pod without a node.
        placed: The choice that stands on the pod.
        waited: Seconds that the pod has waited.
        labels: The names of the cards.
        narrowed: As in :func:`chosen_write`.
    """
    is_told = pod.unbound is not None and pod.unbound.placed.reason == PlaceReason.PINNED
    message = _chosen(placed, ", ".join(labels), link_text(placed))
    return Write(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        patch=let_go(pod, narrowed),
        condition=None if is_told else PodCondition("True", PlaceReason.PINNED, str(message)),
        log={"reason": PlaceReason.LET_GO, "waited": round(waited, 3), "node": placed.node},
    )


def adopted_write(pod: PodRecord, placed: Placed, waited: float) -> Write:
    """Returns the write that holds the cards of a pod again, whose gate another program opened."""
    return Write(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        patch=adopt(pod),
        log={"reason": PlaceReason.ADOPTED, "waited": round(waited, 3), "node": placed.node},
    )


def changed_write(
    pod: PodRecord, reason: PlaceReason, message: Message, patch: tuple[Operation, ...], *, result: str, waited: float
) -> Write:
    """Returns the write that changes a pod to something worse than a pin, and says why.

    Args:
        pod: A pod without a node.
        reason: The reason in the condition, the Event and the log.
        message: The explanation of the reason.
        patch: The patch of the pod.
        result: The result for the counter.
        waited: Seconds that the pod has waited.
    """
    return Write(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        patch=patch,
        condition=PodCondition("False", reason, str(message)),
        event=PodEvent(reason, message.advice),
        result=result,
        log=_log(reason, message, waited),
    )


def released_write(pod: PodRecord, reason: PlaceReason, message: Message, waited: float) -> Write:
    """Returns the write that leaves the choice for a pod to HAMi, and says why."""
    return changed_write(pod, reason, message, release(pod), result="released", waited=waited)


def waiting_write(pod: PodRecord, reason: PlaceReason, message: Message, waited: float) -> Write | None:
    """Returns the write that says why a pod waits; None if the pod says it already.

    The Event and the line of the log are written only for a reason that is new.
    """
    present = pod.unbound.placed if pod.unbound else None
    if present and (present.reason, present.message) == (reason, str(message)):
        return None
    is_new = present is None or present.reason != reason
    return Write(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        condition=PodCondition("False", reason, str(message)),
        event=PodEvent(reason, message.advice) if is_new else None,
        log=_log(reason, message, waited) if is_new else {},
    )


def refused_write(write: Write, problem: str) -> Write:
    """Returns the write that says that the API server refuses another one, with the problem in its words."""
    message = said.CHANGE_REFUSED.say(problem=problem)
    return Write(
        namespace=write.namespace,
        name=write.name,
        uid=write.uid,
        condition=PodCondition("False", PlaceReason.CHANGE_REFUSED, str(message)),
        event=PodEvent(PlaceReason.CHANGE_REFUSED, message.advice),
    )


def bound_write(pod: PodRecord, placed: Placed, waited: float) -> Write:
    """Returns the write that says whether HAMi gave the chosen cards."""
    taken = set(pod.held) == set(placed.cards)
    message = said.OTHER_CARDS.say(chosen=", ".join(placed.cards), given=", ".join(pod.held) or "none")
    reason = PlaceReason.TAKEN if taken else PlaceReason.OTHER_CARDS
    return Write(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        event=None if taken else PodEvent(reason, message.advice),
        result="taken" if taken else "missed",
        log={"reason": reason, "waited": round(waited, 3), "node": pod.node, "text": "" if taken else str(message)},
    )


def _log(reason: PlaceReason, message: Message, waited: float) -> dict[str, str | int | float]:
    return {"reason": reason, "waited": round(waited, 3), "text": str(message)}
