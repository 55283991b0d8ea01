"""SVG elements as text. Only this module writes markup, and it escapes every text and attribute value."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

_NARROW = 0.56
"""Width of a character as a part of the font size, for the wider ones among the fonts that a viewer may have."""
_WIDE = 1.05
_ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float

    @property
    def center(self) -> float:
        """The x of the centre."""
        return self.x + self.width / 2

    @property
    def right(self) -> float:
        """The x of the right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y of the lower edge."""
        return self.y + self.height


def number(value: float) -> str:
    """Returns a coordinate with at most one decimal: half a pixel is as fine as a person can see."""
    return f"{round(value, 1):g}"


def element(name: str, *children: str, **attributes: str | float | None) -> str:
    """Returns one element.

    ``class_`` stands for the attribute ``class``, an underscore for a dash. Attributes that are None are left out.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(value if isinstance(value, str) else number(value))}"
        for key, value in attributes.items()
        if value is not None
    )
    content = "".join(children)
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def text(words: str, x: float, y: float, class_: str = "") -> str:
    """Returns a line of text; ``y`` is its base line."""
    return element("text", escape(_allowed(words)), x=x, y=y, class_=class_ or None)


def tooltip(words: str, id_: str | None = None) -> str:
    """Returns the title of the picture or group whose first child it is; viewers show it as a tooltip."""
    return element("title", escape(_allowed(words)), id_=id_)


def description(words: str, id_: str) -> str:
    """Returns the description of the picture for people who do not see it."""
    return element("desc", escape(_allowed(words)), id_=id_)


def group(children: Iterable[str], class_: str, **attributes: str | float | None) -> str:
    """Returns a group of elements, each on a line of its own."""
    return element("g", "\n", "\n".join(children), "\n", class_=class_, **attributes)


def path(points: str, class_: str, **attributes: str | float | None) -> str:
    """Returns a path."""
    return element("path", d=points, class_=class_, **attributes)


def rounded(box: Box, class_: str, radius: float = 8.0) -> str:
    """Returns a rectangle with round corners."""
    return element("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=radius, class_=class_)


def width_of(words: str, size: float) -> float:
    """Returns the width of a text; the estimate is rather too large than too small."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in words)
    return size * (wide * _WIDE + (len(words) - wide) * _NARROW)


def fit(words: str, width: float, size: float) -> str:
    """Returns the text, cut if it is wider than ``width``."""
    if width_of(words, size) <= width:
        return words
    while words and width_of(words + _ELLIPSIS, size) > width:
        words = words[:-1]
    return words.rstrip() + _ELLIPSIS


def wrap(words: str, width: float, size: float) -> list[str]:
    """Returns the text in lines that are not wider than ``width``; a word that is wider is cut."""
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if width_of(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(fit(word, width, size))
    return [line for line in lines if line]


def _allowed(words: str) -> str:
    """Returns the text with ``?`` for characters that cannot be printed: XML 1.0 forbids some even when escaped."""
    return "".join(character if character.isprintable() else "?" for character in words)
