"""JSON Patch (RFC 6902), built operation by operation and never by comparing documents."""

from typing import Any

import msgspec
from jsonpointer import escape


class Operation(msgspec.Struct, gc=False):
    """One operation; ``value`` is left out of ``remove``."""

    op: str
    path: str
    value: Any = msgspec.UNSET


def pointer(*parts: str | int) -> str:
    """A JSON pointer from unescaped parts: ``pointer("metadata", "annotations", "a/b")``."""
    return "".join(f"/{escape(str(part))}" for part in parts)


class PatchBuilder:
    """Collects operations and remembers which parents exist.

    ``add`` to a member whose parent is missing (or ``null``) fails in the API server, so each method is told whether the
    parent exists in the pod; the first addition to a missing parent creates it.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._created: set[str] = set()

    def append(self, path: str, item: Any, *, exists: bool) -> None:
        """Add ``item`` to the end of the list at ``path``."""
        if exists or path in self._created:
            self.operations.append(Operation("add", path + "/-", item))
        else:
            self._create(path, [item])

    def put(self, path: str, key: str, value: Any, *, exists: bool, replaces: bool = False) -> None:
        """Set ``key`` of the object at ``path``; ``replaces`` says that the key is there already."""
        if exists or path in self._created:
            self.operations.append(Operation("replace" if replaces else "add", f"{path}/{escape(key)}", value))
        else:
            self._create(path, {key: value})

    def remove(self, path: str, key: str) -> None:
        """Remove ``key``, which must be there, from the object at ``path``."""
        self.operations.append(Operation("remove", f"{path}/{escape(key)}"))

    def replace(self, path: str, value: Any) -> None:
        """Replace what is at ``path``."""
        self.operations.append(Operation("replace", path, value))

    def insert_first(self, path: str, item: Any, *, exists: bool) -> None:
        """Add ``item`` to the front of the list at ``path``: positions after it shift by one."""
        if exists or path in self._created:
            self.operations.append(Operation("add", path + "/0", item))
        else:
            self._create(path, [item])

    def ensure(self, path: str, *, exists: bool) -> None:
        """Make sure that there is an object at ``path``."""
        if not exists and path not in self._created:
            self._create(path, {})

    def _create(self, path: str, value: Any) -> None:
        self.operations.append(Operation("add", path, value))
        self._created.add(path)
