"""A text of several documents, cut into the documents and the text between them, without loss."""

import re
from collections.abc import Iterator

import msgspec

BYTE_ORDER_MARK = "\ufeff"

_MARKER = re.compile(r"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)
_LEAD = re.compile(
    rf"{BYTE_ORDER_MARK}?(?:---[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z))?{BYTE_ORDER_MARK}?(?:[ \t]*(?:#[^\n]*)?\r?\n)*"
)
_KEEPS_BLANK_LINES = re.compile(r"[|>][0-9]?\+")


class Part(msgspec.Struct, frozen=True):
    """One document with the text around it. ``lead + body + tail`` is the text as it was written."""

    lead: str
    """The byte order mark, the separator ``---`` and comments before the document."""
    body: str
    """The document; empty if there is none."""
    tail: str
    """The comments after the document, and the end marker ``...``."""
    line: int
    """The line of the whole text on which ``body`` begins, from 1."""


def split(text: str) -> Iterator[Part]:
    """Yields the parts of a text in order; joined, they are the text again.

    A line that begins with ``---`` or ``...`` and a blank always separates documents, regardless of context: YAML 1.2,
    9.1.2 (``c-forbidden``).
    """
    line = 1
    for piece in _cut(text):
        part = _part(piece, line)
        yield part
        line += piece.count("\n")


def _cut(text: str) -> Iterator[str]:
    if not _may_have_markers(text):
        yield from (text,) if text else ()
        return
    start = 0
    for marker in _MARKER.finditer(text):
        end = marker.start()
        if marker[0] == "...":
            end = text.find("\n", end) + 1 or len(text)
        elif _is_only_directives(text[start:end]):
            continue
        if end > start:
            yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _may_have_markers(text: str) -> bool:
    """Returns whether a text needs the slow search for markers: lists in JSON may have many MiB and no marker."""
    return any(text.startswith(marker) or f"\n{marker}" in text for marker in ("---", "..."))


def _is_only_directives(text: str) -> bool:
    """Returns whether lines are only directives such as ``%YAML 1.2``, which precede the ``---`` of their document."""
    lines = text.splitlines()
    return any(line.startswith("%") for line in lines) and all(
        line.startswith(("%", "#")) or not line for line in lines
    )


def _part(text: str, line: int) -> Part:
    match = _LEAD.match(text)
    lead = match[0] if match else ""
    body = text[len(lead) :]
    if not body.strip():
        return Part(text, "", "", line)
    tail = _tail(body)
    return Part(lead, body[: len(body) - len(tail)], tail, line + lead.count("\n"))


def _tail(body: str) -> str:
    """Returns the last lines of a document that belong to no value."""
    end = _end_of_values(body, blank_lines_count=False)
    if end < len(body) and _KEEPS_BLANK_LINES.search(body):
        end = _end_of_values(body, blank_lines_count=True)
    return body[end:]


def _end_of_values(body: str, *, blank_lines_count: bool) -> int:
    end = len(body)
    while end:
        start = body.rfind("\n", 0, end - 1) + 1
        last = body[start:end].rstrip()
        is_marker = bool(_MARKER.match(last)) and last.startswith(".")
        if not is_marker and (blank_lines_count or (last and not last.startswith("#"))):
            break
        end = start
    return end
