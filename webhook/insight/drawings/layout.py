"""The places of all boxes and lines in the picture of a node: one or two rows of NUMA nodes, GPUs towards the middle.

Lengths are pixels; y grows downwards. Within a row a place is a depth, measured from the outer edge, where the CPUs
are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from webhook.hardware.topology.model import Gpu, NodeTopology
from webhook.insight.drawings.elements import Box
from webhook.insight.drawings.panels import Branch, Panel, Port, panels, split, stacks

MARGIN = 24.0
CARD_WIDTH, CARD_HEIGHT = 124.0, 92.0
CHIP_WIDTH, CHIP_HEIGHT = 108.0, 42.0
CHIPS_IN_COLUMN = 2
GAP = 10.0
PADDING = 14.0
CPU_HEIGHT, SWITCH_HEIGHT, STEM = 30.0, 22.0, 16.0
BETWEEN_PANELS = 22.0

GPUS_IN_ROW = 8
LINKED_GPUS_IN_ROW = 4
"""GPUs of a single NUMA node in one row at most: in a longer row the curves of direct links would overlap."""


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU and its box."""

    box: Box
    gpu: Gpu
    row: int
    """The row: 0 above the middle, 1 below."""

    @property
    def edge(self) -> float:
        """The y of the side towards the middle, where its NVLinks leave."""
        return self.box.y if self.row else self.box.bottom


@dataclass(frozen=True, slots=True)
class Frame:
    """A NUMA node: the box around it and the bar of its CPU."""

    box: Box
    cpu: Box
    panel: Panel
    row: int


@dataclass(frozen=True, slots=True)
class Stem:
    """A PCIe link, or C2C: a vertical line."""

    x: float
    start: float
    end: float
    gpu: Gpu | None = None


@dataclass(slots=True)
class Layout:
    """The places of everything in the picture."""

    width: float
    middle: Box
    """The box between the rows, or below the only row."""
    frames: list[Frame] = field(default_factory=list)
    cards: dict[int, Card] = field(default_factory=dict)
    """The cards by index of the GPU."""
    chips: list[tuple[Box, Port]] = field(default_factory=list)
    switches: list[tuple[Box, Branch]] = field(default_factory=list)
    stems: list[Stem] = field(default_factory=list)
    bottom: float = 0.0


Rows = list[list[Panel]]


def rows_of(topology: NodeTopology) -> Rows:
    """Returns the NUMA nodes in one row or two; of two rows each has about half of the GPUs."""
    found = panels(topology)
    with_gpus = [panel for panel in found if panel.gpus]
    without = [panel for panel in found if not panel.gpus]
    directly_linked = any(link.target.startswith("GPU") for gpu in topology.gpus for link in gpu.nvlinks)
    if len(with_gpus) == 1 and len(topology.gpus) > (LINKED_GPUS_IN_ROW if directly_linked else GPUS_IN_ROW):
        with_gpus = split(with_gpus[0])
    if len(with_gpus) < 2:
        return [[*with_gpus, *without]] if found else []
    rows: Rows = [[], []]
    for panel in with_gpus:
        rows[sum(len(placed.gpus) for placed in rows[0]) >= len(topology.gpus) / 2].append(panel)
    if not rows[1]:
        rows[1].append(rows[0].pop())
    for panel in without:
        min(rows, key=_row_width).append(panel)
    return rows


def ranks(rows: Rows) -> dict[int, tuple[int, int]]:
    """Returns the row of each GPU and its position in the row, by index of the GPU."""
    return {
        gpu.index: (number, position)
        for number, row in enumerate(rows)
        for position, gpu in enumerate(gpu for panel in row for gpu in panel.gpus)
    }


def place(rows: Rows, *, top: float, width: float, gap: float) -> Layout:
    """Returns the places of everything in the picture.

    Args:
        rows: The rows that ``rows_of`` returned.
        top: The y where the first row begins.
        width: Width of the picture; at least ``natural_width(rows)``.
        gap: Height of the middle.
    """
    levels = max((_levels(panel.children) for row in rows for panel in row), default=0)
    height = 2 * PADDING + CPU_HEIGHT + levels * (STEM + SWITCH_HEIGHT) + STEM + CARD_HEIGHT
    inner = max((_row_width(row) for row in rows), default=0.0)
    left = (width - inner - (BETWEEN_PANELS if rows[1:] else 0.0)) / 2
    layout = Layout(width, Box(left, top + (height if rows else 0.0), inner, gap))
    for number, row in enumerate(rows):
        y = layout.middle.bottom if number else top
        spare = (inner - _row_width(row)) / len(row)
        x = left
        for panel in row:
            box = Box(x, y, _panel_width(panel) + spare, height)
            _Row(layout, number, box, levels).add_panel(panel)
            x = box.right + BETWEEN_PANELS
    layout.bottom = layout.middle.bottom + (height if len(rows) > 1 else 0.0)
    return layout


def natural_width(rows: Rows) -> float:
    """Returns the width of a picture that holds these rows, with the line between sockets beside them."""
    return max((_row_width(row) for row in rows), default=0.0) + 2 * MARGIN + (BETWEEN_PANELS if rows[1:] else 0.0)


class _Row:
    """Places the devices of one panel."""

    def __init__(self, layout: Layout, row: int, box: Box, levels: int) -> None:
        self._layout, self._row, self._box, self._levels = layout, row, box, levels

    def add_panel(self, panel: Panel) -> None:
        cpu = self._at(self._box.x + PADDING, PADDING, self._box.width - 2 * PADDING, CPU_HEIGHT)
        self._layout.frames.append(Frame(self._box, cpu, panel, self._row))
        content = _width(panel.children)
        self._add(panel.children, self._box.x + (self._box.width - content) / 2, 0)

    def _add(self, children: Sequence[Branch | Gpu | Port], x: float, level: int) -> None:
        """Places children from ``x`` to the right; ``level`` switches are above them."""
        parent = PADDING + CPU_HEIGHT + level * (STEM + SWITCH_HEIGHT)
        leaf = PADDING + CPU_HEIGHT + self._levels * (STEM + SWITCH_HEIGHT) + STEM
        for column in stacks(children, CHIPS_IN_COLUMN):
            width = _column_width(column)
            if isinstance(column, Branch):
                self._layout.switches.append((self._at(x, parent + STEM, width, SWITCH_HEIGHT), column))
                self._stem(x + width / 2, parent, parent + STEM)
                self._add(column.children, x, level + 1)
            elif isinstance(column, Gpu):
                box = self._at(x, leaf, CARD_WIDTH, CARD_HEIGHT)
                self._layout.cards[column.index] = Card(box, column, self._row)
                self._stem(box.center, parent, leaf, column)
            else:
                self._add_chips(column, x, parent, leaf)
            x += width + GAP

    def _add_chips(self, ports: Sequence[Port], x: float, parent: float, leaf: float) -> None:
        self._stem(x + CHIP_WIDTH / 2, parent, leaf)
        for position, port in enumerate(ports[::-1] if self._row else ports):
            depth = leaf + position * (CHIP_HEIGHT + CARD_HEIGHT - CHIPS_IN_COLUMN * CHIP_HEIGHT)
            self._layout.chips.append((self._at(x, depth, CHIP_WIDTH, CHIP_HEIGHT), port))
            if position:
                self._stem(x + CHIP_WIDTH / 2, depth, depth - (CARD_HEIGHT - CHIPS_IN_COLUMN * CHIP_HEIGHT))

    def _stem(self, x: float, start: float, end: float, gpu: Gpu | None = None) -> None:
        self._layout.stems.append(Stem(x, self._y(start), self._y(end), gpu))

    def _y(self, depth: float) -> float:
        return self._box.bottom - depth if self._row else self._box.y + depth

    def _at(self, x: float, depth: float, width: float, height: float) -> Box:
        return Box(x, self._y(depth + height) if self._row else self._y(depth), width, height)


def _levels(children: Sequence[Branch | Gpu | Port]) -> int:
    return max((1 + _levels(child.children) for child in children if isinstance(child, Branch)), default=0)


def _row_width(row: Sequence[Panel]) -> float:
    return sum(_panel_width(panel) for panel in row) + BETWEEN_PANELS * (len(row) - 1)


def _panel_width(panel: Panel) -> float:
    return _width(panel.children) + 2 * PADDING


def _width(children: Sequence[Branch | Gpu | Port]) -> float:
    widths = [_column_width(column) for column in stacks(children, CHIPS_IN_COLUMN)]
    return sum(widths) + GAP * (len(widths) - 1)


def _column_width(column: Branch | Gpu | tuple[Port, ...]) -> float:
    if isinstance(column, Branch):
        return _width(column.children)
    return CARD_WIDTH if isinstance(column, Gpu) else CHIP_WIDTH


def socket_links(layout: Layout) -> Iterator[tuple[Frame, Frame]]:
    """Yields the pairs of neighbouring NUMA nodes that a line joins.

    The two panels of a NUMA node that is shown twice are no pair.
    """
    for one, other in zip(layout.frames, layout.frames[1:], strict=False):
        nodes = {one.panel.numa_node, other.panel.numa_node}
        if None not in nodes and len(nodes) == 2 and one.row == other.row:
            yield one, other
    ends = [[frame for frame in layout.frames if frame.row == row][-1:] for row in (0, 1)]
    if all(ends):
        one, other = ends[0][0], ends[1][0]
        if None not in (one.panel.numa_node, other.panel.numa_node) and not other.panel.continued:
            yield one, other
