"""The width of tables: that of the terminal; elsewhere, and with ``--wide``, no line is broken."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, RenderableType

WideOption = Annotated[bool, typer.Option("--wide", help="Break no line, however narrow the terminal is.")]

_UNBROKEN = 4096
"""The width of tables whose lines are not to be broken. A longer line is broken here."""


def table_console(*, wide: bool = False) -> "Console":
    """Return standard output: in colours on a terminal that wants some, and as wide as tables may be there.

    Args:
        wide: Whether ``--wide`` is given.
    """
    from rich.console import Console

    from webhook.cli.topology.colours import terminal

    found = terminal()
    if found is None:
        return Console(highlight=False, markup=False, width=_UNBROKEN if wide else _asked_columns() or _UNBROKEN)
    width = _UNBROKEN if wide else None
    return Console(highlight=False, markup=False, width=width, color_system="auto" if found.color_system else None)


def print_parts(console: "Console", parts: "Iterable[RenderableType]") -> None:
    """Print the parts; elsewhere than on a terminal, and where no line is broken, without blanks at the ends."""
    if console.is_terminal and console.width < _UNBROKEN:
        for part in parts:
            console.print(part)
        return
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    typer.echo("\n".join(line.rstrip() for line in capture.get().split("\n")), nl=False)


def _asked_columns() -> int:
    """Return the value of ``COLUMNS``; 0 if it is no number."""
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isdecimal() and len(text) < 6 else 0
