"""The marks of the picture: a letter for each pod on a node, and two characters for each card."""

import string
from collections.abc import Iterable, Mapping
from typing import Final

from webhook.insight.overview.model import Card, CardState, Health, Node

MORE = "#"
"""The mark of pods beyond the letters, and of more than nine pods on one card."""
_LETTERS = string.ascii_lowercase
FREE, UNKNOWN = ".", "?"
SIGNS: Final[Mapping[Health, str]] = {
    Health.OK: " ",
    Health.LINKS_DOWN: "!",
    Health.BROKEN: "x",
    Health.CORDONED: "-",
    Health.UNKNOWN: "?",
}
MIG = "/"
_STYLES: Final[Mapping[CardState, str]] = {
    CardState.FREE: "green",
    CardState.HELD: "bold",
    CardState.SHARED: "yellow",
    CardState.CHOSEN: "magenta",
    CardState.UNKNOWN: "dim",
}
_SIGN_STYLES: Final[Mapping[str, str]] = {"!": "bold red", "x": "bold red", "-": "yellow", "?": "dim", MIG: "cyan"}
Cell = tuple[tuple[str, str], tuple[str, str]]
"""The two characters of a card, each with its style."""


def marks(node: Node) -> dict[str, str]:
    """Return the letter of each pod with a whole card of a node, by key, in the order of their first cards."""
    whole = (card for card in node.cards if card.state in (CardState.HELD, CardState.CHOSEN))
    keys = dict.fromkeys(key for card in whole for key in card.holders)
    return {key: _LETTERS[place] if place < len(_LETTERS) else MORE for place, key in enumerate(keys)}


def cell(card: Card, letters: Mapping[str, str]) -> Cell:
    """Return the two characters of a card: its pods, and its health."""
    sign = sign_of(card)
    return (who_has(card, letters), _STYLES[card.state]), (sign, _SIGN_STYLES.get(sign, ""))


def sign_of(card: Card) -> str:
    """Return the character for the health of a card: a blank if all is well."""
    return MIG if card.is_mig and card.health is Health.OK else SIGNS[card.health]


def who_has(card: Card, letters: Mapping[str, str]) -> str:
    """Return the character for the pods of a card: a letter (capital if chosen), a number of sharers, or a sign."""
    if card.state is CardState.SHARED:
        return str(len(card.holders)) if len(card.holders) < 10 else MORE
    if card.state is CardState.FREE:
        return FREE
    if not card.holders:
        return UNKNOWN
    letter = letters.get(card.holders[0], MORE)
    return letter.upper() if card.state is CardState.CHOSEN else letter


def used(cells: Iterable[Cell]) -> set[str]:
    """Return the first and the second characters, as ``1x`` and ``2x``, for the legend."""
    return {f"{place}{text[0]}" for each in cells for place, text in enumerate(each, start=1)}
