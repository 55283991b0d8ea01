"""Whether standard output wants colours."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def coloured_console() -> "Console | None":
    """The terminal that standard output is; none if it is something else, or wants no colours (``NO_COLOR``)."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    return console if console.is_terminal and not console.no_color and not console.is_dumb_terminal else None
