"""The properties of standard output: a terminal or not, with colours or without."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from webhook.insight.drawings.lines import Line


def coloured_console() -> "Console | None":
    """Return the terminal of standard output; None if it is no terminal, or wants no colours (``NO_COLOR``)."""
    console = terminal()
    return console if console and console.color_system else None


def terminal() -> "Console | None":
    """Return the terminal of standard output; None if it is no terminal.

    A terminal without colours (``NO_COLOR``, ``TERM=dumb``) gets no other style either.
    """
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        return None
    if console.no_color or console.is_dumb_terminal:
        return Console(highlight=False, soft_wrap=True, color_system=None)
    return console


def print_lines(lines: "Iterable[Line]") -> None:
    """Print lines: in colours and wrapped on a terminal, plain elsewhere."""
    from webhook.insight.drawings.lines import plain, wrapped

    console = terminal()
    if console:
        console.print(wrapped(lines, console))
    else:
        typer.echo(plain(lines), nl=False)
