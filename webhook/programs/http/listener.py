"""The listening sockets of uvicorn servers. Each connection is counted from its start, not only after its handshake."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Any

import uvicorn

from webhook.programs.http.asgi import Application
from webhook.programs.http.connections import TICK_SECONDS, Cause, Connections
from webhook.programs.http.protocol import HttpConnection

CLOSE_SECONDS = 0.5
"""Time for a client, when the server stops, to answer the end of its idle TLS connection."""
SOCKET_BYTES = 64 * 1024
"""Kernel buffer of each direction of a connection. The memory limit of a container covers these buffers too, and by
default they grow to several MiB for each connection. The size also limits what one read returns."""
ACCEPTS = 16
"""Connections that are accepted in a row before other work of the event loop."""
BACKLOG = 2048
TELL_SECONDS = 10.0
EXHAUSTED_SECONDS = 0.1
"""Time without accepting connections after the kernel had no room for one more."""


class Listener:
    """The listening socket of one port.

    Args:
        bound: The socket, which is closed with the listener.
        connections: The connections of the port.
        make: Returns a new connection for a client at an address.
        context: The TLS context; ``None`` without TLS.
        tell: Takes how many connections were ended, by cause, every :data:`TELL_SECONDS` at most.
    """

    def __init__(
        self,
        bound: socket.socket,
        connections: Connections,
        make: Callable[[str], HttpConnection],
        context: ssl.SSLContext | None,
        tell: Callable[[Mapping[str, int]], None],
    ) -> None:
        self._tell = tell
        self._told = -inf
        self._loop = asyncio.get_running_loop()
        self._bound = bound
        self._connections = connections
        self._make = make
        limits = connections.limits
        self._tls: dict[str, Any] = {}
        if context is not None:
            # Shorter than the deadline of an answer, after which the connection counts as one with an unread answer.
            shutdown = limits.answer_seconds / 2
            self._tls = {
                "ssl": context,
                "ssl_handshake_timeout": limits.handshake_seconds,
                "ssl_shutdown_timeout": shutdown,
            }
        self._handshakes: set[asyncio.Task[None]] = set()
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        bound.setblocking(False)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):  # accepted sockets inherit all three
            bound.setsockopt(socket.SOL_SOCKET, buffer, SOCKET_BYTES)
        bound.listen(BACKLOG)
        self._loop.add_reader(bound.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more connections. The open ones go on."""
        if self._bound.fileno() >= 0:
            self._loop.remove_reader(self._bound.fileno())
            self._bound.close()
        for handshake in self._handshakes:
            handshake.cancel()

    async def wait_closed(self) -> None:
        """Wait for the handshakes to end, and stop the search for late connections."""
        self._timer.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        self._connections.tick()
        now = self._loop.time()
        if now - self._told >= TELL_SECONDS and (news := self._connections.news()):
            self._told = now
            self._tell(news)

    def _accept(self) -> None:
        for _ in range(ACCEPTS):
            try:
                client, address = self._bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # out of file descriptors or memory
                self._pause()
                return
            self._take(client, str(address[0]))

    def _pause(self) -> None:
        self._connections.make_room("")
        self._loop.remove_reader(self._bound.fileno())
        self._loop.call_later(EXHAUSTED_SECONDS, self._resume)

    def _resume(self) -> None:
        if self._bound.fileno() >= 0:
            self._loop.add_reader(self._bound.fileno(), self._accept)

    def _take(self, client: socket.socket, address: str) -> None:
        connection = self._make(address)
        if not self._connections.enter(connection):
            client.close()
            return
        client.setblocking(False)
        handshake = self._loop.create_task(self._connect(client, connection))
        connection.give_up = handshake.cancel
        self._handshakes.add(handshake)
        handshake.add_done_callback(partial(self._connected, client, connection))

    async def _connect(self, client: socket.socket, connection: HttpConnection) -> None:
        connection.begun = True
        await self._loop.connect_accepted_socket(lambda: connection, client, **self._tls)

    def _connected(self, client: socket.socket, connection: HttpConnection, handshake: asyncio.Task[None]) -> None:
        self._handshakes.discard(handshake)
        if not connection.begun:  # cancelled before it could begin, so no transport closes the socket
            client.close()
        if handshake.cancelled():
            self._leave(connection)
        elif (error := handshake.exception()) is not None:
            self._leave(connection)
            late = isinstance(error, ConnectionAbortedError | TimeoutError)
            self._connections.count(Cause.HANDSHAKE_LATE if late else Cause.HANDSHAKE_FAILED)

    def _leave(self, connection: HttpConnection) -> None:
        self._connections.leave(connection)
        connection.dissolve()


class Server(uvicorn.Server):
    """A uvicorn server with limits. It handles no signals, and its stop does not wait for idle clients.

    Args:
        config: The configuration, made with :func:`server_config`.
        connections: The connections of the port.
        bound: The socket to listen on.
        tell: Takes the numbers of ended connections; see :class:`Listener`.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        connections: Connections,
        bound: socket.socket,
        tell: Callable[[Mapping[str, int]], None],
    ) -> None:
        super().__init__(config)
        self._tell = tell
        self.room = connections
        self._bound = bound

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave all signals to the program."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - the signature of the base
        """Start to listen."""
        loop = asyncio.get_running_loop()

        def make(address: str) -> HttpConnection:
            return HttpConnection(self.config, self.server_state, self.room, address, loop)

        self.servers = [Listener(self._bound, self.room, make, self.config.ssl, self._tell)]  # type: ignore[list-item]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close idle connections, wait for requests in flight, and drop clients that do not answer the close."""
        stop = asyncio.create_task(super().shutdown(sockets))
        await asyncio.wait({stop}, timeout=CLOSE_SECONDS)
        for connection in list(self.server_state.connections):
            if connection.transport.is_closing():
                connection.transport.abort()
        await stop


def server_config(application: Application, context: ssl.SSLContext | None = None) -> uvicorn.Config:
    """Return the configuration of uvicorn for an application.

    It does not set the levels and handlers of uvicorn's loggers, because they belong to the whole process. Their
    records go to the root logger (:mod:`webhook.programs.log`), and :class:`HttpConnection` writes no access log.
    """
    options: dict[str, Any] = {"ssl_context_factory": lambda *_: context} if context is not None else {}
    return uvicorn.Config(
        application,
        loop="uvloop",
        http=HttpConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=10,
        **options,
    )
