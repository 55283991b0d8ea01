"""The middle of the picture: the NVLinks, the NVSwitches, and the ring of the chosen set."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from webhook.hardware.topology.connections import Connections, PathType, nvlink_rate
from webhook.hardware.topology.model import NVSWITCH, NodeTopology
from webhook.hardware.topology.sets import GpuSet
from webhook.insight.drawings.curves import CROSSING, Edge, Ranks, bundle, crosses, curves, edges, reach
from webhook.insight.drawings.elements import BOLD, Box, fit, group, path, rounded, text, tooltip, width_of
from webhook.insight.drawings.layout import Layout, Rows, ranks
from webhook.insight.drawings.legend import Entry
from webhook.insight.drawings.links import Link, nvlinks
from webhook.insight.drawings.palette import NVLINK_SHADES
from webhook.words.listing import counted

_BUNDLE, _BAR = 62.0, 40.0
"""Height of the lines between GPUs and NVSwitches, and of the bar that stands for the NVSwitches."""
_APART, _ROOM = 36.0, 18.0
"""Distance of two rows with nothing between them, and distance of an arc from the other row."""
_PILL = 12.0
"""Room for the ends of the background of a text on the bar."""
_THICKEST, _THICK = 13.0, 2.6
"""Largest width of a curve, and of one link in it."""


@dataclass(frozen=True, slots=True)
class Middle:
    """The contents of the space between the GPUs of a node."""

    topology: NodeTopology
    edges: tuple[Edge, ...]
    """Direct links, and hops of the ring between GPUs without a direct link."""
    ranks: Ranks
    rows: int
    chosen: frozenset[int]
    """Indices of the chosen GPUs; empty if there are none."""

    @property
    def switched(self) -> list[Link]:
        """Links to NVSwitches, up or not."""
        return [link for link in nvlinks(self.topology) if link.other is None]

    @property
    def height(self) -> float:
        """Height that the middle needs."""
        if self.switched:
            return _BAR + _BUNDLE * self.rows
        arcs = [depth for row in range(self.rows) if (depth := reach(self.edges, self.ranks, row))]
        if self.rows < 2:
            return arcs[0] + _ROOM if arcs else 0.0
        least = CROSSING if crosses(self.edges, self.ranks) else _APART
        return max(least, sum(arcs) + 2 * _ROOM if arcs else 0.0)


def middle(topology: NodeTopology, chosen: GpuSet | None, rows: Rows) -> Middle:
    """Returns the contents of the middle for these rows."""
    members = frozenset(chosen.gpus if chosen else ())
    return Middle(topology, tuple(edges(topology, chosen)), ranks(rows), len(rows), members)


def draw_middle(found: Middle, layout: Layout) -> list[str]:
    """Returns all lines of the middle, from the back to the front."""
    limit = _BUNDLE - _ROOM if found.switched else layout.middle.height - _ROOM
    paths = curves(found.edges, layout.cards, found.ranks, limit)
    halos = [path(paths[edge], "halo", stroke_width=width + 10) for edge, width in _direct(found) if edge.in_ring]
    return [
        *(_draw_bundles(found, layout) if found.switched else ()),
        *halos,
        *(_draw_edge(edge, paths[edge], width, found) for edge, width in _direct(found)),
        *(
            group([path(paths[edge], "casing"), path(paths[edge], "ring")], "hop")
            for edge in found.edges
            if not edge.count
        ),
        *(_draw_name(found, layout) if found.switched else ()),
    ]


def entries(found: Middle) -> Iterator[Entry]:
    """Yields the entries of the legend that the middle needs."""
    if found.switched:
        yield Entry("bundle", "one NVLink to the NVSwitches")
    widths = {edge.count: width for edge, width in _direct(found)}
    for count in sorted(widths, reverse=True):
        rates = {nvlink_rate(gpu) for gpu in found.topology.gpus if gpu.nvlinks}
        speed = f", {count * rates.pop():.1f} GB/s" if len(rates) == 1 else ""
        yield Entry("nvlink", f"{counted(count, 'NVLink')}{speed}", widths[count], _shade(count, found))
    if any(link.lost for link in found.switched):
        yield Entry("down", "NVLink that is down", 2.0)
    if any(edge.active < edge.count for edge in found.edges):
        yield Entry("down", "NVLinks, some or all of them down", 4.0)
    if any(edge.in_ring and edge.count for edge in found.edges):
        yield Entry("halo", "ring of the chosen GPUs, over NVLink", 12.0)
    if any(edge.in_ring and not edge.count for edge in found.edges):
        yield Entry("ring", "ring of the chosen GPUs")


def _direct(found: Middle) -> list[tuple[Edge, float]]:
    """Returns the edges that are NVLinks, with the width of their curve."""
    most = max((edge.count for edge in found.edges), default=0)
    return [(edge, min(_THICK, _THICKEST / most) * edge.count) for edge in found.edges if edge.count]


def _shade(count: int, found: Middle) -> str:
    counts = sorted({edge.count for edge in found.edges if edge.count}, reverse=True)
    return NVLINK_SHADES[min(counts.index(count), len(NVLINK_SHADES) - 1)]


def _draw_edge(edge: Edge, points: str, width: float, found: Middle) -> str:
    one, other = edge.ends
    words = f"GPU{one} - GPU{other}: {counted(edge.count, 'NVLink')}"
    if edge.active < edge.count:
        words += f", {edge.active} of them up"
        line = path(points, "nvlink down", stroke_width=width)
    else:
        line = path(points, "nvlink", stroke_width=width, stroke=_shade(edge.count, found))
    return _group([tooltip(words), line], found, (one, other), f"{one} {other}")


def _group(parts: Sequence[str], found: Middle, gpus: Sequence[int], ends: str) -> str:
    aside = bool(found.chosen) and not found.chosen.issuperset(gpus)
    return group(parts, "edge aside" if aside else "edge", data_ends=ends)


def _draw_bundles(found: Middle, layout: Layout) -> Iterator[str]:
    bar = _bar(layout)
    for link in found.switched:
        card = layout.cards[link.one]
        up, down = bundle(card, bar.y if card.row == 0 else bar.bottom, link.count, link.active)
        lines = [path(points, style) for points, style in ((up, "bundle"), (down, "bundle down")) if points]
        words = f"GPU{link.one}: {link.active} of {counted(link.count, 'NVLink')} to the NVSwitches up"
        yield _group([tooltip(words), *lines], found, (link.one,), f"{link.one} {NVSWITCH}")
    yield rounded(bar, "nvswitch")


def _bar(layout: Layout) -> Box:
    space = layout.middle
    return Box(space.x, space.y + _BUNDLE, space.width, _BAR)


def _draw_name(found: Middle, layout: Layout) -> Iterator[str]:
    """Yields the name of the switches, with a background that covers the hops of a ring that cross the bar."""
    bar = _bar(layout)
    switches = len(found.topology.nvswitches)
    name = f"{switches} NVSwitches" if switches > 1 else "NVSwitch"
    speed = _speed(found)
    wordings = [f"{name}, {speed} per direction between two GPUs", f"{name}, {speed}"] if speed else []
    room = bar.width - 2 * _PILL
    words = next((wording for wording in wordings if width_of(wording, 14, BOLD) <= room), fit(name, room, 14, BOLD))
    width = width_of(words, 14, BOLD) + _PILL
    yield rounded(Box(bar.center - width / 2, bar.y + 6, width, bar.height - 12), "nvswitch", 6)
    yield text(words, bar.center, bar.level + 5, "nvswitch-name")


def _speed(found: Middle) -> str:
    """Returns the bandwidth that pairs have through the switches; empty if no pair is joined by them."""
    connections = Connections(found.topology)
    pairs = [connections.direct(one.one, other.one) for one, other in combinations(found.switched, 2)]
    bandwidths = [pair.bandwidth for pair in pairs if pair.type is PathType.NVL]
    if not bandwidths:
        return ""
    least, most = min(bandwidths), max(bandwidths)
    return f"{most:.1f} GB/s" if least == most else f"{least:.1f} to {most:.1f} GB/s"
