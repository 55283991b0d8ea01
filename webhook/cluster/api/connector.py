"""Connections to the API server, and the check of an idle one before it is used again."""

import asyncio
import functools
import select
import socket
import weakref

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

_DEAD_PEER = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 50_000))
"""Socket options that notice a silent peer after 50 s (tcp(7)), as client-go does with pings of HTTP/2."""


class _Protocol(ResponseHandler):
    """One connection, which is closed without the farewell of TLS.

    To wait for the farewell of the other side takes up to half a minute, perhaps longer than the loop runs: uvloop then
    refuses to close.
    """

    def close(self) -> None:
        self.abort()


class Connector(aiohttp.TCPConnector):
    """A connector that closes an idle connection over which something came.

    aiohttp's own would take such bytes for the answer to the next request. An API server sends nothing unasked, except
    session tickets of TLS and the end of the connection.

    Args:
        limit: The most connections at the same time.
        keepalive_timeout: The seconds for which an idle connection is kept.
    """

    def __init__(self, *, limit: int, keepalive_timeout: float) -> None:
        super().__init__(limit=limit, keepalive_timeout=keepalive_timeout, socket_factory=_socket)
        self._factory = functools.partial(self._protocol)  # of the type that aiohttp declares
        self._made: weakref.WeakSet[_Protocol] = weakref.WeakSet()

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Close all connections, those too whose request was given up before aiohttp had them."""
        await super().close(abort_ssl=abort_ssl)
        for protocol in self._made:
            protocol.abort()

    def _protocol(self) -> ResponseHandler:
        made = _Protocol(asyncio.get_running_loop())
        self._made.add(made)
        return made

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        while (connection := await super()._get(key, traces)) is not None:
            if _is_silent(connection):
                return connection
            connection.close()
        return None


def _is_silent(connection: Connection) -> bool:
    protocol, transport = connection.protocol, connection.transport
    if protocol is None or transport is None or protocol.should_close:
        return False
    waiting = select.poll()
    waiting.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return not waiting.poll(0)


def _socket(address: "aiohttp.connector.AddrInfoType") -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _DEAD_PEER:
        if hasattr(socket, option):  # Linux has all of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
