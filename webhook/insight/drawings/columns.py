"""Rows of words in columns."""

from collections.abc import Sequence

from rich.text import Text

_GAP = 2


def columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Text:
    """Returns a table. Columns that are empty in every row are left out.

    Args:
        headings: The headings of the columns.
        rows: The rows, each with as many words as there are headings.
    """
    used = [place for place, _ in enumerate(headings) if any(row[place] for row in rows)]
    widths = {place: max(len(row[place]) for row in (headings, *rows)) for place in used}
    lines = [_line([headings[place] for place in used], [widths[place] for place in used], style="dim")]
    lines += [_line([row[place] for place in used], [widths[place] for place in used]) for row in rows]
    return Text("\n").join(lines)


def _line(words: Sequence[str], widths: Sequence[int], style: str = "") -> Text:
    padded = (f"{word:<{width + _GAP}}" for word, width in zip(words, widths, strict=True))
    return Text("".join(padded).rstrip(), style=style)
