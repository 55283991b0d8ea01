"""Whether a pod is as a JSON patch makes it: what is asked when the answer to the patch was lost."""

from collections.abc import Sequence
from typing import Any

import msgspec
from jsonpointer import JsonPointerException, resolve_pointer

from webhook.words.nesting import decode_answer
from webhook.words.patch import Operation

_ANY = msgspec.json.Decoder()
_UID = "/metadata/uid"


def has_effect(document: bytes | msgspec.Raw, operations: Sequence[Operation]) -> bool:
    """Whether it is the pod that they test for, and each value that they set stands there; not so if they set none.

    Entries of lists are not looked at, because others shift them.

    Raises:
        msgspec.DecodeError: it is no JSON.
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
