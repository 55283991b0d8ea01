"""The annotation ``gpu.topology/placed``: what the planner chose for a pod, as compact JSON."""

from collections.abc import Mapping

import msgspec

from webhook.words import names
from webhook.words.nesting import decode

MOST_CHARACTERS = 32 * 1024
MOST_CARDS = 256


class CardsHeld(msgspec.Struct, frozen=True, rename="camel"):
    """Cards for one pod that is not there yet."""

    node: str
    cards: tuple[str, ...]
    """UUIDs."""


class Later(msgspec.Struct, frozen=True, rename="camel"):
    """What is held for the pods of a group that are created later."""

    size: int
    """How many pods the group has when all are there."""
    sets: tuple[CardsHeld, ...]
    """For each of the later pods, as far as one annotation has room for them."""


class Placed(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What was chosen."""

    node: str
    cards: tuple[str, ...]
    """UUIDs, in the order of their indices on the node."""
    link: str
    """The link class of the set."""
    bandwidth: float
    """GB/s per direction of its weakest pair; 0 for a single card."""
    share: float
    """Of the ring bandwidth that the best set of this size has on such a node if all is free: 0 to 1."""
    attempt: int
    """1 for the first choice."""
    at: str
    """When, in RFC 3339."""
    gave_up: tuple[str, ...] = ()
    """What the pod requires and the set does not have, in sentences."""
    refused: tuple[str, ...] = ()
    """The nodes that the scheduler refused with earlier choices."""
    later: Later | None = None
    """What is held for other pods of the group, as long as this one is there."""


_DECODER = msgspec.json.Decoder(Placed)


def format_placed(placed: Placed) -> str:
    """The text of the annotation, in one line."""
    return msgspec.json.encode(placed).decode()


def fitted(placed: Placed) -> Placed:
    """The same without the last sets of later pods that would make the annotation too long to be read again."""
    later, excess = placed.later, len(format_placed(placed)) - MOST_CHARACTERS
    if later is None or excess <= 0:
        return placed
    kept = list(later.sets)
    while kept and excess > 0:
        excess -= len(msgspec.json.encode(kept.pop()).decode()) + len(",")
    fewer = msgspec.structs.replace(later, sets=tuple(kept)) if kept else None
    return msgspec.structs.replace(placed, later=fewer)


def read_placed(annotations: Mapping[str, str]) -> Placed | None:
    """What the planner chose; None if it chose nothing, or another program changed it to what it cannot be."""
    text = annotations.get(names.PLACED)
    if text is None or len(text) > MOST_CHARACTERS:
        return None
    try:
        placed = decode(_DECODER, text)
    except msgspec.DecodeError:
        return None
    return placed if _is_possible(placed) else None


def _is_possible(placed: Placed) -> bool:
    """Whether the planner can have chosen that: later pods get as many cards as the one that is there."""
    count, later = len(placed.cards), placed.later.sets if placed.later else ()
    is_alike = all(len(held.cards) == count for held in later)
    return 0 < count <= MOST_CARDS and placed.attempt > 0 and is_alike and count * len(later) <= MOST_CARDS
