"""The strict reader for JSON of other programs: it refuses what Python's reader takes beyond the standard."""

import json
from typing import Any

from webhook.decisions.allocation.limit import check_length
from webhook.words.errors import FormatError


class _RefusedError(ValueError):
    """The text is JSON that Python's reader takes, but that other readers refuse or read differently."""


def read_json(text: str, source: str, *, expected: str) -> Any:
    """Returns the value of a text in JSON.

    Raises:
        FormatError: ``text`` is no JSON, names a member twice, holds NaN or Infinity, is nested too deeply or too long.
    """
    check_length(text, source)
    try:
        return json.loads(text, object_pairs_hook=_members, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FormatError(source, expected=expected, found=_fault(error)) from None


def described(value: object) -> object:
    """Returns a value as a message shows it. Lists and objects may be nested deeper than Python can print them."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return "nothing" if value is None else value


def _members(members: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in members:
        if name in result:
            raise _RefusedError(f"{name} twice")
        result[name] = value
    return result


def _refuse_constant(name: str) -> Any:
    raise _RefusedError(name)


def _fault(error: ValueError | RecursionError) -> str:
    """Returns the reason why a text is refused, with the place first: messages cut long texts."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error) if isinstance(error, _RefusedError) else "a number with too many digits"
