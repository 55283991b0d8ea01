"""``gpu-topology topology check``: a command of 0.1 that was removed; for one release it names its replacement."""

import typer

from webhook.cli.complaint import complain

WRONG_USAGE = 2

INSTEAD = (
    "gpu-topology: topology check is no command any more. NCCL itself is the judge of a topology file: "
    "NCCL_TOPO_FILE=FILE NCCL_DEBUG=INFO prints why it refuses one, and NCCL_TOPO_DUMP_FILE=COPY.xml writes what it "
    "has read. A picture of the node is in topology show"
)


def check() -> None:
    """Say what replaces this command, which left."""
    complain(INSTEAD)
    raise typer.Exit(WRONG_USAGE)
