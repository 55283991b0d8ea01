"""An answer that goes on: the lines of a watch, taken as fast as somebody reads them."""

import asyncio
import socket
from collections import deque
from typing import cast

import httptools

from webhook.kube.connection import NOWHERE, Answer, Lost, TooLong

HIGH_WATER = 256 * 1024
"""Bytes that may wait to be read before the server is made to wait."""
_DEAD_PEER = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 50_000))
"""A peer that is gone without a word is noticed after 50 s (tcp(7)), as client-go does with pings of HTTP/2."""


class Stream(asyncio.Protocol):
    """A connection for one request whose answer is lines of text. Its methods with other names are called by httptools.

    Args:
        limit: Bytes that a line, or the body of an answer that is not 200, may have.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._transport: asyncio.Transport = NOWHERE
        self._parser = httptools.HttpResponseParser(self)
        self._begun: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.status = 0
        """HTTP status of the answer, once it has begun."""
        self._lines: deque[bytes] = deque()
        self._waiting = 0
        """Bytes in ``_lines``."""
        self._parts: list[bytes] = []
        """Of the line that has no end yet."""
        self._length = 0
        self._end: Exception | None = None
        """Set when no more comes: ``EOFError`` after a whole answer, else why it is none."""
        self._reader: asyncio.Future[None] | None = None
        self._paused = False

    async def ask(self, message: bytes) -> int:
        """Send a request, without a body, and wait for the status of the answer.

        Raises:
            Lost: there is no answer.
        """
        self._transport.write(message)
        return await self._begun

    async def line(self) -> bytes | None:
        """The next line that is not empty; ``None`` after the last one of a whole answer.

        Raises:
            Lost: the answer was cut off. The lines before come first.
            TooLong: a line is longer than it may be.
        """
        while not self._lines:
            if isinstance(self._end, EOFError):
                return None
            if self._end is not None:
                raise self._end
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        line = self._lines.popleft()
        self._waiting -= len(line)
        if self._paused and self._waiting < HIGH_WATER // 2 and self._end is None:
            self._paused = False
            self._transport.resume_reading()
        return line

    async def rest(self) -> Answer:
        """All that is left, as the answer that it is when the status says that something went wrong.

        Raises:
            Lost, TooLong: as :meth:`line`.
        """
        parts = []
        while (line := await self.line()) is not None:
            parts.append(line)
        return Answer(self.status, b"\n".join(parts))

    def close(self) -> None:
        """End the connection at once."""
        self._finish(Lost("the stream was closed"))
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)
        channel = transport.get_extra_info("socket")
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _DEAD_PEER:
            if hasattr(socket, option):  # Linux has all of them
                channel.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        if self._end is not None:
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._finish(Lost(f"what came is no HTTP: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._finish(Lost(str(exc) if exc else "the connection was closed before the end of the answer"))

    def on_headers_complete(self) -> None:
        """The head of the answer is there."""
        self.status = self._parser.get_status_code()
        if self.status >= 200 and not self._begun.done():
            self._begun.set_result(self.status)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        *ended, rest = body.split(b"\n")
        for part in ended:
            self._add(part)
            self._end_line()
        self._add(rest)
        if self._waiting > HIGH_WATER and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        """The end of the answer."""
        if self.status >= 200:
            self._end_line()
            self._finish(EOFError())

    def _add(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._limit:
            self._finish(TooLong())
            self._transport.abort()
        elif part:
            self._parts.append(part)

    def _end_line(self) -> None:
        if self._parts and self._end is None:
            line = b"".join(self._parts)
            self._lines.append(line)
            self._waiting += len(line)
        self._parts, self._length = [], 0

    def _finish(self, end: Exception) -> None:
        if self._end is not None:
            return
        self._end = end
        if not self._begun.done():
            self._begun.set_exception(end)
            self._begun.exception()  # whoever asked may be gone
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
