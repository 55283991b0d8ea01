"""``gpu-topology topology xml``: the file for ``NCCL_TOPO_FILE``."""

from typing import Annotated

import typer

from webhook.cli.complaint import complain
from webhook.cli.topology.source import File, Node, State


def xml(
    file: File = None,
    state: State = None,
    node: Node = None,
    dev: Annotated[
        bool, typer.Option("--dev", help="Write host indices, for ranks that are spread over containers.")
    ] = False,
) -> None:
    """Print the NCCL topology file of a node."""
    from webhook.cli.topology.source import read_source
    from webhook.hardware.topology.nccl_file import format_nccl_topology

    topology = read_source(file, state, node)
    typer.echo(format_nccl_topology(topology, host_indices=dev), nl=False)
    if topology.problem:
        complain(topology.problem)
