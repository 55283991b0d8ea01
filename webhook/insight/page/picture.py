"""The picture of a node on the page: what the cards show of pods and health."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from webhook.insight.drawings.elements import Box
from webhook.insight.drawings.layout import HEIGHT, WIDTH, Stroke, lay_out
from webhook.insight.drawings.links import Link
from webhook.insight.overview.model import Card, CardState, Health, Node, Pod
from webhook.insight.page.holders import hue, mark
from webhook.insight.page.markup import encoded
from webhook.insight.page.words import Words
from webhook.words.listing import ranges

MOST_HOLDERS = 32
"""Pods of one card that are shown at most: a user who creates pods can make thousands of them claim one card."""
_MOST_NAMED = 8
"""Pods that the tooltip of a card names at most."""
_TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class DrawnCard:
    """A card of the picture."""

    index: int
    box: Box
    class_: str
    title: str
    mark: str
    signs: tuple[Stroke, ...]
    holders: str
    is_mig: bool


class Picture(NamedTuple):
    """A node as it is drawn."""

    width: float
    height: float
    rows: int
    bundles: tuple[Stroke, ...]
    bar: Box | None
    """The bar of the switches; None without switches."""
    curves: tuple[Stroke, ...]
    cards: tuple[DrawnCard, ...]


def picture(node: Node, pods: Mapping[str, Pod], words: Words) -> Picture:
    """Returns the node as it is drawn.

    Args:
        node: The node.
        pods: The pods that hold its cards, by key.
        words: The texts.
    """
    found = lay_out([card.index for card in node.cards], node.links, partial(link_words, words=words))
    return Picture(
        width=found.width,
        height=found.height,
        rows=found.rows,
        bundles=found.bundles,
        bar=found.bar,
        curves=found.curves,
        cards=tuple(_card(card, found.boxes[card.index], pods, words) for card in node.cards),
    )


def describe(node: Node, words: Words) -> Iterator[str]:
    """Yields the contents of the picture in sentences."""
    states = {state: [card.index for card in node.cards if card.state is state] for state in CardState}
    for state, indices in states.items():
        if indices:
            yield words("picture.cards", cards=ranges(indices), state=words(f"state.{state}"))
    for card in node.cards:
        if card.health not in (Health.OK, Health.UNKNOWN):
            yield words("picture.card", card=card.index, health=words(f"health.{card.health}"))
    yield words(f"nvlink.{node.nvlink}.sentence")
    yield from (link_words(link, words) for link in node.links if link.lost)


def link_words(link: Link, words: Words) -> str:
    """Returns the number of links that are up between two cards, or between a card and the switches, in words."""
    other = words("link.switches") if link.other is None else f"GPU{link.other}"
    return words("link.up", one=f"GPU{link.one}", other=other, active=link.active, count=link.count)


def _card(card: Card, box: Box, pods: Mapping[str, Pod], words: Words) -> DrawnCard:
    holders = [pods[key] for key in card.holders if key in pods]
    first = holders[0] if holders else None
    return DrawnCard(
        index=card.index,
        box=box,
        class_=" ".join(filter(None, ("card", f"s-{card.state}", f"c-{card.health}", hue(first) if first else ""))),
        title=tooltip(card, words),
        mark=_mark(card, first),
        signs=tuple(_signs(card, box)),
        holders=encoded(card.holders[:MOST_HOLDERS]) if card.holders else "",
        is_mig=card.is_mig,
    )


def _mark(card: Card, first: Pod | None) -> str:
    if card.state is CardState.UNKNOWN:
        return "?"
    if card.state is CardState.SHARED and len(card.holders) > 1:
        return f"{_TIMES}{len(card.holders)}"
    if first:
        return mark(first)
    return "" if card.state is CardState.FREE else "··"


def _signs(card: Card, box: Box) -> Iterator[Stroke]:
    """Yields the signs that show state and health of a card without colour."""
    x, y = box.x, box.y
    if card.state is CardState.SHARED:
        yield Stroke("slices", f"M{x + 1:g} {box.bottom - 6:g}h{WIDTH - 2:g}")
    if card.health is Health.BROKEN:
        wide, high = WIDTH - 12, HEIGHT - 18
        yield Stroke("broken", f"M{x + 6:g} {y + 13:g}l{wide:g} {high:g}m0 {-high:g}l{-wide:g} {high:g}")
    elif card.health is Health.CORDONED:
        bars = (f"M{x + 6 + 8 * bar:g} {box.bottom - 3:g}l6 {6 - HEIGHT:g}" for bar in range(3))
        yield Stroke("cordon", "".join(bars))
    elif card.health is Health.LINKS_DOWN:
        yield Stroke("alarm", f"M{box.right - 11:g} {y + 11:g}h9l-4.5 -8z")


def tooltip(card: Card, words: Words) -> str:
    """Returns everything about a card in one line."""
    named = [*card.holders[:_MOST_NAMED], *(["…"] if len(card.holders) > _MOST_NAMED else [])]
    state = words(f"state.{card.state}") + (f": {', '.join(named)}" if named else "")
    health = "" if card.health is Health.OK else words(f"health.{card.health}")
    parts = (f"GPU{card.index}", card.product, "MIG" if card.is_mig else "", state, health, card.why)
    return " · ".join(filter(None, parts))
