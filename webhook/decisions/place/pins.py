"""Pins: the cards to which the planner has limited HAMi's choice for a pod."""

from webhook.decisions.place.placed_annotation import Placed
from webhook.decisions.place.pod import PodRecord
from webhook.words import names
from webhook.words.choices import Placement


def pin_of(pod: PodRecord) -> Placed | None:
    """Returns the planner's choice for a pod without a node while its cards are held for it; else None.

    The placement label says that the cards are held. Users can write the annotations of a choice, or that label, but
    not both: the chart's policies keep them from it. No card is held for a pod that is being deleted, because no
    scheduler gives it a node, and finalizers may keep it for ever.
    """
    placed = None if pod.unbound and pod.unbound.is_ending else written_pin(pod)
    return placed if placed and placement_of(pod) in (Placement.WAITING, Placement.PINNED) else None


def written_pin(pod: PodRecord) -> Placed | None:
    """Returns the planner's choice for a pod without a node, if HAMi has to keep to it; else None.

    HAMi does not have to keep to it where a user has changed the list of cards: the list is then the user's.
    """
    if pod.unbound is None:
        return None
    placed, listed = pod.unbound.chosen, pod.unbound.pod.annotations.get(names.USE_GPU_UUID)
    return placed if placed and listed == ",".join(placed.cards) else None


def pinned_cards(pod: PodRecord) -> tuple[str, ...]:
    """Returns the UUIDs of the cards that are held for a pod without a node."""
    pin = pin_of(pod)
    return pin.cards if pin else ()


def placement_of(pod: PodRecord) -> str:
    """Returns the stage of the placement of a pod without a node, as its label says; empty without the label."""
    return pod.unbound.pod.labels.get(names.PLACEMENT, "") if pod.unbound else ""
