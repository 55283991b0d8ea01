"""The picture of a node as an SVG document: its GPUs and NVLinks, and a chosen set of GPUs."""

from collections.abc import Iterator

from webhook.hardware.topology.health import node_health
from webhook.hardware.topology.model import Gpu, LostGpu, NodeTopology
from webhook.hardware.topology.sets import GpuSet
from webhook.insight.drawings.elements import (
    Box,
    description,
    element,
    fit,
    group,
    number,
    path,
    rounded,
    text,
    tooltip,
    wrap,
)
from webhook.insight.drawings.layout import Layout, Stroke, lay_out
from webhook.insight.drawings.links import Link, nvlinks
from webhook.insight.drawings.palette import STYLE
from webhook.insight.drawings.sentences import mig_gpus, names, notes, outline, properties
from webhook.words.listing import counted

_SCALE, _MARGIN, _LEAST_WIDTH = 3.0, 24.0, 540.0
_TITLE, _LINE = 42.0, 20.0
"""Base line of the title, and the distance of lines."""
_NOTES = 6
"""Notes that are shown at most. More of them would push the picture itself away."""


def draw(topology: NodeTopology, chosen: GpuSet | None = None) -> str:
    """Returns the picture as an SVG document, in ASCII.

    Args:
        topology: The node.
        chosen: A set of GPUs of the node to mark, with its ring.
    """
    indices = sorted([gpu.index for gpu in topology.gpus] + [gpu.index for gpu in topology.lost])
    found = lay_out(indices, tuple(nvlinks(topology)), _describe)
    width = max(found.width * _SCALE + 2 * _MARGIN, _LEAST_WIDTH)
    head = list(_head(topology, chosen, width - 2 * _MARGIN))
    top = _TITLE + _LINE * (len(head) - 1) + _MARGIN
    key = wrap(" | ".join(_legend(topology, chosen, found)), width - 2 * _MARGIN, 12)
    foot = top + found.height * _SCALE + _MARGIN
    height = foot + _LINE * max(len(key), 1)
    content = [
        tooltip(f"Topology of {topology.node}", "topology-title"),
        description(_summary(topology, chosen), "topology-description"),
        element("style", STYLE),
        rounded(Box(0.5, 0.5, width - 1, height - 1), "paper", 14),
        *(text(words, _MARGIN, _TITLE + _LINE * place, class_) for place, (words, class_) in enumerate(head)),
        group(
            _parts(topology, chosen, found),
            "node",
            transform=f"translate({number(_MARGIN)} {number(top)}) scale({number(_SCALE)})",
        ),
        *(text(words, _MARGIN, foot + _LINE * place, "key") for place, words in enumerate(key)),
    ]
    root = element(
        "svg",
        "\n",
        "\n".join(content),
        "\n",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="img",
        class_="topology",
        aria_labelledby="topology-title topology-description",
    )
    return root.encode("ascii", "xmlcharrefreplace").decode() + "\n"


def _describe(link: Link) -> str:
    other = "the switches" if link.other is None else f"GPU{link.other}"
    return f"GPU{link.one} - {other}: {link.active} of {counted(link.count, 'NVLink')} up"


def _head(topology: NodeTopology, chosen: GpuSet | None, room: float) -> Iterator[tuple[str, str]]:
    """Yields the lines above the picture, each with its class."""
    yield fit(topology.node, room, 24), "title"
    yield fit(f"{outline(topology)}, from {topology.source}", room, 13), "subtitle"
    yield from ((line, "problem") for note in _first(notes(topology)) for line in wrap(note, room, 13))
    if chosen:
        yield from ((line, "set") for line in wrap(_worth(topology, chosen), room, 13))


def _summary(topology: NodeTopology, chosen: GpuSet | None) -> str:
    """Returns the picture in words."""
    worth = [_worth(topology, chosen)] if chosen else []
    return " ".join([f"{outline(topology)}.", *_first(notes(topology)), *worth])


def _worth(topology: NodeTopology, chosen: GpuSet) -> str:
    values = (f"{name} {value}" for name, value in properties(chosen, mig_gpus(topology, chosen)))
    return "; ".join([f"Chosen: {names(chosen.gpus)}", chosen.link.value, *values])


def _first(found: list[str]) -> list[str]:
    more = len(found) - _NOTES
    return [*found[:_NOTES], f"and {more} more findings"] if more > 0 else found


def _parts(topology: NodeTopology, chosen: GpuSet | None, found: Layout) -> Iterator[str]:
    yield from map(_stroke, found.bundles)
    if found.bar:
        yield rounded(found.bar, "switches", 2)
    yield from map(_stroke, found.curves)
    yield from _cards(topology, chosen, found)
    if not found.boxes:
        yield text("no GPU", 4, 20, "index")


def _stroke(stroke: Stroke) -> str:
    line = path(stroke.points, stroke.class_, stroke_width=stroke.width or None, stroke_dasharray=stroke.dashes or None)
    return element("g", tooltip(stroke.title), line) if stroke.title else line


def _cards(topology: NodeTopology, chosen: GpuSet | None, found: Layout) -> Iterator[str]:
    members = set(chosen.gpus) if chosen else set()
    places = {index: position for position, index in enumerate(chosen.ring, 1)} if chosen and chosen.ring[1:] else {}
    ailing = node_health(topology).ailing
    everyone: tuple[Gpu | LostGpu, ...] = (*topology.gpus, *topology.lost)
    for gpu in everyone:
        box = found.boxes[gpu.index]
        if isinstance(gpu, LostGpu):
            class_, said = "lost", gpu.problem
        else:
            class_, said = "bad" if gpu.index in ailing else "gpu", gpu.name
        place = places.get(gpu.index)
        yield group(
            [
                tooltip(f"GPU{gpu.index}: {said}"),
                rounded(box, f"{class_} chosen" if gpu.index in members else class_, 4),
                text(f"GPU{gpu.index}", box.x + 3, box.y + 11, "index"),
                *([text(str(place), box.center, box.y + 28, "mark")] if place else []),
            ],
            "card aside" if members and gpu.index not in members else "card",
            data_gpu=gpu.index,
        )


def _legend(topology: NodeTopology, chosen: GpuSet | None, found: Layout) -> Iterator[str]:
    if found.bar:
        yield "bar: NVSwitches"
    if found.bundles or found.curves:
        yield "green: NVLinks"
    if any("down" in stroke.class_ or "lost" in stroke.class_ for stroke in (*found.bundles, *found.curves)):
        yield "red lines: NVLinks that are down"
    if set(node_health(topology).ailing) or topology.lost:
        yield "red boxes: GPUs that are lost, or have fewer links than they should"
    if chosen:
        yield "violet: chosen GPUs" + (", with their places in the ring" if chosen.ring[1:] else "")
