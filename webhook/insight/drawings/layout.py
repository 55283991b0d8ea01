"""The NVLinks of a node, and the lines and boxes that draw them: GPUs in one or two rows, and the links between them.

Lengths are units of the picture; y grows downwards.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from webhook.hardware.topology.model import NVSWITCH, MigMode, NodeTopology
from webhook.words.listing import counted

WIDTH, HEIGHT = 34.0, 38.0
"""Size of the box of a GPU."""
_GAP, _EDGE = 7.0, 2.0
_BUNDLE, _BAR = 15.0, 9.0
"""Height of the links between a GPU and the bar of the switches, and height of that bar."""
_CROSSING, _APART = 54.0, 8.0
"""Distance of two rows with links between them, and without links."""
_ONE_ROW = 4


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """The NVLinks between two GPUs of a node, or of one GPU to the switches."""

    one: int
    """Index of a GPU."""
    other: int | None
    """Index of the other GPU, which is greater; None for the switches."""
    count: int
    """Links, up or not."""
    active: int
    """Links that are up, as both ends say."""

    @property
    def lost(self) -> int:
        """Links that are down."""
        return max(self.count - self.active, 0)

    @property
    def sentence(self) -> str:
        """The number of links that are up, in words."""
        other = "the switches" if self.other is None else f"GPU{self.other}"
        return f"GPU{self.one} - {other}: {self.active} of {counted(self.count, 'NVLink')} up"

    @property
    def width(self) -> str:
        """The class of the line between two GPUs, by the number of links, which the legend explains."""
        return "most" if self.count > 3 else "more" if self.count > 1 else "few"


def nvlinks(topology: NodeTopology) -> Iterator[Link]:
    """Yields the links of each GPU, those between two GPUs once; a GPU in MIG mode has none."""
    usable = {gpu.label: gpu for gpu in topology.gpus if gpu.mig_mode is not MigMode.ENABLED}
    for gpu in usable.values():
        for link in gpu.nvlinks:
            other = usable.get(link.target)
            if link.target == NVSWITCH:
                yield Link(one=gpu.index, other=None, count=link.count, active=link.active)
            elif other is not None and gpu.index < other.index:
                active = min(gpu.links_to(other.label), other.links_to(gpu.label))
                yield Link(one=gpu.index, other=other.index, count=link.count, active=active)


class Box(NamedTuple):
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float


class Stroke(NamedTuple):
    """A line of the picture."""

    class_: str
    points: str
    """The data of a path."""
    title: str = ""
    width: float = 0.0
    """Width of the line; 0: the width of its class."""
    dashes: str = ""


class Layout(NamedTuple):
    """The boxes of the GPUs and the lines of the links."""

    width: float
    height: float
    rows: int
    boxes: Mapping[int, Box]
    """The box of each GPU, by its index."""
    bar: Box | None
    """The bar of the switches; None without switches."""
    strokes: tuple[Stroke, ...]
    """The links of each GPU to the switches, and those between two GPUs."""


class _Place(NamedTuple):
    x: float
    row: int
    edge: float
    """The y of the side from which links leave."""


_Places = Mapping[int, _Place]


def lay_out(indices: Sequence[int], links: Sequence[Link]) -> Layout:
    """Returns the places of GPUs and the lines of their links.

    Args:
        indices: The indices of the GPUs, in their order.
        links: The links. Those of other GPUs are left out.
    """
    total = max(len(indices), 1)
    per_row = total if total <= _ONE_ROW else (total + 1) // 2
    rows = 1 if total <= _ONE_ROW else 2
    middle = _middle(links, rows)
    places = {}
    for position, index in enumerate(indices):
        row, column = divmod(position, per_row)
        edge = _EDGE + HEIGHT if row == 0 else _EDGE + HEIGHT + middle
        places[index] = _Place(_EDGE + column * (WIDTH + _GAP), row, edge)
    known = [link for link in links if {link.one, link.other} - {None} <= places.keys() and link.count > 0]
    switched = [link for link in known if link.other is None]
    bar_width = max((place.x for place in places.values()), default=0.0) + WIDTH - _EDGE
    return Layout(
        # So that GPUs of all nodes are of one size.
        width=2 * _EDGE + max(per_row, _ONE_ROW) * (WIDTH + _GAP) - _GAP,
        height=2 * _EDGE + rows * HEIGHT + middle,
        rows=rows,
        boxes={
            index: Box(place.x, place.edge - HEIGHT if place.row == 0 else place.edge, WIDTH, HEIGHT)
            for index, place in places.items()
        },
        bar=Box(_EDGE, _EDGE + HEIGHT + _BUNDLE, bar_width, _BAR) if switched else None,
        strokes=(
            *(stroke for link in switched for stroke in _bundle(link, places[link.one])),
            *_curves([link for link in known if link.other is not None], places, middle),
        ),
    )


def _middle(links: Sequence[Link], rows: int) -> float:
    """Returns the height of the space between the rows, or below the only row."""
    if any(link.other is None for link in links):
        return _BAR + _BUNDLE * rows
    if links:
        return _CROSSING if rows > 1 else _CROSSING / 2
    return _APART if rows > 1 else 0.0


def _bundle(link: Link, place: _Place) -> Iterator[Stroke]:
    """Yields strokes for the links of a GPU to the switches.

    Each link is a dash of a horizontal line, whose width is the length of the links.
    """
    step = (WIDTH - 6) / link.count
    y = place.edge + (_BUNDLE / 2 if place.row == 0 else -_BUNDLE / 2)
    dashes = f"{step * 0.55:.2f} {step * 0.45:.2f}"

    def line(class_: str, first: int, number: int, title: str = "") -> Stroke:
        path = f"M{place.x + 3 + first * step:.1f} {y:.1f}h{number * step:.1f}"
        return Stroke(class_, path, title, _BUNDLE, dashes)

    if link.active:
        yield line("up", 0, min(link.active, link.count))
    if link.lost:
        yield line("down", link.active, link.lost, link.sentence)


def _curves(links: Sequence[Link], places: _Places, middle: float) -> Iterator[Stroke]:
    ports = _ports(links, places)
    for link in sorted(links, key=lambda each: each.lost > 0):  # links that lost something on top
        title = link.sentence if link.lost else ""
        yield from _curve(link, places, middle, ports, f"link {link.width}{' lost' if link.lost else ''}", title)


def _ports(links: Sequence[Link], places: _Places) -> dict[tuple[int, int], float]:
    """Returns the x at which the link of a GPU to another GPU begins, by both indices.

    Links to GPUs on the left begin on the left.
    """
    found: dict[tuple[int, int], float] = {}
    for index, place in places.items():
        peers = [link.other if link.one == index else link.one for link in links if index in (link.one, link.other)]
        ordered = sorted((peer for peer in peers if peer is not None), key=lambda peer: places[peer].x)
        step = WIDTH / (len(ordered) + 1)
        found |= {(index, peer): place.x + step * (position + 1) for position, peer in enumerate(ordered)}
    return found


def _curve(
    link: Link, places: _Places, middle: float, ports: Mapping[tuple[int, int], float], class_: str, title: str
) -> Iterator[Stroke]:
    if link.other is None:
        return
    one, other = places[link.one], places[link.other]
    x1, x2 = ports[link.one, link.other], ports[link.other, link.one]
    if one.row == other.row:
        depth = min(middle * 0.95, 12 + 7 * (abs(one.x - other.x) / (WIDTH + _GAP)))
        y = one.edge + (depth if one.row == 0 else -depth)
    else:
        y = (one.edge + other.edge) / 2
    path = f"M{x1:.1f} {one.edge:.1f}C{x1:.1f} {y:.1f} {x2:.1f} {y:.1f} {x2:.1f} {other.edge:.1f}"
    yield Stroke(class_, path, title)
    if not link.active:
        x, centre = (x1 + x2) / 2, (one.edge + 6 * y + other.edge) / 8
        yield Stroke("cross", f"M{x - 3:.1f} {centre - 3:.1f}l6 6m0 -6l-6 6")
