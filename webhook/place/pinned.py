"""Pins: the cards to which the planner has limited HAMi's choice for a pod."""

from webhook.model import names
from webhook.model.choices import Placement
from webhook.place.placed import Placed, read_placed
from webhook.place.pod import PodRecord


def pin_of(pod: PodRecord) -> Placed | None:
    """The planner's choice for a pod without a node, as long as it is what HAMi has to keep to; else None.

    Where a user has changed the list, it is the user's.
    """
    if pod.unbound is None or pod.unbound.pod.labels.get(names.PLACEMENT) == Placement.RELEASED:
        return None
    annotations = pod.unbound.pod.annotations
    placed = read_placed(annotations)
    return placed if placed and annotations.get(names.USE_GPU_UUID) == ",".join(placed.cards) else None


def pinned_cards(pod: PodRecord) -> tuple[str, ...]:
    """UUIDs that a pod without a node is pinned to."""
    pin = pin_of(pod)
    return pin.cards if pin else ()
