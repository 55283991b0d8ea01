"""``gpu-topology topology import``: a NodeTopology from the output of other programs."""

from typing import Annotated

import typer

from webhook.cli.complaint import complain
from webhook.cli.topology.source import FORMATS, Node


def import_text(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help=f"{FORMATS}; - reads stdin."),
    ],
    node: Node = None,
) -> None:
    """Print a NodeTopology in JSON, read from any text that tells one.

    Without --node it has the name that the text tells, or that of the file. What is missing in the source goes to
    stderr.
    """
    from webhook.cli.topology.source import read_text
    from webhook.hardware.topology.document import format_topology

    topology = read_text(file, node)
    typer.echo(format_topology(topology, indent=2))
    if topology.problem:
        complain(topology.problem)
