"""HTTP/1.1 as uvicorn speaks it, for clients that may want to fill the server.

uvicorn leaves open how long a request may take and how much of it is kept: it waits without end for the first request,
for headers and for bodies, keeps headers and trailers of any length, and queues requests that come before the answer to
the last one. Here each of these has an end, and a body is kept in one place until all of it is there.
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
"""So many bytes of a body allow one byte more of what frames it: a chunk of 1 KiB takes 7, a chunk of one byte takes 5
and as much of our time."""
_FIELD_BYTES = 32
"""What a header counts beside its name and value, as in RFC 9113 section 6.5.2: an object takes room, too."""


class _Stop(Exception):
    """Ends the parser in the middle of what it was given."""


class HttpConnection(HttpToolsProtocol, Connection):
    """One connection of a client.

    Args:
        config: Of the server.
        state: Its state.
        connections: All connections of the port.
        address: Of the client.
        loop: On which it runs.
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
        self.give_up: Callable[[], object] = lambda: None
        """Ends the handshake."""
        self.begun = False
        """Whether the handshake has begun."""
        self._room = connections
        self._header_limit = connections.limits.header_bytes
        self._deaf = False
        """Whether the rest of what the client sends is thrown away."""
        self._framing = 0
        """Bytes of the request that are no body, less what its body allows."""
        self._named = 0
        """Bytes of its URL, headers and trailers."""
        self._over = False
        """Whether the request says itself that its body is too long."""
        self._task: asyncio.Task[None] | None = None

    # What the transport tells.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The handshake is done."""
        super().connection_made(transport)
        if self._deaf:  # it had to go in the same moment
            transport.abort()
            return
        if self.scheme == "https":
            # What one write leaves in the buffers of TLS is seen at once. The TCP transport below has its own 64 KiB.
            transport.set_write_buffer_limits(high=1, low=0)
        self._room.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        super().connection_lost(exc)
        self._room.leave(self)

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
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
        """The client takes its answer slower than it comes."""
        super().pause_writing()
        if self.phase is Phase.ANSWER:
            self._room.stuck(self)
        elif self.phase is Phase.IDLE:  # the answer is complete, and found to be too much only now
            self._room.sending(self)
        self.loop.call_soon(self._weigh)  # it may end the connection, which the transport does not expect here

    def resume_writing(self) -> None:
        """The client has taken what was written."""
        super().resume_writing()
        if self.transport.is_closing():
            return
        if self.phase is Phase.SENDING:
            self._room.rest(self)
        elif self.phase is Phase.ANSWER:
            self._room.request_ends(self)

    # What the parser tells.

    def on_message_begin(self) -> None:
        """The first byte of a request."""
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
        """A part of the URL."""
        self._name(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        self._name(len(name) + len(value) + _FIELD_BYTES)
        if len(name) == len(b"content-length") and name.lower() == b"content-length":
            self._over = int(value) > self._room.limits.body_bytes
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The end of the headers, so the application begins."""
        super().on_headers_complete()
        self._room.headers_end(self)

    def on_body(self, body: bytes) -> None:
        """A part of the body. The application gets all of it at once, or so much as shows that it is too long."""
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
        """The last byte of the request."""
        self._framing = 0
        if self._deaf:
            return
        super().on_message_complete()
        if self.cycle.response_complete:
            self._answered()
        else:
            self._room.request_ends(self)

    # What the application's answer brings about.

    def on_response_complete(self) -> None:
        """The answer is written."""
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
        """Count what waits for the client to take it."""
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

    # What ends it.

    def abandon(self) -> None:
        """End it at once, and forget what it holds."""
        self._forget()
        if (transport := self._open) is None:
            self.give_up()
        else:
            transport.abort()

    def close(self) -> None:
        """End it as its client expects."""
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
        """Let go of the request that is there, if there is one; its application gets no more of it."""
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
        """Whether its client takes an answer that has begun and goes on, such as a stream of events."""
        cycle = self._unanswered
        return cycle is not None and cycle.response_started and not self.flow.write_paused

    @property
    def _unanswered(self) -> RequestResponseCycle | None:
        """The request that the application has, if its answer is not complete."""
        cycle: RequestResponseCycle | None = self.cycle
        return None if cycle is None or cycle.response_complete else cycle

    @property
    def _hears(self) -> bool:
        return not self._deaf

    @property
    def _open(self) -> asyncio.Transport | None:
        """The transport, once there is one."""
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
