"""A server on the loopback interface that says what a test lets it say, byte for byte, in the loop of the test."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

POD = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"train","namespace":"team-a"},"unknown":[1.50,"\\u00e9"]}'


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    """With names in small letters."""
    body: bytes
    connection: int
    """Its number, from 1."""


class Line:
    """A connection, from the server's side."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer

    def say(self, body: bytes, status: str = "200 OK", *headers: str) -> None:
        """An answer with a content length."""
        self.raw(head(status, f"Content-Length: {len(body)}", *headers) + body)

    def raw(self, text: bytes) -> None:
        self.writer.write(text)

    def hang_up(self) -> None:
        self.writer.close()


Turn = Callable[[Received, Line], Awaitable[None]]


@dataclass
class StandIn:
    """A running server."""

    port: int
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    most_open: int = 0


def head(status: str, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "Content-Type: application/json", *headers, "", ""]).encode()


def chunked(*parts: bytes) -> bytes:
    """A body in chunks, with the end."""
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))


def status(code: int, message: str, **more: object) -> bytes:
    """What the API server says when it does not do what it is asked for."""
    found = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code, **more}
    return json.dumps(found).encode()


def always(body: bytes, code: str = "200 OK") -> Turn:
    async def turn(_: Received, line: Line) -> None:
        line.say(body, code)

    return turn


@asynccontextmanager
async def serving(
    turn: Turn, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[StandIn]:
    """A server that hands each request to ``turn``; at the end it hangs up on everybody."""
    stand_in, tasks = StandIn(port), set[asyncio.Task[None]]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stand_in.connections += 1
        stand_in.open += 1
        stand_in.most_open = max(stand_in.most_open, stand_in.open)
        number = stand_in.connections
        try:
            while not writer.is_closing():
                request = await read_request(reader, number)
                stand_in.received.append(request)
                await turn(request, Line(writer))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            stand_in.open -= 1
            writer.transport.abort()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(connected(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # also of one that ends before it begins

    server = await asyncio.start_server(accept, host, port, ssl=tls)
    stand_in.port = server.sockets[0].getsockname()[1]
    try:
        yield stand_in
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def read_request(reader: asyncio.StreamReader, connection: int) -> Received:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    method, target, _ = first.split(" ")
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, target, headers, body, connection)


def kubeconfig(
    path: Path, server: str, *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None
) -> Path:
    """A kubeconfig for that server, by default with the token ``t``."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(content))
    return path
