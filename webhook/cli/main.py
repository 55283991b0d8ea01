"""``gpu-topology``: the list of commands, exit codes, and how errors are shown.

Exit codes: 0 done, 1 refused or unmet (the reason is on stderr), 2 wrong usage.
"""

import sys

import typer

from certs.errors import BundleError
from webhook import __version__
from webhook.cli import agent, demo, inject, serve
from webhook.cli.topology import topology
from webhook.model.errors import GpuTopologyError

REFUSED = 1

app = typer.Typer(
    name="gpu-topology",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(serve.serve)
app.command()(inject.inject)
app.command()(agent.agent)
app.add_typer(topology)
app.command()(demo.demo)


def _version(show: bool) -> None:
    if show:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Gives multi-GPU pods on HAMi clusters their NVLink back."""


def main() -> None:
    """The entry point of the command ``gpu-topology``."""
    try:
        app()
    except (GpuTopologyError, BundleError) as error:
        print(f"gpu-topology: {error}", file=sys.stderr)
        sys.exit(REFUSED)
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough
        sys.stderr.close()
