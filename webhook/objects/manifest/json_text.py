"""JSON documents as people and programs write them: the reading of one after the other, and the writing."""

import json
import re
from collections.abc import Iterator
from typing import Any

from webhook.objects.manifest.extent import check_depth
from webhook.words.errors import ManifestError, shorten

_BLANKS = re.compile(r"[ \t\r\n]*")
_FIRST_INDENT = re.compile(r"[{\[]\r?\n([ \t]*)")


class _Duplicate(Exception):
    """A key occurs twice in one object."""


def read_json(text: str, source: str, line: int) -> Iterator[tuple[Any, int, int, int]]:
    """Yields each document of a text with the positions of its begin and end, and the line of its begin.

    Args:
        text: Documents with nothing but blanks between them.
        source: The name of the text in messages.
        line: The number of its first line.

    Raises:
        ManifestError: the text is not JSON; the message says where.
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


def format_json(value: Any, *, like: str) -> str:
    """Returns ``value`` as JSON, indented as ``like`` is, and without blanks where ``like`` has none."""
    match = _FIRST_INDENT.match(like)
    separators = (",", ":") if match is None and '": ' not in like else None
    out = json.dumps(value, indent=match[1] if match else None, ensure_ascii=like.isascii(), separators=separators)
    return out.replace("\n", "\r\n") if "\r\n" in like else out


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
