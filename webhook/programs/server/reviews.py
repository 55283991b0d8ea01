"""The endpoints of the reviews: ASGI objects, because a function as endpoint of FastAPI costs each review more."""

import traceback
from collections.abc import Awaitable, Callable
from time import perf_counter_ns

from webhook.objects.envelope import MalformedReview
from webhook.programs.http.messages import JSON, TEXT, BadRequest, Bodies, Receive, Scope, Send, send_answer
from webhook.programs.server.counts import SLOW_SECONDS, Counts
from webhook.programs.server.log import ReviewLog
from webhook.words.errors import StateUnknown, TooManyNamespaceReads
from webhook.words.outcome import MESSAGE_LIMIT
from webhook.words.printable import fitted

Answer = Callable[[bytes, int], bytes | Awaitable[bytes]]
"""A function from the body of a review, and the ``perf_counter_ns`` at which it began to arrive, to the reply. A reply
that is an awaitable is awaited; one that is there at once costs no switch of tasks."""

_SLOW_NS = int(SLOW_SECONDS * 1e9)


class Reviews:
    """The endpoint of one kind of reviews.

    Args:
        reply: Answers a review.
        bodies: Reads the bodies of the requests.
        log: Takes the refused requests and the bugs.
        counts: The counts of the server.
    """

    def __init__(self, reply: Answer, bodies: Bodies, *, log: ReviewLog, counts: Counts) -> None:
        self._reply = reply
        self._bodies = bodies
        self._log = log
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        started = arrived = perf_counter_ns()
        size = 0
        try:
            if scope["method"] != "POST":
                raise BadRequest(405, f"{scope['path']}: expected POST, found {scope['method']}")
            body = await self._bodies.read(receive)
            arrived, size = perf_counter_ns(), len(body)
            answer = self._reply(body, started)
            del body  # frees the body while the answer is awaited
            if not isinstance(answer, bytes):
                answer = await answer
            status, kind = 200, JSON
        except (BadRequest, MalformedReview) as error:
            status, kind, answer = self._refused(error.status if isinstance(error, BadRequest) else 400, error)
        except StateUnknown as error:  # no answer is better than one from half of the cluster's state
            if isinstance(error, TooManyNamespaceReads):
                self._counts.limited_reads["namespace"] += 1
            status, kind, answer = self._refused(503, error)
        except Exception:  # the one catch-all: a bug is a 500, and the operator's failurePolicy decides
            status, kind, answer = 500, TEXT, b"internal error; the log has the details"
            self._counts.rejected[status] += 1
            self._log.failed(traceback.format_exc())
        if (taken := perf_counter_ns() - arrived) >= _SLOW_NS:
            self._counts.slow[scope["path"]] += 1
            self._log.slow(scope["path"], status, size=size, microseconds=taken // 1000)
        await send_answer(send, status, kind, answer)

    def _refused(self, status: int, error: Exception) -> tuple[int, tuple[bytes, bytes], bytes]:
        self._counts.rejected[status] += 1
        self._log.rejected(status, str(error))
        return status, TEXT, fitted(str(error), MESSAGE_LIMIT).encode()
