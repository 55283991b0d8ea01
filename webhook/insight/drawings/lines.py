"""Lines that are wrapped to the width of a terminal; continuation lines are indented by the beginning of the line."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

_LEAST = 20
"""Characters of a line after its indentation, at least; a narrower terminal breaks the lines itself."""


class Line(NamedTuple):
    """A line that may be wrapped."""

    begin: Text
    """The beginning of the line, such as the number of an entry."""
    text: Text


EMPTY = Line(Text(), Text())


def line(text: str, style: str = "") -> Line:
    """Returns a line without a beginning, so that its continuation is not indented."""
    return Line(Text(), Text(text, style=style))


def plain(lines: Iterable[Line]) -> str:
    """Returns the lines for files and pipes: not wrapped and without colours."""
    return "".join(f"{each.begin.plain}{each.text.plain}\n" for each in lines)


def wrapped(lines: Iterable[Line], console: Console) -> Text:
    """Returns the lines for a terminal: wrapped, and in colours where the console has some."""
    return Text("\n").join(chain.from_iterable(_wrapped(each, console) for each in lines))


def _wrapped(each: Line, console: Console) -> Iterator[Text]:
    begin, indent = each.begin, each.begin.cell_len
    for part in each.text.wrap(console, max(console.width - indent, _LEAST)) or [Text()]:
        part.rstrip()
        yield begin + part
        begin = Text(" " * indent)
