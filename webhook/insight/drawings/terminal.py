"""A node as text: the matrix in colours by link class, the properties of a set of GPUs, and the problems of the node.

The plain form has the words of ``nvidia-smi topo -m``, so that programs can compare the two.
"""

from collections.abc import Sequence
from dataclasses import replace

from rich.text import Text

from webhook.hardware.topology.connections import Connection, Connections, PathType
from webhook.hardware.topology.health import HealthState, node_health
from webhook.hardware.topology.matrix import AFFINITY_COLUMNS, SELF, UNKNOWN, Matrix, format_matrix, matrix
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.pcie import PciePath
from webhook.hardware.topology.sets import GpuSet, LinkClass
from webhook.insight.drawings.sentences import mig_gpus, names, notes, outline, properties
from webhook.insight.drawings.tables import Column, matrix_table

_NVLINK_STYLE = "green"
_PCIE_STYLES = {PciePath.PIX: "cyan", PciePath.PXB: "blue", PciePath.PHB: "yellow", PciePath.NODE: "magenta"}
_STYLES = {path.value: style for path, style in _PCIE_STYLES.items()} | {
    PciePath.SYS.value: "red",
    LinkClass.PARTIAL.value: "yellow",  # not green: some pair has no NVLink
}
_LEGEND = (
    ("NV#", "# NVLinks, bonded"),
    ("PIX", "one PCIe switch"),
    ("PXB", "several PCIe switches"),
    ("PHB", "the host bridge of a CPU"),
    ("NODE", "host bridges of one NUMA node"),
    ("SYS", "the link between NUMA nodes"),
)
_STATE_STYLES = {HealthState.HEALTHY: "green", HealthState.DEGRADED: "bold red", HealthState.ABSENT: "yellow"}
CLASSES = {
    LinkClass.SINGLE: "one GPU, nothing to link",
    LinkClass.NVSWITCH: "every pair is linked through NVSwitches",
    LinkClass.NVLINK: "every pair has NVLinks of its own",
    LinkClass.PARTIAL: "only some pairs have NVLinks",
    LinkClass.PIX: "no NVLink; the farthest pair is joined by one PCIe switch",
    LinkClass.PXB: "no NVLink; the farthest pair is joined by several PCIe switches",
    LinkClass.PHB: "no NVLink; the farthest pair is joined by the CPU",
    LinkClass.SYS: "no NVLink; the farthest pair is in different NUMA nodes",
}


def picture(
    topology: NodeTopology, *, chosen: GpuSet | None = None, bandwidth: bool = False, width: int | None = None
) -> Text:
    """Returns the node in colours, for a terminal.

    Args:
        topology: The node.
        chosen: A set of GPUs of the node to mark and to describe.
        bandwidth: Whether the matrix has GB/s per direction instead of words; pairs of the set may use other GPUs of
            the set as intermediate hops.
        width: Columns of the terminal; a matrix that is wider is printed in parts, one below the other.
    """
    found = matrix(topology)
    parts = [_heading(topology)]
    if topology.gpus or topology.nics:
        found = _gpus_of(found) if bandwidth else found
        table = _bandwidths(topology, chosen, width) if bandwidth else _words(found, chosen, width)
        parts += [table, _legend(found)]
    parts.append(_state(topology))
    if chosen:
        parts.append(worth(chosen, mig_gpus(topology, chosen)))
    return Text("\n\n").join(parts) + Text("\n")


def plain(topology: NodeTopology, *, chosen: GpuSet | None = None, bandwidth: bool = False) -> str:
    """Returns the node for files and pipes: what ``nvidia-smi topo -m`` would print, and then the chosen set.

    The problems of the node are not in it; see ``sentences.notes``.
    """
    parts = []
    if topology.gpus or topology.nics:
        parts.append(_bandwidths(topology, chosen).plain if bandwidth else format_matrix(matrix(topology)).rstrip("\n"))
    if chosen:
        parts.append(worth(chosen, mig_gpus(topology, chosen)).plain)
    return "\n\n".join(parts) + "\n" if parts else ""


def worth(chosen: GpuSet, in_mig_mode: Sequence[int] = ()) -> Text:
    """Returns the properties of a set for a job that uses all of its GPUs: one line for each property.

    Args:
        chosen: The set.
        in_mig_mode: The GPUs of the set in MIG mode.
    """
    text = Text().append(names(chosen.gpus), style="bold").append("  ").append_text(link_class(chosen.link))
    text.append(f": {CLASSES[chosen.link]}")
    return text.append_text(worth_lines(chosen, in_mig_mode))


def link_class(link: LinkClass) -> Text:
    """Returns a link class in its colour."""
    return Text(str(link), style=f"bold {_style(link)}")


def worth_lines(chosen: GpuSet, in_mig_mode: Sequence[int] = ()) -> Text:
    """Returns the lines of the properties, without the line that names the set."""
    text = Text()
    for name, value in properties(chosen, in_mig_mode):
        text.append(f"\n  {name:<13}", style="dim").append(value)
    return text


def _heading(topology: NodeTopology) -> Text:
    text = Text(topology.node, style="bold")
    text.append(f"  {outline(topology)}", style="not bold")
    return text.append(f"  from {topology.source}", style="not bold dim")


def _words(found: Matrix, chosen: GpuSet | None, width: int | None) -> Text:
    rows = [
        (row.label, [*zip(row.words, row.words, strict=True)], row.affinity if any(row.affinity) else ())
        for row in found.rows
    ]
    return _table(rows, found.labels, AFFINITY_COLUMNS, chosen, width)


def _bandwidths(topology: NodeTopology, chosen: GpuSet | None, width: int | None = None) -> Text:
    """Returns the matrix in GB/s per direction, in the colours of the words.

    The value between two chosen GPUs is the bandwidth that a job on all chosen GPUs has.
    """
    found, connections = _gpus_of(matrix(topology)), Connections(topology)
    members = chosen.gpus if chosen else ()
    rows = []
    for gpu, row in zip(topology.gpus, found.rows, strict=True):
        cells = [
            _bandwidth_cell(word, None if gpu is other else _reckoned(connections, gpu.index, other.index, members))
            for other, word in zip(topology.gpus, row.words, strict=True)
        ]
        rows.append((row.label, cells, ()))
    text = Text().append("GB/s per direction\n", style="dim")
    return text.append_text(_table(rows, found.labels, (), chosen, width))


def _reckoned(connections: Connections, one: int, other: int, members: Sequence[int]) -> Connection:
    both_chosen = one in members and other in members
    return connections.within(one, other, members) if both_chosen else connections.direct(one, other)


def _bandwidth_cell(word: str, connection: Connection | None) -> tuple[str, str]:
    """Returns the text of a cell and the word that gives its colour; a path through a third GPU counts as NVLink."""
    if connection is None or (word == UNKNOWN and connection.type is not PathType.NVB):
        return word, word
    return f"{connection.bandwidth:.1f}", PathType.NVB if connection.type is PathType.NVB else word


def _gpus_of(found: Matrix) -> Matrix:
    """Returns the matrix without NICs."""
    count = len(found.rows) - len(found.nics)
    return Matrix(tuple(replace(row, words=row.words[:count]) for row in found.rows[:count]), ())


_Cells = Sequence[tuple[str, str]]
"""The text of each cell, and the word that gives its colour."""


def _table(
    rows: Sequence[tuple[str, _Cells, Sequence[str]]],
    labels: Sequence[str],
    more: Sequence[str],
    chosen: GpuSet | None,
    width: int | None,
) -> Text:
    marked = {f"GPU{index}" for index in chosen.gpus} if chosen else set()
    headings = {label: Text(label, style="bold reverse" if label in marked else "bold") for label in labels}
    columns = []
    for place, other in enumerate(labels):
        cells = [
            Text(found[place][0], style=_cell_style(found[place][1], label, other, marked)) for label, found, _ in rows
        ]
        columns.append(Column(headings[other], cells))
    for place, name in enumerate(more):
        words = [end[place] if end else "" for *_, end in rows]
        cells = [Text(word, style="dim" if word == UNKNOWN else "") for word in words]
        columns.append(Column(Text(name, style="dim"), cells, to_the_right=False))
    return matrix_table([headings[label] for label, *_ in rows], columns, width)


def _cell_style(word: str, label: str, other: str, marked: set[str]) -> str:
    style = _style(word)
    if not marked:
        return style
    return f"{style} reverse" if label != other and {label, other} <= marked else f"{style} dim"


def _style(word: str) -> str:
    """Returns the style of a word of the matrix or of a link class."""
    if word in (SELF, UNKNOWN):
        return "dim"
    return _STYLES.get(word, _NVLINK_STYLE)


def _legend(found: Matrix) -> Text:
    used = {"NV#" if word.startswith("NV") else word for row in found.rows for word in row.words}
    lines = []
    for word, meaning in _LEGEND:
        if word in used:
            lines.append(Text(f"{word:<6}", style=_style(word)).append(meaning, style="default"))
    lines += [Text(f"{label:<6}", style="bold").append(name, style="not bold") for label, name in found.nics]
    return Text("\n").join(lines)


def _state(topology: NodeTopology) -> Text:
    state = node_health(topology).state
    text = Text("NVLink ").append(state.value, style=_STATE_STYLES[state])
    for note in notes(topology):
        text.append("\n  ! ", style="bold red").append(note)
    return text
