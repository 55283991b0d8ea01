"""The annotation ``gpu.topology/placed``: the planner's choice for a pod, as compact JSON."""

from collections.abc import Mapping

import msgspec

from webhook.words import names
from webhook.words.nesting import decode

MOST_CHARACTERS = 32 * 1024
MOST_CARDS = 256
"""The most cards of one pod."""
MOST_OTHERS = 2048
"""The most requirements and nodes in one annotation, of which a user may write ten thousand short ones."""
UNKNOWN_LINK = "unknown"
"""The link class of a set whose links the node does not tell; its bandwidth is then written as 0."""


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
    others = len(placed.gave_up) + len(placed.refused)
    return 0 < len(placed.cards) <= MOST_CARDS and placed.attempt > 0 and others <= MOST_OTHERS
