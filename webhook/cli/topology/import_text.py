"""``gpu-topology topology import``: a NodeTopology from what other programs print."""

from typing import Annotated

import typer


def import_text(
    file: Annotated[
        str,
        typer.Argument(help="Output of nvidia-smi topo -m (and -L), HAMi's annotation, or JSON; - reads stdin."),
    ],
    node: Annotated[str | None, typer.Option(help="Name of the node; without it that of the file.")] = None,
) -> None:
    """Print a NodeTopology in JSON, read from the output of nvidia-smi or from HAMi's annotation.

    What is missing in the source goes to stderr.
    """
    from webhook.cli.topology.source import read_text
    from webhook.topology.document import format_topology

    topology = read_text(file, node)
    typer.echo(format_topology(topology, indent=2))
    if topology.problem:
        typer.echo(topology.problem, err=True)
