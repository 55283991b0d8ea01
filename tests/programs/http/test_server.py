"""What a client may take of a port: real sockets, and TLS where it matters."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from certs.certificate import issue
from certs.context import server_context
from tests.ports import reserved_port
from tests.programs.server.conftest import DEADLINE_S
from webhook.programs.http.messages import JSON, TEXT, BadRequest, Bodies, Receive, Scope, Send, send_answer
from webhook.programs.http.server import Cause, Limits, Server, bind

KIB = 1024
LIMITS = Limits(connections=8)
LONGEST = 128 * KIB


class Lengths:
    """An application that answers with the length of the body, once it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.waiting = 0
        self._bodies = Bodies(LONGEST)

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._bodies.read(receive)
        except BadRequest as error:
            await send_answer(send, error.status, TEXT, str(error).encode())
            return
        self.waiting += 1
        await self.may_answer.wait()
        await send_answer(send, 200, JSON, b"%d" % len(body))


@dataclass
class Client:
    """A client of the port."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, bytes, bytes]:
        """Status, head and body of the next answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(head.split()[1]), head, await self.reader.readexactly(length)

    async def ask(self, body: bytes = b"") -> int:
        """The status of the answer to a whole request."""
        await self.send(request(body))
        return (await self.answer())[0]

    async def ended(self) -> bytes:
        """What came before the server ended the connection."""
        with suppress(ConnectionError):
            return await self.reader.read()
        return b""


@dataclass
class Port:
    """The server's side."""

    number: int
    server: Server
    app: Lengths
    context: ssl.SSLContext | None
    clients: list[Client] = field(default_factory=list)

    async def connect(self) -> Client:
        """A client that the server has let in."""
        ended = sum(self.server.closed.values())
        client = Client(*await asyncio.open_connection("127.0.0.1", self.number, ssl=self.context))
        self.clients.append(client)
        address = client.writer.get_extra_info("sockname")
        await self.reach(
            lambda: (
                sum(self.server.closed.values()) > ended
                or any(getattr(each, "client", None) == address for each in self.server.server_state.connections)
            )
        )
        return client

    async def look_for_late_ones(self) -> None:
        await self.server.on_tick(0)

    async def reach(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.005)


def request(body: bytes = b"") -> bytes:
    """A whole request."""
    return b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body


@asynccontextmanager
async def listening(limits: Limits, *, tls: bool) -> AsyncIterator[Port]:
    bundle = issue(["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    app = Lengths()
    with reserved_port() as number:
        bound = bind("127.0.0.1", number, remedy="Choose others with --port")
        server = Server(app, bound, limits, server_context(bundle) if tls else None)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.005)
        port = Port(number, server, app, ssl.create_default_context(cadata=bundle.authority.decode()) if tls else None)
        try:
            yield port
        finally:
            for client in port.clients:
                client.writer.transport.abort()
            app.may_answer.set()
            server.should_exit = True
            await serving


def at_port(test: Callable[[Port], Coroutine[Any, Any, None]], limits: Limits = LIMITS, *, tls: bool = False) -> None:
    """Run a test against a port of its own."""

    async def run() -> None:
        async with asyncio.timeout(DEADLINE_S), listening(limits, tls=tls) as port:
            await test(port)

    asyncio.run(run())


both = pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])


@both
def test_requests_of_every_size_are_answered_on_one_connection(tls: bool) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        for size in (0, 1, 1000, 70 * KIB, LONGEST, 0):
            await client.send(request(b"x" * size))
            assert (await client.answer())[::2] == (200, b"%d" % size)
        await port.look_for_late_ones()
        assert await client.ask() == 200
        assert not port.server.closed

    at_port(test, tls=tls)


def test_a_body_over_the_limit_is_413_before_its_end_with_a_length_or_in_pieces() -> None:
    async def test(port: Port) -> None:
        for head in (b"content-length: 10000000", b"transfer-encoding: chunked"):
            client = await port.connect()
            await client.send(b"POST / HTTP/1.1\r\nhost: x\r\n%s\r\n\r\n" % head)
            await client.send((b"400\r\n" + b"x" * KIB + b"\r\n") * 129)
            status, _, text = await client.answer()
            assert (status, text) == (413, b"request body: expected at most 131072 bytes, found more")
        client = await port.connect()
        await client.send(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        await client.send((b"400\r\n" + b"x" * KIB + b"\r\n") * 128 + b"0\r\n\r\n")
        assert (await client.answer())[::2] == (200, b"131072")

    at_port(test)


def test_four_long_bodies_are_read_at_a_time_and_shorter_ones_wait_for_none() -> None:
    async def test(port: Port) -> None:
        long = [await port.connect() for _ in range(6)]
        for client in long:
            await client.send(request(b"x" * LONGEST)[:-1])
        for size in (2, 60 * KIB):
            short = await port.connect()
            await short.send(request(b"x" * size)[:-1])
            await short.send(b"x")
            assert (await short.answer())[0] == 200
        await long[0].send(b"x")
        assert (await long[0].answer())[0] == 200
        for client in long[1:]:
            await client.send(b"x")
            assert (await client.answer())[0] == 200

    at_port(test, replace(LIMITS, connections=16))


@pytest.mark.parametrize("sent", [b"", b"POST / HTTP/1.1\r\nhost: x\r\n"], ids=["nothing", "half of the headers"])
def test_a_client_whose_headers_are_late_is_ended(sent: bytes) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        await client.send(sent)
        await port.look_for_late_ones()
        assert await client.ended() == b""
        assert port.server.closed == {Cause.HEADERS_LATE: 1}

    at_port(test, replace(LIMITS, header_seconds=0))


def test_a_client_that_is_not_late_is_not_ended() -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        for part in (request(b"ab")[:20], request(b"ab")[20:-1], b"b"):
            await port.look_for_late_ones()
            await client.send(part)
        assert (await client.answer())[0] == 200

    at_port(test)


def test_a_request_whose_body_or_answer_is_late_is_ended() -> None:
    async def test(port: Port) -> None:
        body, answer, idle = [await port.connect() for _ in range(3)]
        assert await idle.ask() == 200
        port.app.may_answer.clear()
        await answer.send(request(b"{}"))
        await body.send(request(b"{}")[:-1])
        await port.reach(lambda: len(port.server.silent) == 0)
        await port.look_for_late_ones()
        assert (await body.ended(), await answer.ended()) == (b"", b"")
        assert port.server.closed == {Cause.REQUEST_LATE: 2}
        port.app.may_answer.set()
        assert await idle.ask() == 200

    at_port(test, replace(LIMITS, request_seconds=0))


LINE = b"x: " + b"y" * 1000 + b"\r\n"
BEGIN = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n"
LONG = {
    "headers": b"GET / HTTP/1.1\r\n" + LINE * 9,
    "headers that end": b"GET / HTTP/1.1\r\n" + LINE * 9 + b"\r\n",
    "one header": b"GET / HTTP/1.1\r\nx: " + b"y" * 9000,
    "name of a header": b"GET / HTTP/1.1\r\n" + b"y" * 9000,
    "url": b"GET /" + b"y" * 9000,
    "blank lines": b"\r\n" * 5000,
    "trailers": b"0\r\n" + LINE * 9,
    "an extension of a chunk": b"1;x=" + b"y" * 9000,
}


@both
@pytest.mark.parametrize("piece", [100_000, 700], ids=["at once", "in pieces"])
def test_headers_without_end_are_400(tls: bool, piece: int, subtests: pytest.Subtests) -> None:
    async def test(port: Port) -> None:
        for number, (name, data) in enumerate(LONG.items(), 1):
            with subtests.test(name):
                client = await port.connect()
                if name in {"trailers", "an extension of a chunk"}:
                    await client.send(BEGIN)
                    await port.reach(lambda: not port.server.silent)
                for begin in range(0, len(data), piece):
                    if port.server.closed[Cause.HEADERS_TOO_LONG] == number:
                        break
                    await client.send(data[begin : begin + piece])
                    await asyncio.sleep(0.001)
                assert (await client.ended()).startswith(b"HTTP/1.1 400 ")
                assert port.server.closed == {Cause.HEADERS_TOO_LONG: number}

    at_port(test, tls=tls)


def test_headers_of_almost_the_longest_length_are_answered() -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        for _ in range(3):
            await client.send(b"GET / HTTP/1.1\r\n" + LINE * 8 + b"\r\n")
            assert (await client.answer())[0] == 200

    at_port(test)


@both
def test_of_too_many_connections_the_oldest_that_never_sent_a_request_is_closed(tls: bool) -> None:
    async def test(port: Port) -> None:
        used = [await port.connect() for _ in range(2)]
        for client in used:
            assert await client.ask() == 200
        silent = [await port.connect() for _ in range(6)]
        fresh = [await port.connect() for _ in range(3)]
        assert [await client.ended() for client in silent[:3]] == [b""] * 3
        assert port.server.closed == {Cause.TOO_MANY_CONNECTIONS: 3}
        for client in (*used, *silent[3:], *fresh):
            assert await client.ask() == 200

    at_port(test, tls=tls)


def test_a_client_in_excess_is_closed_if_all_others_have_sent_requests() -> None:
    async def test(port: Port) -> None:
        used = [await port.connect() for _ in range(8)]
        for client in used:
            assert await client.ask() == 200
        assert await (await port.connect()).ended() == b""
        for client in used:
            assert await client.ask() == 200

    at_port(test)


def test_while_a_port_drains_every_answer_closes_its_connection() -> None:
    async def test(port: Port) -> None:
        idle, asking = await port.connect(), await port.connect()
        assert await idle.ask() == 200
        port.app.may_answer.clear()
        await asking.send(request(b"{}"))
        await port.reach(lambda: port.app.waiting == 2)
        port.server.drain()
        port.app.may_answer.set()
        await idle.send(request(b"{}"))
        for client in (idle, asking):
            status, head, _ = await client.answer()
            assert (status, b"connection: close" in head) == (200, True)
            assert await client.ended() == b""

    at_port(test)


def test_a_tls_handshake_that_never_ends_is_given_up() -> None:
    async def test(port: Port) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        assert await reader.read() == b""
        writer.close()
        assert port.server.open == 0

    at_port(test, replace(LIMITS, header_seconds=0.5), tls=True)


def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind() -> None:
    async def test(port: Port) -> None:
        for part in (b"", b"POST", request(b"x" * 10)[:-1], request(b"x" * 10)):
            client = await port.connect()
            await client.send(part)
            client.writer.transport.abort()
        await port.reach(lambda: port.server.open == 0)
        assert (port.server.silent, port.server.closed) == ({}, {})

    at_port(test)


@pytest.fixture
def told() -> Iterator[list[str]]:
    """What uvicorn's loggers are told, by a handler of someone else who wants all of it."""
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    loggers, handler = [logging.getLogger(f"uvicorn.{name}") for name in ("access", "error", "asgi")], Handler()
    before = [(each.level, each.handlers, each.propagate) for each in loggers]
    for each in loggers:
        each.setLevel(logging.INFO)
        each.handlers, each.propagate = [handler], True
    yield lines
    for each, (level, handlers, propagate) in zip(loggers, before, strict=True):
        each.setLevel(level)
        each.handlers, each.propagate = handlers, propagate


def test_a_server_writes_no_access_log_and_leaves_the_loggers_of_the_process_as_they_are(told: list[str]) -> None:
    async def test(port: Port) -> None:
        assert await (await port.connect()).ask(b"x") == 200
        for name in ("access", "error", "asgi"):
            logger = logging.getLogger(f"uvicorn.{name}")
            assert (logger.level, len(logger.handlers), logger.propagate) == (logging.INFO, 1, True)

    at_port(test)
    assert any("Started server process" in line for line in told)
    assert not any("POST" in line for line in told)
