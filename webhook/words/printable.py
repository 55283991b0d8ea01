"""Text from outside as we show it: in logs, messages, warnings, Events and on a terminal. Standard library only.

One rule for all of them: what a terminal, a log viewer or a browser may act on, or does not show, is written as an
escape, as Python writes it; printable letters of any language stay as they are. Long texts are cut, and say so.
"""

import re

TEXT_LIMIT = 1024
"""Characters of one text in a log."""

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What ``str.isprintable`` lets through although it shows nothing: Default_Ignorable_Code_Point of Unicode's
DerivedCoreProperties.txt. Of the others (C0, C1, bidirectional, zero-width, surrogates) it knows."""
_NOTE_LIMIT = 40


def printable(text: str) -> str:
    """``text`` with everything escaped that is no visible character or plain blank."""
    if text.isprintable() and (text.isascii() or not _INVISIBLE.search(text)):
        return text
    return "".join([character if _is_visible(character) else _escaped(character) for character in text])


def fitted(text: str, limit: int = TEXT_LIMIT) -> str:
    """``text`` as :func:`printable` has it, in at most ``limit`` characters; what was cut is noted at the end.

    The work is bounded by ``limit``, not by the length of the text. A text that was fitted stays as it is.

    Args:
        text: From outside.
        limit: At least 64.
    """
    shown = printable(text[:limit])
    if len(text) <= limit and len(shown) <= limit:
        return shown
    return f"{shown[: limit - _NOTE_LIMIT]}... ({len(text)} characters)"


def _is_visible(character: str) -> bool:
    return character.isprintable() and not _INVISIBLE.match(character)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
