"""A matrix that fits the width of a terminal: with rows that are too long it is printed in parts below each other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rich.text import Text

_GAP, _NARROW_GAP = 2, 1


@dataclass(frozen=True)
class Column:
    """A heading, and a cell for each row."""

    heading: Text
    cells: Sequence[Text]
    group: str
    """Neighbouring columns of one group are kept together while they fit."""
    to_the_right: bool = True
    """Whether the words are aligned to the right."""

    @cached_property
    def width(self) -> int:
        """Width of the widest word of the column."""
        return max(word.cell_len for word in (self.heading, *self.cells))


def matrix_table(labels: Sequence[Text], columns: Sequence[Column], width: int | None) -> Text:
    """Returns the matrix as text.

    Args:
        labels: The labels of the rows.
        columns: The columns of the matrix, from left to right.
        width: Columns of the terminal; None: the matrix is one part.
    """
    first = max((label.cell_len for label in labels), default=0)
    if width is None or _length(columns, _GAP) <= width - first:
        return _part(labels, columns, first, _GAP)
    parts = _parts(columns, width - first)
    return Text("\n\n").join(_part(*_with_words(labels, part), first, _NARROW_GAP) for part in parts)


def _length(columns: Sequence[Column], gap: int) -> int:
    return sum(column.width + gap for column in columns)


def _parts(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """Returns the parts of the matrix.

    A group of columns stands in the part of the group before it if there is room. A group that is wider than a part
    is cut.
    """
    parts: list[list[Column]] = []
    for group in _groups(columns):
        if parts and _length([*parts[-1], *group], _NARROW_GAP) <= width:
            parts[-1].extend(group)
        else:
            parts.extend(_cut(group, width))
    return parts


def _groups(columns: Sequence[Column]) -> Iterator[list[Column]]:
    names = dict.fromkeys(column.group for column in columns)
    return ([column for column in columns if column.group == name] for name in names)


def _cut(group: Sequence[Column], width: int) -> Iterator[list[Column]]:
    """Cuts a group into the fewest parts that fit, with about as many columns each; a part has at least one column."""
    for count in range(1, len(group) + 1):
        size = -(-len(group) // count)
        parts = [list(group[start : start + size]) for start in range(0, len(group), size)]
        if size == 1 or all(_length(part, _NARROW_GAP) <= width for part in parts):
            return iter(parts)
    return iter(())


def _with_words(labels: Sequence[Text], columns: Sequence[Column]) -> tuple[list[Text], list[Column]]:
    """Returns the rows in which at least one cell is not empty."""
    rows = [row for row, _ in enumerate(labels) if any(column.cells[row] for column in columns)]
    return [labels[row] for row in rows], [
        replace(column, cells=[column.cells[row] for row in rows]) for column in columns
    ]


def _part(labels: Sequence[Text], columns: Sequence[Column], first: int, gap: int) -> Text:
    lines = [_line(Text(), [column.heading for column in columns], columns, first, gap)]
    for row, label in enumerate(labels):
        lines.append(_line(label, [column.cells[row] for column in columns], columns, first, gap))
    return Text("\n").join(lines)


def _line(label: Text, words: Sequence[Text], columns: Sequence[Column], first: int, gap: int) -> Text:
    line = Text().append_text(label).append(" " * (first - label.cell_len))
    for word, column in zip(words, columns, strict=True):
        blank = " " * (column.width - word.cell_len)
        line.append(" " * gap)
        line = line.append(blank).append_text(word) if column.to_the_right else line.append_text(word).append(blank)
    line.rstrip()
    return line
