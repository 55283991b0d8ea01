"""``gpu-topology``: the list of commands, exit codes, and the display of errors.

Exit codes: 0 done, 1 refused or unmet (the reason is on stderr), 2 wrong usage, or a named namespace that is not there.
Code 2 is also that of analyze and status if nothing can be read, and of verify if nothing can be measured.
"""

import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from certs import CertsError
from webhook import __version__
from webhook.cli import (
    agent,
    analyze,
    bind,
    certs,
    claim,
    defrag,
    demo,
    explain,
    inject,
    message,
    namespace,
    page,
    place,
    remap,
    serve,
    state,
    status,
    verify,
)
from webhook.cli.complaint import complain
from webhook.cli.topology import topology
from webhook.words.errors import GpuTopologyError, NoNamespace

REFUSED, UNREADABLE = 1, 2
# The system's errors for output that cannot be written: write(2).
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EAGAIN)


class _Program(TyperGroup):
    """The commands. Says what is wrong with a value without pydantic's preamble."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    cls=_Program,
    name="gpu-topology",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_LOOK, _BEFORE, _MACHINE = "Look at pods and clusters", "Before a pod runs", "On a machine with GPUs"
_POD, _OTHER = "Run in pods: started by the chart and the webhook", "Administration and this program"

app.command(rich_help_panel=_LOOK)(explain.explain)
app.command(rich_help_panel=_LOOK)(analyze.analyze)
app.command(rich_help_panel=_LOOK)(status.status)
app.command(rich_help_panel=_LOOK)(page.page)
app.command(rich_help_panel=_LOOK)(message.message)
app.add_typer(state.state, rich_help_panel=_LOOK)
app.command(rich_help_panel=_BEFORE)(namespace.namespace)
app.command(rich_help_panel=_BEFORE)(inject.inject)
app.command(rich_help_panel=_BEFORE)(bind.bind)
app.command(rich_help_panel=_BEFORE)(claim.claim)
app.command(rich_help_panel=_BEFORE)(demo.demo)
app.add_typer(topology, rich_help_panel=_BEFORE)
app.command(rich_help_panel=_MACHINE)(verify.verify)
app.add_typer(certs.certs, rich_help_panel=_OTHER)
app.command(rich_help_panel=_OTHER)(defrag.defrag)
app.command(rich_help_panel=_POD)(serve.serve)
app.command(rich_help_panel=_POD)(agent.agent)
app.command(
    rich_help_panel=_POD,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(remap.remap)
app.add_typer(place.place, rich_help_panel=_POD)


@app.command("version", rich_help_panel=_OTHER)
def print_version() -> None:
    """Print the version."""
    typer.echo(__version__)


def _version(show: bool) -> None:
    if show:
        print_version()
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, hidden=True),
) -> None:
    """Gives multi-GPU pods on HAMi clusters their NVLink back."""


@cache
def program() -> Callable[..., Any]:
    """Return the command line. It is made once, for tests that call it often in one process."""
    return typer.main.get_command(app)


def main(name: str | None = None) -> None:
    """Run the command ``gpu-topology``.

    Args:
        name: The name by which the user calls it, if it is not that of the file.
    """
    if sys.stdout is None:  # its descriptor is closed, and the next opened file would get its number
        _fail("standard output is closed")
    try:
        try:
            _run(name)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output, such as head, has ended
        _discard_output()
        sys.exit(REFUSED)
    except OSError as error:
        if error.filename is not None or error.errno not in _OUTPUT_ERRORS:
            raise
        _discard_output()
        _fail(f"standard output cannot be written: {error.strerror}")


def _run(name: str | None) -> None:
    try:
        program()(prog_name=name)
    except NoNamespace as error:
        complain(f"gpu-topology: {error}")
        sys.exit(UNREADABLE)
    except (GpuTopologyError, CertsError) as error:
        _fail(str(error))


def _fail(sentence: str) -> NoReturn:
    complain(f"gpu-topology: {sentence}")
    sys.exit(REFUSED)


def _discard_output() -> None:
    """Redirect unwritten output to nowhere, because the interpreter flushes again at its end, and would complain."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)
