"""The picture of a node as SVG: NUMA nodes, PCIe switches, NICs, GPUs and NVLinks, and a chosen set of GPUs."""

from collections.abc import Iterator, Sequence

from webhook.hardware.topology.health import node_health
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.pcie import socket_bandwidth
from webhook.hardware.topology.sets import GpuSet
from webhook.insight.drawings.boxes import card, chip, frame, lost, switch
from webhook.insight.drawings.elements import Box, line, number, path, rounded, text
from webhook.insight.drawings.header import header, summary
from webhook.insight.drawings.layout import (
    BETWEEN_PANELS,
    CARD_HEIGHT,
    CARD_WIDTH,
    GAP,
    MARGIN,
    Frame,
    Layout,
    natural_width,
    place,
    rows_of,
    socket_links,
)
from webhook.insight.drawings.legend import Entry, legend
from webhook.insight.drawings.nvlinks import draw_middle, entries, middle
from webhook.insight.drawings.palette import STYLE
from webhook.insight.drawings.sheet import sheet

_LEAST_WIDTH = 720.0
_NOTHING = 110.0
"""Height of the box that says that there is no GPU."""


def draw(topology: NodeTopology, chosen: GpuSet | None = None) -> str:
    """Returns the picture as an SVG document, in ASCII.

    Args:
        topology: The node.
        chosen: A set of GPUs of the node to mark, with its ring.
    """
    rows = rows_of(topology)
    width = max(natural_width(rows), _LEAST_WIDTH)
    between = middle(topology, chosen, rows)
    head, top = header(topology, chosen, width)
    layout = place(rows, top=top, width=width, gap=between.height)
    rest, bottom = _below(topology, layout)
    links = list(socket_links(layout))
    key, height = legend(
        [*entries(between), *_entries(topology, layout, chosen, links)], MARGIN, bottom + MARGIN, width - 2 * MARGIN
    )
    parts = [
        *head,
        *(_socket_link(one, other) for one, other in links),
        *(frame(numa_frame) for numa_frame in layout.frames),
        *_stems(layout),
        *(switch(box, branch) for box, branch in layout.switches),
        *draw_middle(between, layout),
        *(chip(box, port) for box, port in layout.chips),
        *_cards(topology, layout, chosen),
        *rest,
        key,
    ]
    return sheet(
        "topology",
        parts,
        title=f"Topology of {topology.node}",
        shows=summary(topology, chosen),
        style=STYLE,
        width=width,
        height=bottom + MARGIN + height,
    )


def _socket_link(one: Frame, other: Frame) -> str:
    """Returns the line between two NUMA nodes.

    It joins the CPUs of nodes beside each other. It goes around the right side of nodes one above the other.
    """
    if one.row == other.row:
        return path(line(one.cpu.right, one.cpu.level, other.cpu.x, other.cpu.level), "sys")
    x = max(one.box.right, other.box.right) + BETWEEN_PANELS / 2
    points = f"M{number(one.cpu.right)} {number(one.cpu.level)}H{number(x)}V{number(other.cpu.level)}"
    return path(points + f"H{number(other.cpu.right)}", "sys")


def _stems(layout: Layout) -> Iterator[str]:
    for stem in layout.stems:
        yield path(line(stem.x, stem.start, stem.x, stem.end), "c2c" if stem.gpu and stem.gpu.c2c else "pcie")


def _cards(topology: NodeTopology, layout: Layout, chosen: GpuSet | None) -> Iterator[str]:
    members = set(chosen.gpus) if chosen else set()
    places = {index: position for position, index in enumerate(chosen.ring, 1)} if chosen and chosen.ring[1:] else {}
    ailing = node_health(topology).ailing
    for index, found in layout.cards.items():
        yield card(
            found,
            chosen=index in members,
            aside=bool(members) and index not in members,
            ailing=index in ailing,
            place=places.get(index),
        )


def _below(topology: NodeTopology, layout: Layout) -> tuple[list[str], float]:
    """Returns the boxes of lost GPUs, and a sign where the node has no GPU; with the y below them."""
    parts, bottom, left = [], layout.bottom, MARGIN
    right = layout.width - MARGIN
    if not topology.gpus:
        box = Box(left, bottom + (GAP if layout.frames else 0), right - left, _NOTHING)
        parts += [rounded(box, "nothing", 12), text("no GPU", box.center, box.level + 6, "nothing-name")]
        bottom = box.bottom
    x, y = left, bottom + 2 * GAP
    for gpu in topology.lost:
        if x + CARD_WIDTH > right:
            x, y = left, y + CARD_HEIGHT + GAP
        box = Box(x, y, CARD_WIDTH, CARD_HEIGHT)
        parts.append(lost(box, gpu))
        x, bottom = box.right + GAP, box.bottom
    return parts, bottom


def _entries(
    topology: NodeTopology, layout: Layout, chosen: GpuSet | None, links: Sequence[tuple[Frame, Frame]]
) -> Iterator[Entry]:
    if any(gpu.c2c for gpu in topology.gpus):
        yield Entry("c2c", "NVLink-C2C to the CPU")
    if any(not (stem.gpu and stem.gpu.c2c) for stem in layout.stems):
        yield Entry("pcie", "PCIe")
    if links:
        speed = f", {socket_bandwidth(topology):g} GB/s" if topology.cpus else ""
        yield Entry("sys", f"between NUMA nodes (SYS){speed}")
    if chosen:
        yield Entry(
            "gpu chosen", "chosen GPU" + (", with its place in the ring" if chosen.ring[1:] else ""), is_box=True
        )
    if set(node_health(topology).ailing) - {gpu.index for gpu in topology.lost}:
        yield Entry("gpu bad", "GPU with fewer links than it should have", is_box=True)
    if topology.lost:
        yield Entry("lost", "lost: the driver cannot reach it", is_box=True)
