"""The picture of a node: its cards in one or two rows, and the NVLinks between them or to the switches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from webhook.insight.drawings.elements import Box
from webhook.insight.drawings.links import Link
from webhook.insight.overview.model import Card, CardState, Health, Node, Pod
from webhook.insight.page.holders import hue, mark
from webhook.insight.page.markup import encoded
from webhook.insight.page.words import Words
from webhook.words.listing import ranges

_WIDTH, _HEIGHT, _GAP, _EDGE = 34.0, 38.0, 7.0, 2.0
_BUNDLE, _BAR = 15.0, 9.0
"""Height of the links between a card and the bar of the switches, and height of that bar."""
_CROSSING, _APART = 54.0, 8.0
"""Distance of two rows with links between them, and without links."""
_ONE_ROW = 4
_LEVELS = ("most", "more", "few")
"""Classes of links between two cards, by number of links."""
MOST_HOLDERS = 32
"""Pods of one card that are shown at most: a user who creates pods can make thousands of them claim one card."""
_MOST_NAMED = 8
"""Pods that the tooltip of a card names at most."""
_TIMES = "\N{MULTIPLICATION SIGN}"


class Stroke(NamedTuple):
    """A line of the picture."""

    class_: str
    points: str
    """The data of a path."""
    title: str = ""
    width: float = 0.0
    """Width of the line; 0: the width of its class."""
    dashes: str = ""


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


class _Place(NamedTuple):
    x: float
    row: int
    edge: float
    """The y of the side from which links leave."""


class _Layout(NamedTuple):
    places: Mapping[int, _Place]
    rows: int
    width: float
    height: float
    middle: float
    """Height of the space between the rows, or below the only row."""


def picture(node: Node, pods: Mapping[str, Pod], words: Words) -> Picture:
    """Returns the node as it is drawn.

    Args:
        node: The node.
        pods: The pods that hold its cards, by key.
        words: The texts.
    """
    layout = _layout(node)
    known = [link for link in node.links if {link.one, link.other} - {None} <= layout.places.keys() and link.count > 0]
    switched = [link for link in known if link.other is None]
    bar_width = max((place.x for place in layout.places.values()), default=0.0) + _WIDTH - _EDGE
    bar = Box(_EDGE, _EDGE + _HEIGHT + _BUNDLE, bar_width, _BAR) if switched else None
    return Picture(
        width=layout.width,
        height=layout.height,
        rows=layout.rows,
        bundles=tuple(stroke for link in switched for stroke in _bundle(link, layout, words)),
        bar=bar,
        curves=tuple(_curves([link for link in known if link.other is not None], layout, words)),
        cards=tuple(_card(card, layout, pods, words) for card in node.cards),
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


def _layout(node: Node) -> _Layout:
    total = max(len(node.cards), 1)
    per_row = total if total <= _ONE_ROW else (total + 1) // 2
    rows = 1 if total <= _ONE_ROW else 2
    middle = _middle(node.links, rows)
    places = {}
    for position, card in enumerate(node.cards):
        row, column = divmod(position, per_row)
        edge = _EDGE + _HEIGHT if row == 0 else _EDGE + _HEIGHT + middle
        places[card.index] = _Place(_EDGE + column * (_WIDTH + _GAP), row, edge)
    width = 2 * _EDGE + max(per_row, _ONE_ROW) * (_WIDTH + _GAP) - _GAP  # so that cards of all nodes are of one size
    return _Layout(places, rows, width, 2 * _EDGE + rows * _HEIGHT + middle, middle)


def _middle(links: Sequence[Link], rows: int) -> float:
    if any(link.other is None for link in links):
        return _BAR + _BUNDLE * rows
    if links:
        return _CROSSING if rows > 1 else _CROSSING / 2
    return _APART if rows > 1 else 0.0


def _bundle(link: Link, layout: _Layout, words: Words) -> Iterator[Stroke]:
    """Yields strokes for the links of a card to the switches.

    Each link is a dash of a horizontal line, whose width is the length of the links.
    """
    place = layout.places[link.one]
    step = (_WIDTH - 6) / link.count
    y = place.edge + (_BUNDLE / 2 if place.row == 0 else -_BUNDLE / 2)
    dashes = f"{step * 0.55:.2f} {step * 0.45:.2f}"

    def line(class_: str, first: int, number: int, title: str = "") -> Stroke:
        path = f"M{place.x + 3 + first * step:.1f} {y:.1f}h{number * step:.1f}"
        return Stroke(class_, path, title, _BUNDLE, dashes)

    if link.active:
        yield line("up", 0, min(link.active, link.count))
    if link.lost:
        yield line("down", link.active, link.lost, link_words(link, words))


def _curves(links: Sequence[Link], layout: _Layout, words: Words) -> Iterator[Stroke]:
    counts = sorted({link.count for link in links}, reverse=True)
    ports = _ports(links, layout)
    for link in sorted(links, key=lambda each: each.lost > 0):  # links that lost something on top
        level = _LEVELS[min(counts.index(link.count), len(_LEVELS) - 1)]
        yield from _curve(link, layout, ports, level, words)


def _ports(links: Sequence[Link], layout: _Layout) -> dict[tuple[int, int], float]:
    """Returns the x at which the link of a card to another card begins, by both indices.

    Links to cards on the left begin on the left.
    """
    found: dict[tuple[int, int], float] = {}
    for index, place in layout.places.items():
        peers = [link.other if link.one == index else link.one for link in links if index in (link.one, link.other)]
        ordered = sorted((peer for peer in peers if peer is not None), key=lambda peer: layout.places[peer].x)
        step = _WIDTH / (len(ordered) + 1)
        found |= {(index, peer): place.x + step * (position + 1) for position, peer in enumerate(ordered)}
    return found


def _curve(
    link: Link, layout: _Layout, ports: Mapping[tuple[int, int], float], level: str, words: Words
) -> Iterator[Stroke]:
    if link.other is None:
        return
    one, other = layout.places[link.one], layout.places[link.other]
    x1, x2 = ports[link.one, link.other], ports[link.other, link.one]
    if one.row == other.row:
        depth = min(layout.middle * 0.95, 12 + 7 * (abs(one.x - other.x) / (_WIDTH + _GAP)))
        y = one.edge + (depth if one.row == 0 else -depth)
    else:
        y = (one.edge + other.edge) / 2
    path = f"M{x1:.1f} {one.edge:.1f}C{x1:.1f} {y:.1f} {x2:.1f} {y:.1f} {x2:.1f} {other.edge:.1f}"
    yield Stroke(f"link {level}{' lost' if link.lost else ''}", path, link_words(link, words) if link.lost else "")
    if not link.active:
        x, centre = (x1 + x2) / 2, (one.edge + 6 * y + other.edge) / 8
        yield Stroke("cross", f"M{x - 3:.1f} {centre - 3:.1f}l6 6m0 -6l-6 6")


def _card(card: Card, layout: _Layout, pods: Mapping[str, Pod], words: Words) -> DrawnCard:
    place = layout.places[card.index]
    y = place.edge - _HEIGHT if place.row == 0 else place.edge
    holders = [pods[key] for key in card.holders if key in pods]
    first = holders[0] if holders else None
    box = Box(place.x, y, _WIDTH, _HEIGHT)
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
        yield Stroke("slices", f"M{x + 1:g} {box.bottom - 6:g}h{_WIDTH - 2:g}")
    if card.health is Health.BROKEN:
        wide, high = _WIDTH - 12, _HEIGHT - 18
        yield Stroke("broken", f"M{x + 6:g} {y + 13:g}l{wide:g} {high:g}m0 {-high:g}l{-wide:g} {high:g}")
    elif card.health is Health.CORDONED:
        bars = (f"M{x + 6 + 8 * bar:g} {box.bottom - 3:g}l6 {6 - _HEIGHT:g}" for bar in range(3))
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
