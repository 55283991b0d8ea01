"""The problems of nodes, on standard error."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from webhook.cli.complaint import complain

if TYPE_CHECKING:
    from webhook.hardware.topology.model import NodeTopology


def print_notes(topologies: "Iterable[NodeTopology]") -> None:
    """Print the problems of the nodes, which may be why fewer GPUs are free, or linked."""
    from webhook.insight.drawings.sentences import notes

    for topology in topologies:
        for note in notes(topology):
            complain(f"node {topology.node}: {note}")
