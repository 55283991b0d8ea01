"""JSON of the API server that is nested more deeply than a decoder goes.

The parameters of a ResourceClaim are any JSON of up to 10 KiB (k8s.io/api resource/v1, OpaqueDeviceConfiguration), so a
tenant may write thousands of brackets. Above 1,000 levels or so msgspec raises RecursionError, also for what it skips:
one such object would hide all others of a list.
"""

import re
from typing import TypeVar

import msgspec

MOST_LEVELS = 100
"""Kubernetes' own objects have less than 30."""
_CUT = b'"nested too deep"'
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_OPENING, _CLOSING = b"[{", b"]}"
_T = TypeVar("_T")


def decode(decoder: msgspec.json.Decoder[_T], document: bytes) -> _T:
    """What ``decoder`` makes of the document; values below :data:`MOST_LEVELS` are a text, if they are too deep for it.

    Raises:
        msgspec.MsgspecError: it is no such document.
    """
    try:
        return decoder.decode(document)
    except RecursionError:
        pass
    try:
        return decoder.decode(shallow(document))
    except RecursionError:
        raise msgspec.DecodeError("JSON that is nested too deep") from None


def shallow(document: bytes) -> bytes:
    """The document with a text in place of each value that lies deeper than :data:`MOST_LEVELS`. One pass."""
    parts: list[bytes] = []
    depth = kept = 0
    for token in _TOKEN.finditer(document):
        mark = document[token.start()]
        if mark in _OPENING:
            depth += 1
            if depth == MOST_LEVELS + 1:
                parts.append(document[kept : token.start()])
                kept = len(document)
        elif mark in _CLOSING:
            depth -= 1
            if depth == MOST_LEVELS:
                parts.append(_CUT)
                kept = token.end()
    return b"".join((*parts, document[kept:]))
