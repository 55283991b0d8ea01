"""The servers: uvicorn with the limits on connections and requests that it lacks.

uvicorn waits without end for the headers of a request and keeps headers of any length. Its own limit on connections
counts silent ones, so a few of them shut everyone out.
"""

import asyncio
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from math import inf
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from webhook.programs.http.messages import Application
from webhook.words.errors import GpuTopologyError

BACKLOG = 2048
SHUTDOWN_SECONDS = 2.0
"""Time for a client to answer the end of a TLS connection. A stop of the server waits for it."""
JOIN_SECONDS = 15.0
"""Longest wait for the end of a thread. It is longer than uvicorn waits for requests in flight."""


class Cause(StrEnum):
    """The reason for which a server ended a connection before its client did."""

    HEADERS_LATE = "headers-late"
    HEADERS_TOO_LONG = "headers-too-long"
    REQUEST_LATE = "request-late"
    TOO_MANY_CONNECTIONS = "too-many-connections"


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The limits for the clients of one port."""

    connections: int = 64
    """Connections at a time. With one more, the oldest one that never sent a request is closed."""
    header_bytes: int = 8 * 1024
    """Bytes of the URL and the headers of a request, and of anything else outside its body."""
    header_seconds: float = 10.0
    """Time for the TLS handshake, and for the headers of a request, also of the first one of a connection."""
    request_seconds: float = 10.0
    """Time from the headers of a request until its answer is written."""
    keep_alive_seconds: int = 120
    """Time for which an idle connection is kept."""


class Connection(HttpToolsProtocol):
    """One connection of a client to ``server``."""

    def __init__(self, server: "Server") -> None:
        super().__init__(server.config, server.server_state, {})
        self.access_log = False  # uvicorn's own setting changes a logger of the whole process
        self.deadline = inf
        """The time at which the connection is ended."""
        self.cause = Cause.HEADERS_LATE
        """The reason for the deadline."""
        self._server = server
        self._limits = server.limits
        self._unread = 0
        """Bytes since the last that were of use: complete headers, or a part of a body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to read requests: the TLS handshake is done."""
        super().connection_made(transport)
        self._expect(self._limits.header_seconds, Cause.HEADERS_LATE)
        self._server.let_in(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, which has ended."""
        super().connection_lost(exc)
        self._server.silent.pop(self, None)

    def data_received(self, data: bytes) -> None:
        """Parse bytes of requests."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > self._limits.header_bytes and not self.transport.is_closing():
            self._server.closed[Cause.HEADERS_TOO_LONG] += 1
            self.send_400_response(f"expected at most {self._limits.header_bytes} bytes of headers, found more")

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._expect(self._limits.header_seconds, Cause.HEADERS_LATE)

    def on_headers_complete(self) -> None:
        """Start the application."""
        self._unread = 0
        if len(self.url) + sum(map(len, chain.from_iterable(self.headers))) > self._limits.header_bytes:
            self._server.closed[Cause.HEADERS_TOO_LONG] += 1
            raise ValueError("expected shorter headers")  # ends the parser, so uvicorn answers with 400
        self._server.silent.pop(self, None)
        self._expect(self._limits.request_seconds, Cause.REQUEST_LATE)
        super().on_headers_complete()
        if self._server.draining:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._unread = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the end of the connection."""
        super().on_response_complete()
        if self.cycle.response_complete:  # and no other request waits for its answer
            self._unread = 0
            idle = 0 if self.transport.is_closing() else self._limits.keep_alive_seconds
            self._expect(idle + self._limits.request_seconds, Cause.REQUEST_LATE)

    def _expect(self, seconds: float, cause: Cause) -> None:
        self.deadline, self.cause = self.loop.time() + seconds, cause


class Server(uvicorn.Server):
    """A uvicorn server with limits. It handles no signals.

    It does not set the levels and handlers of uvicorn's loggers, because they belong to the whole process. Their
    records go to the root logger (:mod:`webhook.programs.log`).

    Args:
        application: The application to serve.
        bound: The socket to listen on; see :func:`bind`.
        limits: The limits of the port.
        context: The TLS context; ``None`` without TLS.
    """

    def __init__(
        self, application: Application, bound: socket.socket, limits: Limits, context: ssl.SSLContext | None = None
    ) -> None:
        options: dict[str, Any] = {"ssl_context_factory": lambda *_: context} if context is not None else {}
        super().__init__(
            uvicorn.Config(
                application,
                loop="uvloop",
                http=HttpToolsProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_keep_alive=limits.keep_alive_seconds,
                timeout_graceful_shutdown=10,
                **options,
            )
        )
        self.limits = limits
        self.closed: Counter[Cause] = Counter()
        """Connections that were ended, by the reason."""
        self.silent: dict[Connection, None] = {}
        """The connections that never sent a request, oldest first."""
        self.draining = False
        """Whether every answer asks the client to close its connection."""
        self._bound = bound

    @property
    def open(self) -> int:
        """The number of connections. May be read in any thread."""
        return len(self.server_state.connections)

    def drain(self) -> None:
        """Ask clients with each answer to close their connection, so that a stop loses no request."""
        self.draining = True
        for connection in self._connections:
            if connection.cycle is not None:
                connection.cycle.keep_alive = False

    def let_in(self, connection: Connection) -> None:
        """Take in a new connection. If there are too many, close the oldest one that never sent a request."""
        self.silent[connection] = None
        if self.open > self.limits.connections:
            self._end(next(iter(self.silent)), Cause.TOO_MANY_CONNECTIONS)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave all signals to the program."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - the signature of the base
        """Start to listen."""
        seconds = (self.limits.header_seconds, SHUTDOWN_SECONDS) if self.config.ssl else (None, None)
        listening = await asyncio.get_running_loop().create_server(
            lambda: Connection(self),
            sock=self._bound,
            backlog=BACKLOG,
            ssl=self.config.ssl,
            ssl_handshake_timeout=seconds[0],
            ssl_shutdown_timeout=seconds[1],
        )
        self.servers = [listening]
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        """End the connections that are late, once a second; return whether to stop."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in [each for each in self._connections if each.deadline < now]:
                self._end(connection, connection.cause)
        return await super().on_tick(counter)

    @property
    def _connections(self) -> set[Connection]:
        return cast("set[Connection]", self.server_state.connections)

    def _end(self, connection: Connection, cause: Cause) -> None:
        self.closed[cause] += 1
        self.silent.pop(connection, None)
        connection.deadline = inf
        connection.transport.abort()


class ServerThread:
    """A thread that runs a server beside the loop of the program.

    So a probe is answered even while the work of the program blocks its loop.

    Args:
        server: The server. Its socket listens already, so that errors of the start occur before the thread begins.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._thread = threading.Thread(target=self._serve, name="ops", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the server, and wait for the end of the thread."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            runner.run(self._server.serve())


def bind(host: str, port: int, *, remedy: str) -> socket.socket:
    """Return a socket bound to that address. It takes connections only once a server listens on it.

    Programs call this before anything else, so that a taken address is an error of the start.

    Args:
        host: Name or address.
        port: The port; 0 for any free one.
        remedy: The end of the error message, which names the options of the command line that choose another address,
            as in ``Choose others with --port``.

    Raises:
        GpuTopologyError: the address is taken or cannot be used.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise GpuTopologyError(f"cannot listen on {host} port {port}: {error.strerror}. {remedy}") from None
    return bound
