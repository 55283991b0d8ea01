"""The bodies of requests and answers, read with a limit and written by the messages of ASGI."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
"""The types of ASGI."""

JSON = (b"content-type", b"application/json")
TEXT = (b"content-type", b"text/plain; charset=utf-8")
LONG_BODIES = 8
"""Bodies that are read in pieces at a time. The memory of a server is this many times the longest body."""


class BadRequest(Exception):
    """An error that ends a request with an HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text
        super().__init__(text)


class Bodies:
    """The bodies of requests to one port.

    A body that has come as a whole is taken at once. Of those that come in pieces :data:`LONG_BODIES` are read at a
    time; the others wait, and uvicorn reads no more than 64 KiB of them.

    Args:
        longest: The longest body to accept, in bytes.
        setting: The setting of the configuration that holds the limit; empty if there is none.
    """

    def __init__(self, longest: int, setting: str = "") -> None:
        self._longest = longest
        self._setting = f" ({setting})" if setting else ""
        self._turns = asyncio.Semaphore(LONG_BODIES)

    async def read(self, receive: Receive) -> bytes:
        """Return the whole body of a request.

        Raises:
            BadRequest: the body is longer than allowed, or the client went away before its end.
        """
        message = await receive()
        if message["type"] == "http.request" and not message["more_body"]:
            body: bytes = message["body"]
            self._check(len(body))
            return body
        async with self._turns:
            parts, size = [], 0
            while message["type"] == "http.request":
                parts.append(message["body"])
                size += len(parts[-1])
                self._check(size)
                if not message["more_body"]:
                    return b"".join(parts)
                message = await receive()
        raise BadRequest(400, "request body: the client went away before its end")

    def _check(self, size: int) -> None:
        if size > self._longest:
            raise BadRequest(413, f"request body: expected at most {self._longest} bytes{self._setting}, found more")


async def send_answer(send: Send, status: int, kind: tuple[bytes, bytes], body: bytes) -> None:
    """Answer a request.

    Args:
        send: Takes the messages of the answer.
        status: The HTTP status.
        kind: The header with the type of the body.
        body: The body of the answer.
    """
    headers = [kind, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
