"""The raw ASGI paths of the reviews, in front of the FastAPI application.

A FastAPI route costs 53 us of CPU for each request even with raw bodies, more than everything else that a review needs,
so reviews never reach it.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter_ns

from webhook.model.envelope import MalformedReview
from webhook.model.errors import StateUnknown, TooManyNamespaceReads
from webhook.model.outcome import MESSAGE_LIMIT
from webhook.printable import fitted
from webhook.server.asgi import Application, Receive, Scope, Send
from webhook.server.counts import SLOW_SECONDS, Counts
from webhook.server.log import ReviewLog

Answer = Callable[[bytes, int], bytes | Awaitable[bytes]]
"""From the body of a review, and the ``perf_counter_ns`` at which it began to arrive, to the body of the reply."""

_JSON = (b"content-type", b"application/json")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_CLOSE = (b"connection", b"close")
_PIECE_BYTES = 64 * 1024
_SLOW_NS = int(SLOW_SECONDS * 1e9)


class BadRequest(Exception):
    """Ends a request with an HTTP error."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text
        super().__init__(text)


class Reviews:
    """Answers reviews itself and passes every other request to ``application``.

    Args:
        application: Takes what is no review.
        paths: Who answers at each path. An answer that has to wait for something is awaited; one that is there at
            once costs no switch.
        log: Takes what is no review although it came to such a path, and bugs; what the server itself says, too.
        counts: What the answers counted, for whoever asks.
        max_review_bytes: Longer bodies are refused.
    """

    def __init__(
        self,
        application: Application,
        paths: Mapping[str, Answer],
        *,
        log: ReviewLog,
        counts: Counts,
        max_review_bytes: int,
    ) -> None:
        self._application = application
        self._paths = paths
        self.log = log
        self._max_review_bytes = max_review_bytes
        self.counts = counts
        self.draining = False
        """While set, every answer asks the client to close its connection, so that the stop loses no review."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry."""
        reply = self._paths.get(scope["path"]) if scope["type"] == "http" else None
        if reply is None:
            await self._application(scope, receive, send)
            return
        started = arrived = perf_counter_ns()
        size = 0
        try:
            if scope["method"] != "POST":
                raise BadRequest(405, f"{scope['path']}: expected POST, found {scope['method']}")
            body = await _read_body(scope, receive, self._max_review_bytes)
            arrived, size = perf_counter_ns(), len(body)
            answer = reply(body, started)
            del body  # while something is waited for nothing holds it
            if not isinstance(answer, bytes):
                answer = await answer
            status, kind = 200, _JSON
        except (BadRequest, MalformedReview) as error:
            status = error.status if isinstance(error, BadRequest) else 400
            kind, answer = _TEXT, fitted(str(error), MESSAGE_LIMIT).encode()
            self.counts.rejected[status] += 1
            self.log.rejected(status, str(error))
        except StateUnknown as error:  # no answer is better than one from half of the cluster
            if isinstance(error, TooManyNamespaceReads):
                self.counts.limited_reads["namespace"] += 1
            status, kind, answer = 503, _TEXT, fitted(str(error), MESSAGE_LIMIT).encode()
            self.counts.rejected[status] += 1
            self.log.rejected(status, str(error))
        except asyncio.CancelledError:  # the server has let go of the connection: no client waits for the answer
            return
        except Exception:  # the one catch-all: a bug is a 500, and the operator's failurePolicy decides
            status, kind, answer = 500, _TEXT, b"internal error; the log has the details"
            self.counts.rejected[status] += 1
            self.log.failed(traceback.format_exc())
        if (taken := perf_counter_ns() - arrived) >= _SLOW_NS:
            self.counts.slow[scope["path"]] += 1
            self.log.slow(scope["path"], status, size=size, microseconds=taken // 1000)
        await self._answer(send, status, kind, answer)

    async def _answer(self, send: Send, status: int, kind: tuple[bytes, bytes], body: bytes) -> None:
        headers = [kind, (b"content-length", b"%d" % len(body))]
        if self.draining:
            headers.append(_CLOSE)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        # In pieces, since TLS takes in one write whatever it is given, and says only at the next that it was too much.
        for begin in range(0, len(body) or 1, _PIECE_BYTES):
            end = begin + _PIECE_BYTES
            await send({"type": "http.response.body", "body": body[begin:end], "more_body": end < len(body)})


async def _read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body. Our own protocol hands it over in one message; ASGI allows several."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message["body"]
        if len(body) > limit:
            raise _too_large(limit)
        return body
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value[:20]) > limit:
            raise _too_large(limit)
    parts, size = [], 0
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
    raise BadRequest(400, "request body: the client went away before its end")


def _too_large(limit: int) -> BadRequest:
    return BadRequest(413, f"request body: expected at most {limit} bytes (server.maxReviewBytes), found more")
