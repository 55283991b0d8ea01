"""Typed reading of the members of a JSON object, with errors that name the path of a wrong member."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from webhook.words.errors import FormatError

T = TypeVar("T")

MAX_INTEGER = 2**53
"""The largest integer that JSON readers of other languages read without losing digits."""

MAX_TEXT = 4096
"""Characters of a text. A sentence about a node has a few hundred. Messages repeat such texts, so they need a limit."""

_TEXT = f"a text of printable characters, at most {MAX_TEXT} of them"


def _is_text(value: Any) -> bool:
    """Returns whether a value is a text without control characters, which would reach a terminal when it is shown."""
    return isinstance(value, str) and len(value) <= MAX_TEXT and value.isprintable()


def _is_amount(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_INTEGER


class Fields:
    """The members of one JSON object. Members that are never read are ignored: a newer writer may add some.

    Args:
        source: The name of the document in messages, for example ``ConfigMap gpu-topology-node-1``.
        path: The place of the object in the document, ``gpus[3]``; empty for the document itself.
        value: The decoded JSON value at that place.

    Raises:
        FormatError: ``value`` is no object. All methods raise it for a member of another type than they return.
    """

    def __init__(self, source: str, path: str, value: Any) -> None:
        self._source, self._path = source, path
        if not isinstance(value, Mapping):
            self.fail("", "an object", value)
        self._members: Mapping[str, Any] = value

    def fail(self, name: str, expected: str, found: object) -> NoReturn:
        """Raises the error about the member ``name``."""
        where = ".".join(part for part in (self._path, name) if part)
        raise FormatError(f"{self._source}: {where}" if where else self._source, expected=expected, found=found)

    def text(self, name: str, default: str | None = "") -> str:
        """Reads a string. With the default None the member is required and not empty."""
        value = self._members.get(name)
        if value is None and default is not None:
            return default
        if not _is_text(value) or (default is None and not value):
            self.fail(name, _TEXT, "nothing" if value is None else value)
        return str(value)

    def number(self, name: str, default: int | None = None) -> int:
        """Reads a whole number from 0. Without a default the member is required."""
        value = self.optional_number(name)
        if value is not None:
            return value
        if default is None:
            self.fail(name, "a whole number from 0", "nothing")
        return default

    def optional_number(self, name: str) -> int | None:
        """Reads a whole number from 0; None if the member is missing."""
        value = self._members.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_INTEGER:
            self.fail(name, "a whole number from 0", value)
        return value

    def part(self, name: str, read: "Callable[[Fields], T]") -> T | None:
        """Reads an object; None if the member is missing."""
        value = self._members.get(name)
        return None if value is None else read(Fields(self._source, self._join(name), value))

    def parts(self, name: str, read: "Callable[[Fields], T]") -> tuple[T, ...]:
        """Reads a list of objects; empty if the member is missing."""
        return tuple(read(Fields(self._source, path, value)) for path, value in self._entries(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Reads a list of strings; empty if the member is missing."""
        values = []
        for path, value in self._entries(name):
            if not _is_text(value):
                raise FormatError(f"{self._source}: {path}", expected=_TEXT, found=value)
            values.append(value)
        return tuple(values)

    def pairs(self, name: str) -> tuple[tuple[str, str], ...]:
        """Reads an object of strings as pairs in the written order; empty if the member is missing."""
        value = self._members.get(name)
        if value is None:
            return ()
        if not isinstance(value, Mapping) or not all(_is_text(text) for pair in value.items() for text in pair):
            self.fail(name, "an object of texts", value)
        return tuple(value.items())

    def amounts(self, name: str) -> tuple[tuple[str, int], ...]:
        """Reads an object of whole numbers from 1 as pairs in the written order; empty if the member is missing."""
        value = self._members.get(name)
        if value is None:
            return ()
        if not isinstance(value, Mapping) or not all(_is_text(key) and _is_amount(n) for key, n in value.items()):
            self.fail(name, "an object of whole numbers from 1", value)
        return tuple(value.items())

    def _entries(self, name: str) -> list[tuple[str, Any]]:
        value = self._members.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.fail(name, "a list", value)
        return [(f"{self._join(name)}[{position}]", entry) for position, entry in enumerate(value)]

    def _join(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name
