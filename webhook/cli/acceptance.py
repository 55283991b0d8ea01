"""``gpu-topology acceptance``: a command that was removed; for one release it names its replacement."""

import typer

from webhook.cli.complaint import complain

WRONG_USAGE = 2


def acceptance() -> None:
    """Say what replaces this command, which left."""
    complain("gpu-topology: acceptance is no command any more. In a checkout, make gpu tries what it tried, and more")
    raise typer.Exit(WRONG_USAGE)
