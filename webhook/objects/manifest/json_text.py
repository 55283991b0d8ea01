"""JSON documents as people and programs write them: read one after the other, written as they were."""

import json
import re
from collections.abc import Iterator
from typing import Any

from webhook.manifest.extent import check_depth
from webhook.model.errors import ManifestError, shorten

_BLANKS = re.compile(r"[ \t\r\n]*")
_FIRST_INDENT = re.compile(r"[{\[]\r?\n([ \t]*)")
_ESCAPED_BY_GO = (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"))
"""What Go's encoding/json escapes, and with it kubectl."""


class _Duplicate(Exception):
    """A key stands twice in one object."""


def read_json(text: str, source: str, line: int) -> Iterator[tuple[Any, int, int, int]]:
    """Each document of a text with the positions where it begins and ends, and the line of its beginning.

    Args:
        text: Documents with nothing but blanks between them.
        source: How messages call it.
        line: The number of its first line.

    Raises:
        ManifestError: it is not JSON; the text says where.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse, parse_float=_number)
    end, first = 0, line
    while (position := _after_blanks(text, end)) < len(text):
        line += text.count("\n", end, position)
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            at = first + error.lineno - 1
            raise ManifestError(f"{source} line {at} column {error.colno}: expected JSON: {error.msg}") from None
        except _Duplicate as error:
            said = f"found key {error} twice in one object of the document that begins there"
            raise ManifestError(f"{source} line {line}: expected JSON, {said}") from None
        except RecursionError:
            raise ManifestError(f"{source}: expected a manifest, found JSON that is nested too deep") from None
        except ValueError as error:
            raise ManifestError(f"{source}: expected JSON, found {shorten(str(error))}") from None
        check_depth(value, source)
        yield value, position, end, line
        line += text.count("\n", position, end)


def write_like(text: str, value: Any) -> str:
    """``value`` as JSON, indented and escaped as ``text`` is."""
    match = _FIRST_INDENT.match(text)
    indent = match[1] if match else None
    colon = text.find('":') + 2
    is_compact = indent is None and text[colon : colon + 1] != " "
    separators = (",", ":") if is_compact else (", " if indent is None else ",", ": ")
    out = json.dumps(value, indent=indent, separators=separators, ensure_ascii=text.isascii())
    for character, escaped in _ESCAPED_BY_GO:
        if escaped in text and character not in text:
            out = out.replace(character, escaped)  # stands in texts alone, so this changes no value
    return out.replace("\n", "\r\n") if "\r\n" in text else out


def _after_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match else position


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Duplicate(shorten(twice))
    return found


def _refuse(word: str) -> Any:
    raise ValueError(word)


def _number(text: str) -> float:
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError(text)
    return number
