"""The annotation ``gpu.topology/placed``: the planner's choice for a pod, as compact JSON."""

from collections.abc import Mapping

import msgspec

from webhook.words import names
from webhook.words.nesting import decode

MOST_CHARACTERS = 32 * 1024
MOST_CARDS = 256
"""The most cards of one pod, and the most that are held for all later pods together."""
MOST_OTHERS = 2048
"""The most requirements, nodes and amounts in one annotation, of which a user may write ten thousand short ones."""
UNKNOWN_LINK = "unknown"
"""The link class of a set whose links the node does not tell; its bandwidth is then written as 0."""


class CardsHeld(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The cards for one pod that does not exist yet."""

    node: str
    cards: tuple[str, ...]
    """The UUIDs of the cards."""
    amounts: dict[str, int] | None = None
    """The resources that the pod takes of the node; None: as much as the pod that names the cards."""


class Later(msgspec.Struct, frozen=True, rename="camel"):
    """The cards that are held for pods of a group that are created later."""

    size: int
    """The number of pods of the group when all exist."""
    sets: tuple[CardsHeld, ...]
    """The cards of each later pod, as far as one annotation has room for them."""


class Placed(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The planner's choice for a pod."""

    node: str
    cards: tuple[str, ...]
    """The UUIDs of the cards, in the order of their indices on the node."""
    link: str
    """The link class of the set; ``unknown``: the node does not tell its links."""
    bandwidth: float
    """The bandwidth of the weakest pair of the set, in GB/s per direction; 0 for a single card, or unknown."""
    share: float
    """The ring bandwidth as a share of what the best set of this size has on such a node if all is free: 0 to 1."""
    attempt: int
    """The number of the choice; 1 for the first."""
    at: str
    """The time of the choice, in RFC 3339."""
    gave_up: tuple[str, ...] = ()
    """The requirements of the pod that the set does not meet, in sentences."""
    refused: tuple[str, ...] = ()
    """The nodes that the scheduler refused with earlier choices."""
    later: Later | None = None
    """The cards held for other pods of the group, as long as this pod exists."""
    together: int = 0
    """The number of pods of the group that got their cards at once with this one; 0: the pod was placed alone."""
    preempts: bool = False
    """Whether the node has room for the pod only when kube-scheduler evicts pods of lower priority."""


_DECODER = msgspec.json.Decoder(Placed)


def link_text(placed: Placed) -> str:
    """Returns link class and bandwidth of a choice in words; the bandwidth only of several cards with known links."""
    if placed.link == UNKNOWN_LINK:
        return "links not known"
    return f"{placed.link}, {placed.bandwidth:g} GB/s" if len(placed.cards) > 1 else placed.link


def format_placed(placed: Placed) -> str:
    """Returns the text of the annotation, in one line."""
    return msgspec.json.encode(placed).decode()


def fitted(placed: Placed) -> Placed:
    """Returns the choice without the last sets of later pods, if the annotation would be too long to be read again."""
    later, excess = placed.later, len(format_placed(placed)) - MOST_CHARACTERS
    if later is None or excess <= 0:
        return placed
    kept = list(later.sets)
    while kept and excess > 0:
        excess -= len(msgspec.json.encode(kept.pop()).decode()) + len(",")
    fewer = msgspec.structs.replace(later, sets=tuple(kept)) if kept else None
    return msgspec.structs.replace(placed, later=fewer)


def read_placed(annotations: Mapping[str, str]) -> Placed | None:
    """Reads the planner's choice; None if there is none, or another program made it invalid."""
    text = annotations.get(names.PLACED)
    if text is None or len(text) > MOST_CHARACTERS:
        return None
    try:
        placed = decode(_DECODER, text)
    except msgspec.DecodeError:
        return None
    return placed if _is_possible(placed) else None


def _is_possible(placed: Placed) -> bool:
    """Returns whether the planner can have chosen this."""
    count, later = len(placed.cards), placed.later.sets if placed.later else ()
    if not all(held.cards and all(amount >= 0 for amount in (held.amounts or {}).values()) for held in later):
        return False
    held = sum(len(each.cards) for each in later)
    others = len(placed.gave_up) + len(placed.refused) + sum(len(each.amounts or ()) for each in later)
    return 0 < count <= MOST_CARDS and placed.attempt > 0 and held <= MOST_CARDS and others <= MOST_OTHERS
