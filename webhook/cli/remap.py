"""``gpu-topology remap``: listed here, and run without this command line (``webhook.entry``)."""

import sys

import typer


def remap(context: typer.Context) -> None:
    """Verify a pod's GPUs when it starts; runs in injected pods."""
    from webhook.programs.remap.program import main

    sys.exit(main(context.args))
