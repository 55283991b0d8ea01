"""The ASGI application of the reviews, in front of the FastAPI application.

A FastAPI route costs 53 us of CPU for each request even with raw bodies. That is more than everything else that a
review needs, so reviews never reach FastAPI.
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
"""A function from the body of a review, and the ``perf_counter_ns`` at which it began to arrive, to the reply."""

_SLOW_NS = int(SLOW_SECONDS * 1e9)
LONG_BYTES = 64 * 1024
"""The length of a body from which on a review takes turns with other long ones. A shorter one takes about 1 ms."""
REST_SECONDS = 0.001
"""The pause before each long review, in which shorter ones that have come meanwhile are answered."""


class Reviews:
    """The application that answers reviews, and passes every other request to ``application``.

    Args:
        application: Answers the requests that are no reviews.
        paths: The function that answers reviews at each path. An answer that is an awaitable is awaited; one that is
            there at once costs no switch of tasks.
        log: Takes the refused requests to these paths and the bugs, and the lines of the server itself.
        counts: The counts of the server.
        max_review_bytes: The longest body to accept.
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
        self._turn = asyncio.Lock()
        self.draining = False
        """While set, every answer asks the client to close its connection, so that the stop loses no review."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
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
            if size >= LONG_BYTES:  # else as many as have come take the loop one after the other, and all others wait
                async with self._turn:
                    await asyncio.sleep(REST_SECONDS)
                    answer = reply(body, started)
            else:
                answer = reply(body, started)
            del body  # frees the body while the answer is awaited
            if not isinstance(answer, bytes):
                answer = await answer
            status, kind = 200, JSON
        except (BadRequest, MalformedReview) as error:
            status = error.status if isinstance(error, BadRequest) else 400
            kind, answer = TEXT, fitted(str(error), MESSAGE_LIMIT).encode()
            self.counts.rejected[status] += 1
            self.log.rejected(status, str(error))
        except StateUnknown as error:  # no answer is better than one from half of the cluster's state
            if isinstance(error, TooManyNamespaceReads):
                self.counts.limited_reads["namespace"] += 1
            status, kind, answer = 503, TEXT, fitted(str(error), MESSAGE_LIMIT).encode()
            self.counts.rejected[status] += 1
            self.log.rejected(status, str(error))
        except asyncio.CancelledError:  # the connection has ended: no client waits for the answer
            return
        except Exception:  # the one catch-all: a bug is a 500, and the operator's failurePolicy decides
            status, kind, answer = 500, TEXT, b"internal error; the log has the details"
            self.counts.rejected[status] += 1
            self.log.failed(traceback.format_exc())
        if (taken := perf_counter_ns() - arrived) >= _SLOW_NS:
            self.counts.slow[scope["path"]] += 1
            self.log.slow(scope["path"], status, size=size, microseconds=taken // 1000)
        await send_answer(send, status, kind, answer, closes=self.draining)
