"""The annotation ``gpu.topology/placed``: what the planner chose for a pod, as compact JSON."""

from collections.abc import Mapping

import msgspec

from webhook.model import names

MOST_CHARACTERS = 32 * 1024
MOST_CARDS = 256


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


_DECODER = msgspec.json.Decoder(Placed)


def format_placed(placed: Placed) -> str:
    """The text of the annotation, in one line."""
    return msgspec.json.encode(placed).decode()


def read_placed(annotations: Mapping[str, str]) -> Placed | None:
    """What the planner chose; None if it chose nothing, or another program changed it to what it cannot be."""
    text = annotations.get(names.PLACED)
    if text is None or len(text) > MOST_CHARACTERS:
        return None
    try:
        placed = _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return placed if 0 < len(placed.cards) <= MOST_CARDS and placed.attempt > 0 else None
