"""The comparison of a pod with a JSON patch, for when the answer to the patch was lost."""

from collections.abc import Sequence
from typing import Any

import msgspec
from jsonpointer import JsonPointerException, resolve_pointer

from webhook.words.nesting import decode_answer
from webhook.words.patch import Operation

_ANY = msgspec.json.Decoder()
_UID = "/metadata/uid"


def has_effect(document: bytes | msgspec.Raw, operations: Sequence[Operation]) -> bool:
    """Return whether the document is the pod that ``operations`` test for, and has each value that they set.

    The answer is ``False`` if they set no value. Entries of lists are left out, because other writes shift them.

    Raises:
        msgspec.DecodeError: the document is no JSON.
    """
    pod = decode_answer(_ANY, document)
    wanted = [one for one in operations if one.op in ("add", "replace") and not _is_entry(one.path)]
    same = [one for one in operations if one.op == "test" and one.path == _UID]
    return bool(wanted) and all(_stands(pod, one) for one in (*same, *wanted))


def _is_entry(path: str) -> bool:
    last = path.rpartition("/")[2]
    return last == "-" or last.isdigit()


def _stands(pod: Any, operation: Operation) -> bool:
    try:
        found = resolve_pointer(pod, operation.path)
    except JsonPointerException:
        return False
    return bool(found == msgspec.to_builtins(operation.value))
