"""The raw ASGI path of the reviews, in front of the FastAPI application.

A FastAPI route costs 53 us of CPU for each request even with raw bodies, more than everything else that a review needs,
so reviews never reach it.
"""

import traceback
from time import perf_counter_ns

from webhook.admit.admission import admit
from webhook.admit.memory import Memory
from webhook.config import AdmitPolicy
from webhook.model.outcome import Kind, Outcome, Reason
from webhook.model.pod import MalformedPod
from webhook.model.review import MalformedReview, Request, decode_review, encode_reply
from webhook.server.asgi import Application, Receive, Scope, Send
from webhook.server.log import AdmissionLog
from webhook.state import State

PODS_PATH = "/mutate/pods"

_NOT_A_CREATE = Outcome(kind=Kind.SKIP, reason=Reason.NOT_A_CREATE)
_JSON = (b"content-type", b"application/json")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_CLOSE = (b"connection", b"close")


class BadRequest(Exception):
    """Ends a request with an HTTP error."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text
        super().__init__(text)


class Reviews:
    """Answers pod reviews itself and passes every other request to ``application``."""

    def __init__(
        self,
        application: Application,
        *,
        state: State,
        policy: AdmitPolicy,
        log: AdmissionLog,
        max_review_bytes: int,
    ) -> None:
        self._application = application
        self._state = state
        self._policy = policy
        self._log = log
        self._memory = Memory()
        self._max_review_bytes = max_review_bytes
        self.draining = False
        """While set, every answer asks the client to close its connection, so that the stop loses no review."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry."""
        if scope["type"] != "http" or scope["path"] != PODS_PATH:
            await self._application(scope, receive, send)
            return
        started = perf_counter_ns()
        try:
            if scope["method"] != "POST":
                raise BadRequest(405, f"{PODS_PATH}: expected POST, found {scope['method']}")
            body = await _read_body(scope, receive, self._max_review_bytes)
            status, kind, answer = 200, _JSON, self._review(body, started)
        except (BadRequest, MalformedReview, MalformedPod) as error:
            status = error.status if isinstance(error, BadRequest) else 400
            kind, answer = _TEXT, str(error).encode()
            self._log.rejected(status, str(error))
        except Exception:  # the one catch-all: a bug is a 500, and the operator's failurePolicy decides
            status, kind, answer = 500, _TEXT, b"internal error; the log has the details"
            self._log.failed(traceback.format_exc())
        await self._answer(send, status, kind, answer)

    def _review(self, body: bytes, started: int) -> bytes:
        request = decode_review(body)
        outcome = self.decide(request)
        answer = encode_reply(request.uid, outcome)
        self._log.admitted(request, outcome, (perf_counter_ns() - started) // 1000)
        return answer

    def decide(self, request: Request) -> Outcome:
        """The outcome of one review, from the state as it is now."""
        pod = request.object
        if request.operation != "CREATE" or pod is None:
            return _NOT_A_CREATE
        namespace = self._state.namespace(request.namespace)
        return admit(pod, namespace, self._policy, self._state.cluster(), memory=self._memory)

    async def _answer(self, send: Send, status: int, kind: tuple[bytes, bytes], body: bytes) -> None:
        headers = [kind, (b"content-length", b"%d" % len(body))]
        if self.draining:
            headers.append(_CLOSE)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body; more than 64 KiB arrive in several messages."""
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
