"""``gpu-topology remap``: an entry of the list of commands; ``webhook.entry`` runs it without this command line."""

import sys

import typer


def remap(context: typer.Context) -> None:
    """Verify a pod's GPUs when it starts; runs in injected pods."""
    from webhook.programs.remap.program import main

    sys.exit(main(context.args))
