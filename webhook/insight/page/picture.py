"""The picture of a node: its cards in one or two rows, and the NVLinks between them or to the switches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from webhook.overview.model import Card, CardState, Health, Link, Node, Pod
from webhook.page.holders import hue, mark
from webhook.page.tree import TIMES, Child, Element, el
from webhook.page.words import Words

_WIDTH, _HEIGHT, _GAP, _EDGE = 34.0, 38.0, 7.0, 2.0
_BUNDLE, _BAR = 15.0, 9.0
"""Height of the links between a card and the bar of the switches, and of that bar."""
_CROSSING, _APART = 54.0, 8.0
"""Between two rows with links between them, and without."""
_ONE_ROW = 4
_LEVELS = ("most", "more", "few")
"""Classes of links by their number between two cards."""
MOST_HOLDERS = 32
"""Pods of one card that are told. Who may create pods can have thousands of them claim one."""
_MOST_NAMED = 8
"""Pods that the tooltip of a card names."""


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
    """Height of what is between the rows, or below the only one."""


def picture(node: Node, pods: Mapping[str, Pod], words: Words, id_: str) -> Element:
    """The node as SVG, with a title and a description.

    Args:
        node: What to draw.
        pods: Those that hold its cards, by key.
        words: The texts.
        id_: Unique on the page.
    """
    layout = _layout(node)
    return el(
        "svg",
        el("title", words("picture.title", node=node.name), id=f"{id_}t"),
        el("desc", " ".join(describe(node, words)), id=f"{id_}d"),
        *_links(node, layout, words),
        *(_card(card, layout, pods, words) for card in node.cards),
        viewBox=f"0 0 {layout.width:g} {layout.height:g}",
        role="img",
        aria_labelledby=f"{id_}t",
        aria_describedby=f"{id_}d",
        class_=f"picture rows{layout.rows}",
    )


def describe(node: Node, words: Words) -> Iterator[str]:
    """What the picture shows, in sentences."""
    states = {state: [card.index for card in node.cards if card.state is state] for state in CardState}
    for state, indices in states.items():
        if indices:
            yield words("picture.cards", cards=spans(indices), state=words(f"state.{state}"))
    for card in node.cards:
        if card.health not in (Health.OK, Health.UNKNOWN):
            yield words("picture.card", card=card.index, health=words(f"health.{card.health}"))
    yield words(f"nvlink.{node.nvlink}.sentence")
    for link in lost(node.links):
        yield link_words(link, words)


def lost(links: Iterable[Link]) -> list[Link]:
    """Those of which some are down."""
    return [link for link in links if link.active < link.count]


def number_lost(links: Iterable[Link]) -> int:
    """How many links are down."""
    return sum(link.count - link.active for link in lost(links))


def link_words(link: Link, words: Words) -> str:
    """How many links are up, and between what."""
    other = words("link.switches") if link.other is None else f"GPU{link.other}"
    return words("link.up", one=f"GPU{link.one}", other=other, active=link.active, count=link.count)


def spans(indices: Sequence[int]) -> str:
    """``0-3, 6`` for 0, 1, 2, 3 and 6."""
    found: list[list[int]] = []
    for index in sorted(indices):
        if found and found[-1][-1] == index - 1:
            found[-1].append(index)
        else:
            found.append([index])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)


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


def _links(node: Node, layout: _Layout, words: Words) -> Iterator[Element]:
    known = [link for link in node.links if {link.one, link.other} - {None} <= layout.places.keys() and link.count > 0]
    switched = [link for link in known if link.other is None]
    for link in switched:
        yield from _bundle(link, layout, words)
    if switched:
        y = _EDGE + _HEIGHT + _BUNDLE
        yield el("rect", x=_EDGE, y=y, width=_bar(layout), height=_BAR, rx=2, class_="switches")
    direct = [link for link in known if link.other is not None]
    counts = sorted({link.count for link in direct}, reverse=True)
    ports = _ports(direct, layout)
    for link in sorted(direct, key=lambda each: each.active < each.count):  # the lost ones on top
        level = _LEVELS[min(counts.index(link.count), len(_LEVELS) - 1)]
        yield from _curve(link, layout, ports, level, words)


def _bar(layout: _Layout) -> float:
    """The width of the bar of the switches."""
    return max(place.x for place in layout.places.values()) + _WIDTH - _EDGE


def _bundle(link: Link, layout: _Layout, words: Words) -> Iterator[Element]:
    """One stroke for each link: the dashes of a line that is as wide as the links are long."""
    place = layout.places[link.one]
    step = (_WIDTH - 6) / link.count
    y = place.edge + (_BUNDLE / 2 if place.row == 0 else -_BUNDLE / 2)
    dashes = f"{step * 0.55:.2f} {step * 0.45:.2f}"

    def line(first: int, number: int, class_: str, *children: Child) -> Element:
        path = f"M{place.x + 3 + first * step:.1f} {y:.1f}h{number * step:.1f}"
        return el("path", *children, d=path, stroke_width=_BUNDLE, stroke_dasharray=dashes, class_=class_)

    if link.active:
        yield line(0, min(link.active, link.count), "up")
    if link.active < link.count:
        yield line(link.active, link.count - link.active, "down", el("title", link_words(link, words)))


def _ports(links: Sequence[Link], layout: _Layout) -> dict[tuple[int, int], float]:
    """Where the link of a card to another one begins, by both indices; those to the left begin on the left."""
    found: dict[tuple[int, int], float] = {}
    for index, place in layout.places.items():
        peers = [link.other if link.one == index else link.one for link in links if index in (link.one, link.other)]
        ordered = sorted((peer for peer in peers if peer is not None), key=lambda peer: layout.places[peer].x)
        step = _WIDTH / (len(ordered) + 1)
        found |= {(index, peer): place.x + step * (position + 1) for position, peer in enumerate(ordered)}
    return found


def _curve(
    link: Link, layout: _Layout, ports: Mapping[tuple[int, int], float], level: str, words: Words
) -> Iterator[Element]:
    if link.other is None:
        return
    one, other = layout.places[link.one], layout.places[link.other]
    x1, x2 = ports[link.one, link.other], ports[link.other, link.one]
    if one.row == other.row:
        depth = min(layout.middle * 0.95, 12 + 7 * (abs(one.x - other.x) / (_WIDTH + _GAP)))
        y = one.edge + (depth if one.row == 0 else -depth)
    else:
        y = (one.edge + other.edge) / 2
    is_lost = link.active < link.count
    title = el("title", link_words(link, words)) if is_lost else None
    path = f"M{x1:.1f} {one.edge:.1f}C{x1:.1f} {y:.1f} {x2:.1f} {y:.1f} {x2:.1f} {other.edge:.1f}"
    yield el("path", title, d=path, class_=f"link {level}" + (" lost" if is_lost else ""))
    if not link.active:
        x, centre = (x1 + x2) / 2, (one.edge + 6 * y + other.edge) / 8
        yield el("path", d=f"M{x - 3:.1f} {centre - 3:.1f}l6 6m0 -6l-6 6", class_="cross")


def _card(card: Card, layout: _Layout, pods: Mapping[str, Pod], words: Words) -> Element:
    place = layout.places[card.index]
    y = place.edge - _HEIGHT if place.row == 0 else place.edge
    holders = [pods[key] for key in card.holders if key in pods]
    first = holders[0] if holders else None
    classes = " ".join(filter(None, ("card", f"s-{card.state}", f"c-{card.health}", hue(first) if first else "")))
    return el(
        "g",
        el("title", tooltip(card, words)),
        el("rect", x=place.x, y=y, width=_WIDTH, height=_HEIGHT, rx=4),
        *_signs(card, place.x, y),
        el("text", str(card.index), x=place.x + 4, y=y + 10, class_="index"),
        el("text", _mark(card, first), x=place.x + _WIDTH / 2, y=y + 27, class_="mark"),
        class_=classes,
        data_pods=encoded(card.holders[:MOST_HOLDERS]) if card.holders else None,
    )


def _mark(card: Card, first: Pod | None) -> str:
    if card.state is CardState.UNKNOWN:
        return "?"
    if card.state is CardState.SHARED and len(card.holders) > 1:
        return f"{TIMES}{len(card.holders)}"
    if first:
        return mark(first)
    return "" if card.state is CardState.FREE else "··"


def _signs(card: Card, x: float, y: float) -> Iterator[Element]:
    """What says without colour how a card is."""
    if card.state is CardState.SHARED:
        yield el("path", d=f"M{x + 1:g} {y + _HEIGHT - 6:g}h{_WIDTH - 2:g}", class_="slices")
    if card.health is Health.BROKEN:
        wide, high = _WIDTH - 12, _HEIGHT - 18
        across = f"M{x + 6:g} {y + 13:g}l{wide:g} {high:g}m0 {-high:g}l{-wide:g} {high:g}"
        yield el("path", d=across, class_="broken")
    elif card.health is Health.CORDONED:
        bars = "".join(f"M{x + 6 + 8 * bar:g} {y + _HEIGHT - 3:g}l6 {6 - _HEIGHT:g}" for bar in range(3))
        yield el("path", d=bars, class_="cordon")
    elif card.health is Health.LINKS_DOWN:
        yield el("path", d=f"M{x + _WIDTH - 11:g} {y + 11:g}h9l-4.5 -8z", class_="alarm")
    if card.is_mig:
        yield el("text", "MIG", x=x + _WIDTH - 3, y=y + _HEIGHT - 3, class_="mig")


def tooltip(card: Card, words: Words) -> str:
    """What is known of a card, in one line."""
    named = [*card.holders[:_MOST_NAMED], *(["…"] if len(card.holders) > _MOST_NAMED else [])]
    state = words(f"state.{card.state}") + (f": {', '.join(named)}" if named else "")
    health = "" if card.health is Health.OK else words(f"health.{card.health}")
    parts = (f"GPU{card.index}", card.product, "MIG" if card.is_mig else "", state, health, card.why)
    return " · ".join(filter(None, parts))


def encoded(names: Sequence[str]) -> str:
    """A list for the script, as JSON."""
    return msgspec.json.encode(names).decode()
