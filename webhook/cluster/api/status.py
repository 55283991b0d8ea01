"""What an answer of the API server that is no success means: its ``Status``, read, and whether to try again."""

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
"""Besides 5xx: what a later request, perhaps with a newer token, may get past."""
WORDS_LIMIT = 4096
"""Characters of a message of the API server. It repeats what others wrote, and goes into logs and to terminals."""


class Answer(NamedTuple):
    """What a server said."""

    status: int
    """HTTP status."""
    body: bytes
    headers: Mapping[str, str] = {}
    """By their names, whatever the case of these."""

    @property
    def date(self) -> datetime | None:
        """When the server answered, by its own clock, in UTC; ``None`` if it does not say so."""
        try:
            found = parsedate_to_datetime(self.headers.get("Date", ""))
        except (TypeError, ValueError):
            return None
        return found if found.tzinfo else found.replace(tzinfo=UTC)


class _Details(msgspec.Struct):
    kind: str | None = None


class _Status(msgspec.Struct):
    """The fields of ``v1`` that we read."""

    kind: str = ""
    message: str | None = None
    code: int = 0
    details: _Details | None = None


_DECODER = msgspec.json.Decoder(_Status)


def failure(what: str, answer: Answer) -> ApiError:
    """The error that an answer stands for; ``what`` was asked, such as ``get pod team-a/train``.

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
    """Whether a refusal is the API server's own, and not that of something in between."""
    found = _read(answer.body)
    return found.kind == "Status" and found.code == answer.status


def failure_of_event(what: str, document: msgspec.Raw) -> ApiError:
    """The error that the object of a watch event of type ``ERROR`` stands for."""
    body = bytes(document)
    return failure(what, Answer(_read(body).code, body))


def _read(body: bytes) -> _Status:
    with contextlib.suppress(msgspec.DecodeError):
        return decode_answer(_DECODER, body)
    return _Status()


def _words(found: _Status, answer: Answer) -> str:
    """The message, or the beginning of what stands there instead; escaped and bounded, with the code."""
    if found.message:
        return f"{fitted(found.message, WORDS_LIMIT)} ({answer.status})"
    text = shorten(answer.body.decode(errors="replace"))
    return f"expected the words of an API server, found {text} ({answer.status})"


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds; the API server sends no dates (apiserver pkg/server/filters/maxinflight.go)."""
    text = headers.get("Retry-After", "")
    return float(text) if text.isdecimal() and text.isascii() and len(text) < 6 else 0.0
