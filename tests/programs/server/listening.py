"""A port of the server in the test's own process, with a clock that the test moves."""

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from certs.certificate import issue
from certs.context import server_context
from tests.ports import reserved_port
from tests.programs.server.conftest import DEADLINE_S
from webhook.programs.http.addresses import bind
from webhook.programs.http.asgi import Application, Receive, Scope, Send
from webhook.programs.http.connections import Cause, Connections, Limits
from webhook.programs.http.listener import Server, server_config

KIB = 1024
LIMITS = Limits(
    connections=8,
    unfinished_bytes=256 * KIB,
    header_bytes=8 * KIB,
    body_bytes=128 * KIB,
    handshake_seconds=DEADLINE_S,
    header_seconds=10,
    body_seconds=10,
    answer_seconds=10,
    idle_seconds=120,
)


@dataclass
class Client:
    """A client of the port."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, bytes, bytes]:
        """Status, head in lower case and body of the next answer."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(head.split()[1]), head, await self.reader.readexactly(length)

    async def ask(self, body: bytes = b"") -> int:
        """The status of the answer to a whole request."""
        await self.send(request(body))
        status, _, _ = await self.answer()
        return status

    def pause(self) -> None:
        """Read no more."""
        assert isinstance(self.writer.transport, asyncio.Transport)
        self.writer.transport.pause_reading()

    async def ended(self) -> bytes:
        """What came before the server ended the connection."""
        try:
            return await self.reader.read()
        except (ConnectionError, ssl.SSLError):
            return b""


@dataclass
class Port:
    """The server's side."""

    number: int
    connections: Connections
    closed: Counter[tuple[str, str]]
    context: ssl.SSLContext | None
    app: "Recorder"
    now: list[float] = field(default_factory=lambda: [1000.0])

    clients: list[Client] = field(default_factory=list)

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.number, ssl=self.context))
        self.clients.append(client)
        return client

    def count(self, cause: Cause) -> int:
        return self.closed["reviews", cause]

    def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now[0] += 1
            self.connections.tick()

    async def until(self, cause: Cause, times: int = 1) -> None:
        """Wait until the server has ended so many connections for that."""
        await self.reach(lambda: self.count(cause) >= times)

    async def reach(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.01)


class Recorder:
    """An application that answers with the length of the body; or waits until it may, or answers at length."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.disconnects = 0
        self.cancelled = 0
        self.waiting = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.answer_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._answer(scope, receive, send)
        except asyncio.CancelledError:
            self.cancelled += 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts, more = [], scope["method"] == "POST"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.disconnects += 1
                return
            parts.append(message["body"])
            more = message["more_body"] and sum(map(len, parts)) <= LIMITS.body_bytes
        self.bodies.append(b"".join(parts))
        self.waiting += 1
        await self.may_answer.wait()
        text = b"x" * self.answer_bytes or b"%d" % len(self.bodies[-1])
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-length", b"%d" % len(text))],
            }
        )
        for begin in range(0, len(text), 64 * KIB):
            end = begin + 64 * KIB
            await send({"type": "http.response.body", "body": text[begin:end], "more_body": end < len(text)})


def request(body: bytes = b"") -> bytes:
    """A whole request."""
    return b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def begun(length: int, part: bytes = b"") -> bytes:
    """A request of which only a part of the body comes."""
    return b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % length + part


@asynccontextmanager
async def listening(limits: Limits = LIMITS, *, tls: bool = True) -> AsyncIterator[Port]:
    """A port with these limits."""
    bundle = issue(["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    now = [1000.0]
    closed: Counter[tuple[str, str]] = Counter()
    connections = Connections(limits, "reviews", closed, lambda: now[0])
    app = Recorder()
    application: Application = app
    with reserved_port() as number:
        config = server_config(application, server_context(bundle) if tls else None)
        server = Server(
            config, connections, bind("127.0.0.1", number, remedy="Choose others with --port"), lambda _: None
        )
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.005)
        context = ssl.create_default_context(cadata=bundle.authority.decode()) if tls else None
        port = Port(number, connections, closed, context, app, now)
        try:
            yield port
        finally:
            for client in port.clients:
                client.writer.transport.abort()
            app.may_answer.set()
            server.should_exit = True
            await serving
