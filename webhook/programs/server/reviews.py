"""The raw ASGI paths of the reviews, in front of the FastAPI application.

A FastAPI route costs 53 us of CPU for each request even with raw bodies, more than everything else that a review needs,
so reviews never reach it.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter_ns

from webhook.objects.envelope import MalformedReview
from webhook.programs.http.asgi import Application, Receive, Scope, Send
from webhook.programs.http.body import JSON, TEXT, BadRequest, read_body, send_answer
from webhook.programs.server.counts import SLOW_SECONDS, Counts
from webhook.programs.server.log import ReviewLog
from webhook.words.errors import StateUnknown, TooManyNamespaceReads
from webhook.words.outcome import MESSAGE_LIMIT
from webhook.words.printable import fitted

Answer = Callable[[bytes, int], bytes | Awaitable[bytes]]
"""From the body of a review, and the ``perf_counter_ns`` at which it began to arrive, to the body of the reply."""

_SLOW_NS = int(SLOW_SECONDS * 1e9)


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
            body = await read_body(scope, receive, self._max_review_bytes, setting="server.maxReviewBytes")
            arrived, size = perf_counter_ns(), len(body)
            answer = reply(body, started)
            del body  # while something is waited for nothing holds it
            if not isinstance(answer, bytes):
                answer = await answer
            status, kind = 200, JSON
        except (BadRequest, MalformedReview) as error:
            status = error.status if isinstance(error, BadRequest) else 400
            kind, answer = TEXT, fitted(str(error), MESSAGE_LIMIT).encode()
            self.counts.rejected[status] += 1
            self.log.rejected(status, str(error))
        except StateUnknown as error:  # no answer is better than one from half of the cluster
            if isinstance(error, TooManyNamespaceReads):
                self.counts.limited_reads["namespace"] += 1
            status, kind, answer = 503, TEXT, fitted(str(error), MESSAGE_LIMIT).encode()
            self.counts.rejected[status] += 1
            self.log.rejected(status, str(error))
        except asyncio.CancelledError:  # the server has let go of the connection: no client waits for the answer
            return
        except Exception:  # the one catch-all: a bug is a 500, and the operator's failurePolicy decides
            status, kind, answer = 500, TEXT, b"internal error; the log has the details"
            self.counts.rejected[status] += 1
            self.log.failed(traceback.format_exc())
        if (taken := perf_counter_ns() - arrived) >= _SLOW_NS:
            self.counts.slow[scope["path"]] += 1
            self.log.slow(scope["path"], status, size=size, microseconds=taken // 1000)
        await send_answer(send, status, kind, answer, closes=self.draining)
