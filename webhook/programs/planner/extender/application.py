"""The ASGI application of the extender: two paths, and HTTP errors for requests that are no questions."""

from collections.abc import Awaitable, Callable
from time import perf_counter

from webhook.objects.extender import FILTER_PATH, PRIORITIZE_PATH, MalformedQuestion
from webhook.programs.http.messages import JSON, TEXT, BadRequest, Bodies, Receive, Scope, Send, send_answer
from webhook.programs.planner.extender.answers import Answers
from webhook.programs.planner.extender.complaints import Complaints
from webhook.programs.planner.extender.counts import Counts
from webhook.words.outcome import MESSAGE_LIMIT
from webhook.words.printable import fitted

BODY_BYTES = 16 * 1024 * 1024
"""Longest body of a question. 15,000 names of nodes are 4 MiB at most; whole nodes are some 15 KiB each."""


class ExtenderApplication:
    """The application. Questions are judged one after the other, on one event loop.

    Args:
        answers: Answers the questions.
        counts: Counts the requests that are no questions, and the times of answers.
        complaints: Logs the requests that are no questions.
    """

    def __init__(self, answers: Answers, *, counts: Counts, complaints: Complaints) -> None:
        self._paths: dict[str, Callable[[bytes], Awaitable[bytes]]] = {
            FILTER_PATH: answers.filter,
            PRIORITIZE_PATH: answers.prioritize,
        }
        self._counts = counts
        self._complaints = complaints
        self._bodies = Bodies(BODY_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        try:
            status, kind, body = 200, JSON, await self._answer(scope, receive)
        except (BadRequest, MalformedQuestion) as error:
            status = error.status if isinstance(error, BadRequest) else 400
            kind, body = TEXT, fitted(str(error), MESSAGE_LIMIT).encode()
            self._counts.rejected[str(status),] += 1
            self._complaints.say("rejected", status=str(status), text=str(error))
        await send_answer(send, status, kind, body)

    async def _answer(self, scope: Scope, receive: Receive) -> bytes:
        answer = self._paths.get(scope["path"])
        if answer is None:
            raise BadRequest(404, f"expected {FILTER_PATH} or {PRIORITIZE_PATH}, found {scope['path']}")
        if scope["method"] != "POST":
            raise BadRequest(405, f"{scope['path']}: expected POST, found {scope['method']}")
        body = await self._bodies.read(receive)
        began = perf_counter()
        found = await answer(body)
        self._counts.seconds.add(perf_counter() - began)
        return found
