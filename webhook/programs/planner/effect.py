"""The comparison of a pod with a JSON patch, for when the answer to the patch was lost."""

from collections.abc import Sequence
from typing import Any

import msgspec
from jsonpointer import resolve_pointer

from webhook.words.nesting import decode_answer
from webhook.words.patch import Operation

_ANY = msgspec.json.Decoder()
_UID = "/metadata/uid"
_ABSENT = object()


def has_effect(document: bytes | msgspec.Raw, operations: Sequence[Operation]) -> bool:
    """Return whether the document is the pod that ``operations`` test for, with the values that they set and no others.

    It has each value that they set, and none of those that they remove. The answer is ``False`` if they do neither.
    Entries of lists are left out, because other writes shift them.

    Raises:
        msgspec.DecodeError: the document is no JSON.
    """
    pod = decode_answer(_ANY, document)
    changed = [one for one in operations if not _is_entry(one.path)]
    wanted = [one for one in changed if one.op in ("add", "replace")]
    gone = [one for one in changed if one.op == "remove"]
    same = [one for one in changed if one.op == "test" and one.path == _UID]
    return (
        bool(wanted or gone)
        and all(_stands(pod, one) for one in (*same, *wanted))
        and not any(_is_there(pod, one) for one in gone)
    )


def _is_entry(path: str) -> bool:
    last = path.rpartition("/")[2]
    return last == "-" or last.isdigit()


def _stands(pod: Any, operation: Operation) -> bool:
    found = resolve_pointer(pod, operation.path, _ABSENT)
    return bool(found == msgspec.to_builtins(operation.value))


def _is_there(pod: Any, operation: Operation) -> bool:
    return resolve_pointer(pod, operation.path, _ABSENT) is not _ABSENT
