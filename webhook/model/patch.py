"""JSON Patch (RFC 6902) and JSON Pointer (RFC 6901)."""

from functools import lru_cache
from typing import Any

import jsonpointer
import msgspec

# The keys that patches name are few and constant: resource names, annotations, fields.
escape = lru_cache(maxsize=1024)(jsonpointer.escape)


class Operation(msgspec.Struct, gc=False):
    """One operation; ``value`` is left out of ``remove``. It may be ``msgspec.Raw``: JSON that was encoded before."""

    op: str
    path: str
    value: Any = msgspec.UNSET


def pointer(*parts: str | int) -> str:
    """A JSON pointer from unescaped parts: ``pointer("metadata", "annotations", "a/b")``."""
    return "".join(f"/{escape(str(part))}" for part in parts)
