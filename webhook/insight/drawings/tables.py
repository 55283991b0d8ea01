"""Tables of a terminal: rows of words in columns, and a matrix that is printed in parts where it is too wide."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rich.text import Text

_GAP = 2


@dataclass(frozen=True)
class Column:
    """A heading, and a cell for each row."""

    heading: Text
    cells: Sequence[Text]
    to_the_right: bool = True
    """Whether the words are aligned to the right."""

    @cached_property
    def width(self) -> int:
        """Width of the widest word of the column."""
        return max(word.cell_len for word in (self.heading, *self.cells))


def columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Text:
    """Returns a table. Columns that are empty in every row are left out.

    Args:
        headings: The headings of the columns.
        rows: The rows, each with as many words as there are headings.
    """
    used = [place for place, _ in enumerate(headings) if any(row[place] for row in rows)]
    widths = {place: max(len(row[place]) for row in (headings, *rows)) for place in used}
    lines = ["".join(f"{row[place]:<{widths[place] + _GAP}}" for place in used).rstrip() for row in (headings, *rows)]
    return Text("\n").join([Text(lines[0], style="dim"), *map(Text, lines[1:])])


def matrix_table(labels: Sequence[Text], columns: Sequence[Column], width: int | None) -> Text:
    """Returns a matrix as text. A matrix that is too wide is printed in parts, one below the other.

    Args:
        labels: The labels of the rows.
        columns: The columns of the matrix, from left to right.
        width: Columns of the terminal; None: the matrix is one part.
    """
    first = max((label.cell_len for label in labels), default=0)
    room = None if width is None else width - first
    return Text("\n\n").join(_part(labels, part, first) for part in _parts(columns, room))


def _parts(columns: Sequence[Column], room: int | None) -> list[list[Column]]:
    parts: list[list[Column]] = [[]]
    for column in columns:
        if room is not None and parts[-1] and sum(each.width + _GAP for each in (*parts[-1], column)) > room:
            parts.append([])
        parts[-1].append(column)
    return parts


def _part(labels: Sequence[Text], columns: Sequence[Column], first: int) -> Text:
    lines = [_line(Text(), [column.heading for column in columns], columns, first)]
    for row, label in enumerate(labels):
        lines.append(_line(label, [column.cells[row] for column in columns], columns, first))
    return Text("\n").join(lines)


def _line(label: Text, words: Sequence[Text], columns: Sequence[Column], first: int) -> Text:
    line = Text().append_text(label).append(" " * (first - label.cell_len))
    for word, column in zip(words, columns, strict=True):
        blank = " " * (column.width - word.cell_len)
        line.append(" " * _GAP)
        line = line.append(blank).append_text(word) if column.to_the_right else line.append_text(word).append(blank)
    line.rstrip()
    return line
