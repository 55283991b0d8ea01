"""One connection to the API server: HTTP/1.1, kept alive, one request at a time."""

import asyncio
import select
from typing import NamedTuple, cast

import httptools


class Answer(NamedTuple):
    """What a server said."""

    status: int
    """HTTP status."""
    body: bytes


class Lost(Exception):
    """The connection ended, or what came is no HTTP, before there was a whole answer."""


class TooLong(Exception):
    """The answer is longer than it may be."""


class _Nowhere(asyncio.Transport):
    def abort(self) -> None:
        """There is nothing to end."""


NOWHERE = _Nowhere()
"""The transport of a connection that is not made yet."""


class Connection(asyncio.Protocol):
    """Made by ``create_connection`` of an event loop. Its methods with other names than ours are called by httptools.

    An answer that only the end of the connection ends is taken for one that was cut off. The API server sends a length
    or chunks (net/http/server.go, cw.writeHeader).

    What came before a request never answers it, be it a whole answer or the beginning of one: the connection is given
    up. What the server sends without being asked after the request is out cannot be told from the answer.
    """

    def __init__(self) -> None:
        self.usable = True
        """Whether it can be asked again."""
        self.idle_since = 0.0
        """On the clock of the event loop; for whoever keeps it."""
        self._transport: asyncio.Transport = NOWHERE
        self._unread = select.poll()
        self._fresh = False
        """Of TLS, and never asked: its server may have sent session tickets (RFC 8446, 4.6.1), which are no answer."""
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Answer] | None = None
        self._deadline = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        """At the deadline of a request, or of one before it: a timer for each costs more than to set one again."""
        self._parts: list[bytes] = []
        self._left = 0

    async def ask(self, message: bytes, *, limit: int, deadline: float) -> Answer:
        """Send a request and wait for the whole answer. If that fails, or is cancelled, the connection is closed.

        Args:
            message: The request, with its body.
            limit: Bytes that the body of the answer may have.
            deadline: On the clock of the event loop.

        Raises:
            Lost: there is no whole answer.
            TooLong: there is a longer one.
            TimeoutError: there is none at the deadline.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answer, self._deadline = answer, deadline
        self._parts, self._left = [], limit
        if self._alarm is None or deadline < self._alarm.when():
            self._set_alarm()
        try:
            if not self.usable:
                raise Lost("the connection was closed")
            if not self._fresh and self._unread.poll(0):
                raise Lost("the server spoke, or ended the connection, before it was asked")
            self._fresh = False
            self._transport.write(message)
            return await answer
        except BaseException:
            self.close()
            raise
        finally:
            self._answer = None

    def close(self) -> None:
        """End the connection at once; who waits for an answer gets ``Lost``."""
        self.usable = False
        self._cancel_alarm()
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._unread.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._fresh = transport.get_extra_info("sslcontext") is not None

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        if self._nobody_waits():
            self.close()  # nobody asked, or nobody wants to know any more
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.usable = False  # it may have come behind a whole answer
            self._fail(Lost(f"what came is no HTTP: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self.usable = False
        self._cancel_alarm()
        self._fail(Lost(str(exc) if exc else "the connection was closed before the end of the answer"))

    def on_message_begin(self) -> None:
        """The first byte of an answer."""
        if self._nobody_waits():
            self.usable = False  # it came in one piece with the end of the answer before it

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._left -= len(body)
        if self._left < 0:
            self._fail(TooLong())
        else:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        """The end of an answer."""
        status = self._parser.get_status_code()
        if status < 200:
            return  # the real one follows
        if self._answer is None or self._answer.done():
            return  # it was too long, or nobody asked
        self.usable = self.usable and self._parser.should_keep_alive()
        self._answer.set_result(Answer(status, b"".join(self._parts)))

    def _nobody_waits(self) -> bool:
        return self._answer is None or self._answer.done()

    def _set_alarm(self) -> None:
        self._cancel_alarm()
        self._alarm = asyncio.get_running_loop().call_at(self._deadline, self._ring)

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._alarm = None
        if self._nobody_waits():
            return
        if asyncio.get_running_loop().time() >= self._deadline:
            self._fail(TimeoutError())
        else:
            self._set_alarm()

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
