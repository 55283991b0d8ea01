"""The HTTP/1.1 of uvicorn with limits, for clients that may try to exhaust the server.

uvicorn sets no limit to the time and the memory of a request: it waits without end for the first request, for headers
and for bodies, keeps headers and trailers of any length, and queues requests that come before the answer to the last
one. Here each of these has a limit, and a body is kept in one place until all of it has come.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from webhook.programs.http.connections import Cause, Connection, Connections, Phase

_BODY_PER_FRAMING = 64
"""Bytes of a body that allow one more byte of framing. A chunk of 1 KiB has 7 bytes of framing; a chunk of one byte has
5, and costs us as much time."""
_FIELD_BYTES = 32
"""Bytes that a header counts beside its name and value, as in RFC 9113 section 6.5.2: its object takes room, too."""


class _Stop(Exception):
    """An exception that ends the parser in the middle of its input."""


def _nothing() -> None:
    """End no handshake: it has not begun, or is over."""


class HttpConnection(HttpToolsProtocol, Connection):
    """One connection of a client.

    Args:
        config: The configuration of the server.
        state: The state of the server.
        connections: All connections of the port.
        address: The address of the client.
        loop: The event loop of the server.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        connections: Connections,
        address: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        Connection.__init__(self, address)
        HttpToolsProtocol.__init__(self, config, state, {}, loop)
        self.access_log = False  # uvicorn's own setting changes a logger of the whole process
        self.give_up: Callable[[], object] = _nothing
        """Ends the handshake."""
        self.begun = False
        """Whether the handshake has begun."""
        self._room = connections
        self._header_limit = connections.limits.header_bytes
        self._deaf = False
        """Whether everything that the client still sends is thrown away."""
        self._framing = 0
        """Bytes of the request outside its body, less what :data:`_BODY_PER_FRAMING` allows for the body."""
        self._named = 0
        """Bytes of the URL, the headers and the trailers of the request."""
        self._over = False
        """Whether the request announces a body that is too long."""
        self._task: asyncio.Task[None] | None = None

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to read requests: the handshake is done."""
        super().connection_made(transport)
        if self._deaf:  # it was ended in the same moment
            transport.abort()
            return
        if self.scheme == "https":
            # So one write shows at once what it left in the buffers of TLS. The TCP transport below has its own 64 KiB.
            transport.set_write_buffer_limits(high=1, low=0)
        self._room.connected(self)

    def dissolve(self) -> None:
        """Let go of what holds this connection in turn, after a handshake that failed.

        :meth:`connection_lost` never comes then, and thousands of connections would wait for the collector of garbage.
        """
        self.give_up = _nothing
        self.parser = None  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, which has ended."""
        super().connection_lost(exc)
        self._room.leave(self)

    def data_received(self, data: bytes) -> None:
        """Parse bytes of requests."""
        if self._deaf:
            return
        self._framing += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # answered like any other request; what follows is not HTTP
            self._end_after_answer()
        except httptools.HttpParserError:
            if self._hears:
                self._refuse(HTTPStatus.BAD_REQUEST, "expected HTTP/1.1", Cause.MALFORMED)
        else:
            if self._hears and self._framing > self._header_limit:
                self._refuse_long()

    def pause_writing(self) -> None:
        """Note that the client takes its answer slower than it is written."""
        super().pause_writing()
        if self.phase is Phase.ANSWER:
            self._room.stuck(self)
        elif self.phase is Phase.IDLE:  # the answer is complete; only now its size is too much
            self._room.sending(self)
        self.loop.call_soon(self._weigh)  # it may end the connection, which the transport does not expect here

    def resume_writing(self) -> None:
        """Note that the client has taken what was written."""
        super().resume_writing()
        if self.transport.is_closing():
            return
        if self.phase is Phase.SENDING:
            self._room.rest(self)
        elif self.phase is Phase.ANSWER:
            self._room.request_ends(self)

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """Begin a request."""
        if self._deaf:
            raise _Stop
        if self.phase is not Phase.IDLE:
            self._room.count(Cause.PIPELINED)
            self._end_after_answer()
            raise _Stop
        self._named, self._over = 0, False
        super().on_message_begin()
        self._room.begin(self)

    def on_url(self, url: bytes) -> None:
        """Take a part of the URL."""
        self._name(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header or a trailer."""
        self._name(len(name) + len(value) + _FIELD_BYTES)
        if len(name) == len(b"content-length") and name.lower() == b"content-length":
            self._over = int(value) > self._room.limits.body_bytes
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the application: all headers are there."""
        super().on_headers_complete()
        self._room.headers_end(self)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body. The application gets all of it at once, or enough to see that it is too long."""
        size = len(body)
        self._framing -= size + size // _BODY_PER_FRAMING
        cycle = self.cycle
        if self._deaf or cycle.response_complete:
            return
        cycle.body += body
        if self._over or len(cycle.body) > self._room.limits.body_bytes:
            cycle.message_event.set()
        self._room.hold(self, size)

    def on_message_complete(self) -> None:
        """End the request, whose last byte has come."""
        self._framing = 0
        if self._deaf:
            return
        super().on_message_complete()
        if self.cycle.response_complete:
            self._answered()
        else:
            self._room.request_ends(self)

    # The end of the answer.

    def on_response_complete(self) -> None:
        """Forget the request, whose answer is written."""
        self.server_state.total_requests += 1
        self._task = None
        if self.transport.is_closing() or self.phase is Phase.ANSWER:
            self._answered()
        else:  # the rest of the request is thrown away
            self.cycle.body = bytearray()
            self._room.release(self)

    def _answered(self) -> None:
        self.cycle = None  # type: ignore[assignment] # as before the first request: it holds what the client sent
        self.scope = None  # type: ignore[assignment]
        self.headers = []
        if self.transport.is_closing():
            self._room.sending(self)
        elif self.flow.write_paused:
            self._room.sending(self)
            self._weigh()
        else:
            self._room.rest(self)

    def _weigh(self) -> None:
        """Count the bytes that wait for the client to take them."""
        if not self.flow.write_paused or self.transport.is_closing():
            return
        waiting = self.transport.get_write_buffer_size()
        if cycle := self._unanswered:
            waiting += cycle.expected_content_length  # what is not written yet
        if self.phase in {Phase.ANSWER, Phase.SENDING}:
            self._room.hold(self, max(waiting - self.held, 0))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._task = task = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # The end of the connection.

    def abandon(self) -> None:
        """End the connection at once, and forget what it holds."""
        self._forget()
        if (transport := self._open) is None:
            self.give_up()
        else:
            transport.abort()

    def close(self) -> None:
        """End the connection as its client expects."""
        self._deaf = True
        self.transport.close()

    def refuse_late(self) -> None:
        """Tell the client that the rest of its request comes too late, and end the connection."""
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, "expected the whole request sooner")

    def _name(self, size: int) -> None:
        self._named += size
        if self._named > self._header_limit:
            self._refuse_long()
            raise _Stop

    def _refuse_long(self) -> None:
        self._refuse(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"expected at most {self._header_limit} bytes beside the body (server.maxHeaderBytes), found more",
            Cause.HEADERS_TOO_LONG,
        )

    def _refuse(self, status: HTTPStatus, text: str, cause: Cause | None = None) -> None:
        if cause is not None:
            self._room.count(cause)
        cycle = self._unanswered
        begun = cycle is not None and cycle.response_started
        self._forget()
        if not begun:
            self.transport.write(_answer(status, text))
        self.transport.close()
        self._room.sending(self)

    def _forget(self) -> None:
        """Forget the unanswered request, if there is one. The application gets no more of it."""
        self._deaf = True
        cycle = self._unanswered
        if cycle is None:
            return
        cycle.disconnected = True
        cycle.body = bytearray()
        if self._task is not None:
            self._task.cancel()

    @property
    def follows(self) -> bool:
        """Whether the client is taking an answer that has begun and goes on, such as a stream of events."""
        cycle = self._unanswered
        return cycle is not None and cycle.response_started and not self.flow.write_paused

    @property
    def _unanswered(self) -> RequestResponseCycle | None:
        """The request that the application is answering, if there is one."""
        cycle: RequestResponseCycle | None = self.cycle
        return None if cycle is None or cycle.response_complete else cycle

    @property
    def _hears(self) -> bool:
        return not self._deaf

    @property
    def _open(self) -> asyncio.Transport | None:
        """The transport; ``None`` before the handshake is done."""
        return self.transport

    def _end_after_answer(self) -> None:
        self._deaf = True
        if cycle := self._unanswered:
            cycle.keep_alive = False
        else:
            self.transport.close()


def _answer(status: HTTPStatus, text: str) -> bytes:
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
    return f"{head}content-length: {len(text)}\r\nconnection: close\r\n\r\n{text}".encode("ascii")
