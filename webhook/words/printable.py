"""Text from outside in a form to show: in logs, messages, warnings, Events and on a terminal. Standard library only.

All of these follow one rule. Characters that a terminal, a log viewer or a browser may act on, or does not show, are
written as Python's escapes. Printable letters of any language stay as they are. Long texts are cut, and say so.
"""

import re

TEXT_LIMIT = 1024
"""The most characters of one text in a log."""

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""The invisible characters that ``str.isprintable`` lets through: Default_Ignorable_Code_Point of Unicode's
DerivedCoreProperties.txt. It refuses the other ones (C0, C1, bidirectional, zero-width, surrogates)."""
_NOTE_LIMIT = 40


def printable(text: str) -> str:
    """Returns ``text`` with an escape for each character that is neither visible nor a plain blank."""
    if text.isprintable() and (text.isascii() or not _INVISIBLE.search(text)):
        return text
    return "".join([character if _is_visible(character) else _escaped(character) for character in text])


def printable_json(text: str) -> str:
    """Returns a JSON document of the same value, with JSON's escapes for what :func:`printable` escapes.

    Args:
        text: A JSON document. Its line breaks between values stay.
    """
    return "\n".join([_with_json_escapes(line) for line in text.split("\n")])


def fitted(text: str, limit: int = TEXT_LIMIT) -> str:
    """Returns ``text`` as :func:`printable` has it, in at most ``limit`` characters; a note at the end tells of a cut.

    The work is bounded by ``limit``, not by the length of the text. A text that was fitted stays as it is.

    Args:
        text: A text from outside.
        limit: The most characters, at least 64.
    """
    shown = printable(text[:limit])
    if len(text) <= limit and len(shown) <= limit:
        return shown
    return f"{shown[: limit - _NOTE_LIMIT]}... ({len(text)} characters)"


def _with_json_escapes(line: str) -> str:
    if printable(line) == line:
        return line
    return "".join([one if _is_visible(one) else _json_escaped(one) for one in line])


def _json_escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join([f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4)])


def _is_visible(character: str) -> bool:
    return character.isprintable() and not _INVISIBLE.match(character)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
