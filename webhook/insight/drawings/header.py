"""The head of the picture: the name of the node, its problems, and the properties of the chosen set."""

from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.sets import GpuSet
from webhook.insight.drawings.elements import BOLD, fit, text, wrap
from webhook.insight.drawings.layout import MARGIN
from webhook.insight.drawings.sentences import NICS, mig_gpus, names, notes, outline, properties
from webhook.words.listing import counted

_TITLE, _BELOW_TITLE, _LINE, _SPACE = 46.0, 24.0, 20.0, 18.0
"""Base line of the title, the distances from there to the next base lines, and the space below the last one."""
_NOTES = 6
"""Notes that are shown at most. More of them would push the picture itself away."""


def header(topology: NodeTopology, chosen: GpuSet | None, width: float) -> tuple[list[str], float]:
    """Returns the lines of the head, and the y below them."""
    room = width - 2 * MARGIN
    parts = [text(fit(topology.node, room, 22, BOLD), MARGIN, _TITLE, "title")]
    y = _TITLE + _BELOW_TITLE
    parts.append(text(fit(f"{outline(topology)}, from {topology.source}", room, 13), MARGIN, y, "subtitle"))
    lines = [(words, "problem") for note in _first(notes(topology)) for words in wrap(note, room, 13)]
    if chosen:
        lines += [(words, "set") for words in wrap(_worth(topology, chosen), room, 13)]
    for words, class_ in lines:
        y += _LINE
        parts.append(text(words, MARGIN, y, class_))
    return parts, y + _SPACE


def summary(topology: NodeTopology, chosen: GpuSet | None) -> str:
    """Returns the picture in words."""
    nodes = len({gpu.numa_node for gpu in topology.gpus if gpu.numa_node is not None})
    where = f"{outline(topology)}; the GPUs are in {counted(nodes, 'NUMA node')}."
    worth = [_worth(topology, chosen)] if chosen else []
    return " ".join([where if nodes else f"{outline(topology)}.", *_first(notes(topology)), *worth])


def _worth(topology: NodeTopology, chosen: GpuSet) -> str:
    found = properties(chosen, mig_gpus(topology, chosen))
    values = (f"{name} {value}" for name, value in found if name != NICS)  # the picture shows them
    return "; ".join([f"Chosen: {names(chosen.gpus)}", chosen.link.value, *values])


def _first(found: list[str]) -> list[str]:
    more = len(found) - _NOTES
    return [*found[:_NOTES], f"and {more} more findings"] if more > 0 else found
