"""Reads members of a JSON object; a message names the path to what is wrong."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from webhook.words.errors import FormatError

T = TypeVar("T")

MAX_INTEGER = 2**53
"""Beyond it JSON readers of other languages lose digits."""

MAX_TEXT = 4096
"""Characters of a text. A sentence about a node has a few hundred; messages repeat such texts, and have to end."""

_TEXT = f"a text of printable characters, at most {MAX_TEXT} of them"


def _is_text(value: Any) -> bool:
    """Control characters would reach a terminal when the topology is shown."""
    return isinstance(value, str) and len(value) <= MAX_TEXT and value.isprintable()


def _is_amount(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_INTEGER


class Fields:
    """One JSON object. Members that are not asked for are ignored: a newer writer may know more than we do.

    Args:
        source: How messages call the document, for example ``ConfigMap gpu-topology-node-1``.
        path: Where in the document the object is, ``gpus[3]``; empty for the document itself.
        value: What stands there.

    Raises:
        FormatError: ``value`` is no object. All methods raise it for a member that is not what they promise.
    """

    def __init__(self, source: str, path: str, value: Any) -> None:
        self._source, self._path = source, path
        if not isinstance(value, Mapping):
            self.fail("", "an object", value)
        self._members: Mapping[str, Any] = value

    def fail(self, name: str, expected: str, found: object) -> NoReturn:
        """Refuse the member ``name``."""
        where = ".".join(part for part in (self._path, name) if part)
        raise FormatError(f"{self._source}: {where}" if where else self._source, expected=expected, found=found)

    def text(self, name: str, default: str | None = "") -> str:
        """A string; without a default it must be there and not empty."""
        value = self._members.get(name)
        if value is None and default is not None:
            return default
        if not _is_text(value) or (default is None and not value):
            self.fail(name, _TEXT, "nothing" if value is None else value)
        return str(value)

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number from 0; without a default it must be there."""
        value = self.optional_number(name)
        if value is not None:
            return value
        if default is None:
            self.fail(name, "a whole number from 0", "nothing")
        return default

    def optional_number(self, name: str) -> int | None:
        """A whole number from 0, or nothing."""
        value = self._members.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_INTEGER:
            self.fail(name, "a whole number from 0", value)
        return value

    def part(self, name: str, read: "Callable[[Fields], T]") -> T | None:
        """An object, or nothing."""
        value = self._members.get(name)
        return None if value is None else read(Fields(self._source, self._join(name), value))

    def parts(self, name: str, read: "Callable[[Fields], T]") -> tuple[T, ...]:
        """A list of objects; nothing is an empty one."""
        return tuple(read(Fields(self._source, path, value)) for path, value in self._entries(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; nothing is an empty one."""
        values = []
        for path, value in self._entries(name):
            if not _is_text(value):
                raise FormatError(f"{self._source}: {path}", expected=_TEXT, found=value)
            values.append(value)
        return tuple(values)

    def pairs(self, name: str) -> tuple[tuple[str, str], ...]:
        """An object of strings as pairs in the order written; nothing is an empty one."""
        value = self._members.get(name)
        if value is None:
            return ()
        if not isinstance(value, Mapping) or not all(_is_text(text) for pair in value.items() for text in pair):
            self.fail(name, "an object of texts", value)
        return tuple(value.items())

    def amounts(self, name: str) -> tuple[tuple[str, int], ...]:
        """An object of whole numbers from 1 as pairs in the order written; nothing is an empty one."""
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
