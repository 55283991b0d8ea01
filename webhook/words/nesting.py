"""The decoding of foreign JSON: each fault of a document is one kind of error, and deep nesting hides no other values.

The parameters of a ResourceClaim are any JSON of up to 10 KiB (k8s.io/api resource/v1, OpaqueDeviceConfiguration), so a
tenant may write thousands of brackets. Above 1,000 levels or so msgspec raises RecursionError, even for parts that it
skips. One such object would hide all others of a list.
"""

import re
from typing import TypeVar

import msgspec

MOST_LEVELS = 100
"""The most levels that are kept where something is nested too deep. Kubernetes' own objects have less than 30."""
_CUT = b'"nested too deep"'
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_OPENING, _CLOSING = b"[{", b"]}"
Document = bytes | bytearray | memoryview | msgspec.Raw
Json = Document | str
_T = TypeVar("_T")


class TooDeep(msgspec.DecodeError):
    """The JSON is nested more deeply than a decoder goes."""


def decode(decoder: msgspec.json.Decoder[_T], document: Json) -> _T:
    """Decodes a document. Each fault of it is one kind of error.

    Raises:
        msgspec.DecodeError: it is no such document, no UTF-8, or nested too deep.
    """
    try:
        return decoder.decode(document)
    except UnicodeError as error:
        raise msgspec.DecodeError(str(error)) from None
    except RecursionError:
        raise TooDeep("JSON that is nested too deep") from None


def decode_answer(decoder: msgspec.json.Decoder[_T], document: Document) -> _T:
    """Decodes an answer of the API server, or a part of it, in which values may be nested too deep.

    In that case a text replaces each value below :data:`MOST_LEVELS`. The depth that a decoder reaches depends on its
    caller. So each part of an answer is read in this way, even if the whole could be read.

    Raises:
        msgspec.DecodeError: it is no such document, or no UTF-8.
    """
    try:
        return decode(decoder, document)
    except TooDeep:
        return decode(decoder, shallow(bytes(document)))


def shallow(document: bytes) -> bytes:
    """Returns the document with a text in place of each value deeper than :data:`MOST_LEVELS`, in one pass."""
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
