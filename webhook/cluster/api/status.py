"""The meaning of an unsuccessful answer of the API server: its ``Status``, and whether to try again."""

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import msgspec

from webhook.cluster.api.errors import ApiError, ApiRefused, ApiServerAway, Conflict, Denied, Expired, NotFound
from webhook.words.errors import shorten
from webhook.words.nesting import decode_answer
from webhook.words.printable import fitted, printable

_LATER = frozenset({401, 408, 429})
"""The codes besides 5xx with which a later request, perhaps with a newer token, may succeed."""
WORDS_LIMIT = 4096
"""The most characters of a message of the API server. It repeats foreign text, and goes into logs and to terminals."""


class Answer(NamedTuple):
    """The answer of a server."""

    status: int
    """The HTTP status."""
    body: bytes
    headers: Mapping[str, str] = {}
    """The headers by their names, in any case."""

    @property
    def date(self) -> datetime | None:
        """The time of the answer by the server's clock, in UTC; ``None`` if the answer has none."""
        try:
            found = parsedate_to_datetime(self.headers.get("Date", ""))
        except (TypeError, ValueError):
            return None
        return found if found.tzinfo else found.replace(tzinfo=UTC)


class _Details(msgspec.Struct):
    kind: str | None = None


class _Status(msgspec.Struct):
    """The fields of the ``v1`` object that we read."""

    kind: str = ""
    message: str | None = None
    code: int = 0
    details: _Details | None = None


_DECODER = msgspec.json.Decoder(_Status)


def failure(what: str, answer: Answer) -> ApiError:
    """Return the error for an answer; ``what`` is the request, such as ``get pod team-a/train``.

    A 404 without the API server's own words may come from a proxy in between or a wrong path, so it is no
    :class:`NotFound`.
    """
    code, found = answer.status, _read(answer.body)
    text = f"{printable(what)}: {_words(found, answer)}"
    if code in _LATER or code >= 500:
        return ApiServerAway(text, status=code, retry_after=_retry_after(answer.headers))
    if code == 404 and found.details is not None and found.details.kind:
        return NotFound(text, date=answer.date)
    named: dict[int, type[ApiError]] = {403: Denied, 409: Conflict, 410: Expired}
    return named.get(code, ApiRefused)(text, status=code)


def is_of_the_api_server(answer: Answer) -> bool:
    """Return whether a refusal is the API server's own, and not that of a proxy in between."""
    found = _read(answer.body)
    return found.kind == "Status" and found.code == answer.status


def failure_of_event(what: str, document: msgspec.Raw) -> ApiError:
    """Return the error for the object of a watch event of type ``ERROR``."""
    body = bytes(document)
    return failure(what, Answer(_read(body).code, body))


def _read(body: bytes) -> _Status:
    with contextlib.suppress(msgspec.DecodeError):
        return decode_answer(_DECODER, body)
    return _Status()


def _words(found: _Status, answer: Answer) -> str:
    """Return the message with the code, or else the beginning of the body; escaped and bounded."""
    if found.message:
        return f"{fitted(found.message, WORDS_LIMIT)} ({answer.status})"
    text = shorten(answer.body.decode(errors="replace"))
    return f"expected the words of an API server, found {text} ({answer.status})"


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds of ``Retry-After``, never a date (apiserver pkg/server/filters/maxinflight.go)."""
    text = headers.get("Retry-After", "")
    return float(text) if text.isdecimal() and text.isascii() and len(text) < 6 else 0.0
