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
SHORT_BYTES = 64 * 1024
"""Bytes of a body that are read at once. uvicorn keeps about as many of a body that nobody reads."""
LONG_BODIES = 4
"""Longer bodies that are read at a time. A server needs memory for this many of the longest."""


class BadRequest(Exception):
    """An error that ends a request with an HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text
        super().__init__(text)


class Bodies:
    """The bodies of requests to one port. Those of more than :data:`SHORT_BYTES` wait for their turn.

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
        parts: list[bytes] = []
        if not await self._add(parts, receive, SHORT_BYTES):
            async with self._turns:
                await self._add(parts, receive, self._longest)
        return b"".join(parts)

    async def _add(self, parts: list[bytes], receive: Receive, enough: int) -> bool:
        """Read more of a body until there are more bytes than ``enough``; return whether it has ended."""
        size = sum(map(len, parts))
        while size <= enough:
            message = await receive()
            if message["type"] != "http.request":
                raise BadRequest(400, "request body: the client went away before its end")
            parts.append(message["body"])
            size += len(parts[-1])
            if size > self._longest:
                raise BadRequest(
                    413, f"request body: expected at most {self._longest} bytes{self._setting}, found more"
                )
            if not message["more_body"]:
                return True
        return False


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
