"""The legend: a sample and a sentence for each kind of line or box that the picture has."""

from collections.abc import Iterable
from dataclasses import dataclass

from webhook.insight.drawings.elements import element, fit, group, path, text, width_of

_SAMPLE, _GAP, _LINE = 34.0, 26.0, 24.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One kind of line or box, with its sentence."""

    class_: str
    words: str
    width: float | None = None
    """Width of the line; None: the one of the style sheet."""
    colour: str | None = None
    is_box: bool = False


def legend(entries: Iterable[Entry], x: float, y: float, width: float) -> tuple[str, float]:
    """Returns the entries in as many lines as they need, and the height of all lines."""
    parts, left, top = [], x, y
    for entry in entries:
        words = fit(entry.words, width - _SAMPLE - 8, 12)
        needed = _SAMPLE + 8 + width_of(words, 12)
        if left > x and left + needed > x + width:
            left, top = x, top + _LINE
        parts += [_sample(entry, left, top), text(words, left + _SAMPLE + 8, top + 4, "legend")]
        left += needed + _GAP
    return group(parts, "key"), top - y + _LINE if parts else 0.0


def _sample(entry: Entry, x: float, y: float) -> str:
    if entry.is_box:
        return element("rect", x=x, y=y - 8, width=_SAMPLE, height=16, rx=4, class_=entry.class_)
    return path(f"M{x:g} {y:g}h{_SAMPLE:g}", entry.class_, stroke_width=entry.width, stroke=entry.colour)
