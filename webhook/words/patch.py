"""JSON Patch (RFC 6902) and JSON Pointer (RFC 6901)."""

from typing import Any

import msgspec
from jsonpointer import escape


class Operation(msgspec.Struct, frozen=True, gc=False):
    """One operation. ``remove`` has no ``value``. A value may be ``msgspec.Raw``: JSON that was encoded before."""

    op: str
    path: str
    value: Any = msgspec.UNSET


def pointer(*parts: str | int) -> str:
    """Returns a JSON pointer from unescaped parts: ``pointer("metadata", "annotations", "a/b")``."""
    return "".join(f"/{escape(str(part))}" for part in parts)
