"""What one connection may take: real sockets and real TLS, and a clock that the test moves."""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.programs.server.conftest import DEADLINE_S
from tests.programs.server.listening import KIB, LIMITS, Client, Port, begun, listening, request
from webhook.programs.http.connections import Cause, Limits, Phase

Test = Callable[[Port], Coroutine[Any, Any, None]]


def at_port(test: Test, limits: Limits = LIMITS, *, tls: bool = True) -> None:
    """Run a test against a port of its own."""

    async def run() -> None:
        async with asyncio.timeout(DEADLINE_S), listening(limits, tls=tls) as port:
            await test(port)

    asyncio.run(run())


both = pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])


@both
def test_requests_of_every_size_come_in_one_piece(tls: bool) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        sizes = [0, 1, 1000, 70 * KIB, 128 * KIB, 0]
        for size in sizes:
            assert await client.ask(b"x" * size) == 200
        assert [len(body) for body in port.app.bodies] == sizes
        assert port.connections.held == 0
        assert not port.closed

    at_port(test, tls=tls)


async def chunked(client: Client, *chunks: bytes, end: bytes = b"0\r\n\r\n") -> None:
    await client.send(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    for chunk in chunks:
        await client.send(b"%x\r\n%s\r\n" % (len(chunk), chunk))
    await client.send(end)


def test_chunks_of_a_usual_size_are_taken() -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        for _ in range(2):
            await chunked(client, *[b"x" * 1024] * 128)
            assert (await client.answer())[0] == 200
        assert [len(body) for body in port.app.bodies] == [128 * KIB] * 2

    at_port(test)


@both
def test_the_second_request_may_come_late_and_the_first_too(tls: bool) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        for _ in range(2):
            port.pass_seconds(100)
            assert await client.ask(b"{}") == 200
        assert not port.closed

    at_port(test, tls=tls)


@both
def test_headers_that_do_not_end_in_time_are_408(tls: bool) -> None:
    async def test(port: Port) -> None:
        client, other = await port.connect(), await port.connect()
        await client.send(b"POST / HTTP/1.1\r\nhost: x\r\n")
        await port.reach(lambda: port.connections.phases()[Phase.HEADERS] == 1)
        port.pass_seconds(10)
        status, head, text = await client.answer()
        assert (status, text) == (408, b"expected the whole request sooner")
        assert b"connection: close" in head
        assert await client.ended() == b""
        assert port.closed == {("reviews", Cause.HEADERS_LATE): 1}
        assert await other.ask() == 200

    at_port(test, tls=tls)


@both
def test_a_body_that_does_not_end_in_time_is_408_and_forgotten(tls: bool) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        await client.send(begun(1000, b"x" * 999))
        await port.reach(lambda: port.connections.held == 999)
        port.pass_seconds(10)
        assert (await client.answer())[0] == 408
        assert await client.ended() == b""
        assert port.connections.held == 0
        assert port.closed == {("reviews", Cause.BODY_LATE): 1}
        assert port.app.bodies == []

    at_port(test, tls=tls)


LINE = b"x: " + b"y" * 1000 + b"\r\n"
LONG = {
    "headers": b"GET / HTTP/1.1\r\n" + LINE * 9,
    "small headers": b"GET / HTTP/1.1\r\n" + b"a:b\r\n" * 300,
    "headers that end": b"GET / HTTP/1.1\r\n" + LINE * 9 + b"\r\n",
    "one header": b"GET / HTTP/1.1\r\nx: " + b"y" * 9000,
    "name of a header": b"GET / HTTP/1.1\r\n" + b"y" * 9000,
    "url": b"GET /" + b"y" * 9000,
    "blank lines": b"\r\n" * 5000,
}


@both
@pytest.mark.parametrize("data", LONG.values(), ids=LONG.keys())
@pytest.mark.parametrize("piece", [100_000, 700], ids=["at once", "in pieces"])
def test_headers_without_end_are_431(data: bytes, piece: int, tls: bool) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        for begin in range(0, len(data), piece):
            if port.closed:
                break
            await client.send(data[begin : begin + piece])
            await asyncio.sleep(0.001)
        status, _, text = await client.answer()
        assert status == 431
        assert text == b"expected at most 8192 bytes beside the body (server.maxheaderbytes), found more".replace(
            b"maxheaderbytes", b"maxHeaderBytes"
        )
        assert port.closed == {("reviews", Cause.HEADERS_TOO_LONG): 1}

    at_port(test, tls=tls)


BEGIN = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n"
FRAMES = {
    "trailers": b"0\r\n" + LINE * 9,
    "one trailer": b"0\r\nx: " + b"y" * 9000,
    "an extension of a chunk": b"1;x=" + b"y" * 9000,
    "chunks of one byte": b"1\r\nx\r\n" * 3000,
}


@pytest.mark.parametrize("frames", FRAMES.values(), ids=FRAMES.keys())
@pytest.mark.parametrize("piece", [100_000, 700], ids=["at once", "in pieces"])
def test_what_frames_a_body_has_the_limit_of_headers(frames: bytes, piece: int) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        await client.send(BEGIN)
        for begin in range(0, len(frames), piece):
            if port.closed:
                break
            await client.send(frames[begin : begin + piece])
            await asyncio.sleep(0.001)
        assert (await client.answer())[0] == 431
        assert port.closed == {("reviews", Cause.HEADERS_TOO_LONG): 1}
        assert port.connections.held == 0
        assert port.app.bodies == []

    at_port(test)


def test_a_body_over_the_limit_reaches_the_application_as_soon_as_it_is_over() -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        await chunked(client, *[b"x" * 1024] * 140, end=b"")
        assert (await client.answer())[0] == 200
        assert LIMITS.body_bytes < len(port.app.bodies[0]) <= 140 * KIB
        assert port.connections.held == 0

    at_port(test)


def test_a_request_before_the_answer_to_the_last_ends_the_connection_after_that_answer() -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        port.app.may_answer.clear()
        await client.send(request(b"{}") * 1000)
        await port.until(Cause.PIPELINED)
        port.app.may_answer.set()
        status, head, _ = await client.answer()
        assert status == 200
        assert b"connection: close" in head
        assert await client.ended() == b""
        assert len(port.app.bodies) == 1
        assert port.closed == {("reviews", Cause.PIPELINED): 1}

    at_port(test)


@pytest.mark.parametrize(
    "data", [b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n"]
)
def test_what_is_not_http_is_400(data: bytes) -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        await client.send(data)
        assert (await client.answer())[0] == 400
        assert await client.ended() == b""
        assert port.closed == {("reviews", Cause.MALFORMED): 1}

    at_port(test)


def test_a_length_and_chunks_in_one_request_are_400() -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        await client.send(
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET"
        )
        assert (await client.answer())[0] == 400
        assert port.app.bodies == []

    at_port(test)


def test_an_upgrade_is_answered_as_a_request_and_ends_the_connection() -> None:
    async def test(port: Port) -> None:
        client = await port.connect()
        await client.send(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\nPRI * HTTP/2.0")
        status, head, _ = await client.answer()
        assert status == 200
        assert b"connection: close" in head
        assert await client.ended() == b""

    at_port(test)


@both
def test_an_answer_that_nobody_takes_ends_the_connection(tls: bool) -> None:
    async def test(port: Port) -> None:
        port.app.answer_bytes = 8 * 1024 * KIB
        client, other = await port.connect(), await port.connect()
        client.pause()
        await client.send(request(b"{}"))
        await port.reach(lambda: port.connections.held > 1024 * KIB)
        port.pass_seconds(10)
        assert port.connections.held == 0
        assert port.closed == {("reviews", Cause.ANSWER_UNREAD): 1}
        port.app.answer_bytes = 0
        assert await other.ask() == 200

    at_port(test, replace(LIMITS, unfinished_bytes=16 * 1024 * KIB), tls=tls)


def test_a_long_answer_that_is_taken_ends_nothing() -> None:
    async def test(port: Port) -> None:
        port.app.answer_bytes = 4 * 1024 * KIB
        client = await port.connect()
        for _ in range(3):
            assert await client.ask(b"{}") == 200
        await port.reach(lambda: port.connections.held == 0)
        assert not port.closed

    at_port(test, replace(LIMITS, unfinished_bytes=16 * 1024 * KIB))


def test_answers_over_the_limit_of_bytes_end_the_connection() -> None:
    async def test(port: Port) -> None:
        port.app.answer_bytes = 8 * 1024 * KIB
        client = await port.connect()
        client.pause()
        await client.send(request(b"{}"))
        await port.until(Cause.TOO_MANY_BYTES)
        assert port.connections.held == 0

    at_port(test)


def test_a_client_that_is_let_go_while_its_request_is_answered_frees_it_at_once() -> None:
    async def test(port: Port) -> None:
        port.app.may_answer.clear()
        waiting = [await port.connect() for _ in range(2)]
        for number, client in enumerate(waiting, 1):
            await client.send(request(b"x" * 100 * KIB))
            await port.reach(lambda number=number: port.app.waiting == number)  # type: ignore[misc]
        third = await port.connect()
        await third.send(begun(100 * KIB, b"x" * 100 * KIB))
        await port.reach(lambda: port.app.cancelled == 1)
        assert port.connections.held == 200 * KIB
        assert await waiting[0].ended() == b""
        port.app.may_answer.set()
        for client in (waiting[1], third):
            assert (await client.answer())[0] == 200

    at_port(test)


def test_a_handshake_that_never_ends_is_given_up() -> None:
    async def test(port: Port) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        assert await reader.read() == b""
        await port.until(Cause.HANDSHAKE_LATE)
        writer.close()
        assert len(port.connections) == 0

    at_port(test, replace(LIMITS, handshake_seconds=1))


def test_a_handshake_that_fails_is_counted() -> None:
    async def test(port: Port) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await port.until(Cause.HANDSHAKE_FAILED)
        assert b"HTTP" not in await reader.read()
        writer.close()
        await port.reach(lambda: len(port.connections) == 0)

    at_port(test)


def test_connections_that_never_shake_hands_make_room_for_those_that_do() -> None:
    async def test(port: Port) -> None:
        kept = await port.connect()
        assert await kept.ask(b"{}") == 200
        silent = []
        for _ in range(50):
            silent.append(socket.create_connection(("127.0.0.1", port.number)))
            assert await kept.ask(b"{}") == 200
        fresh = await port.connect()
        assert await fresh.ask(b"{}") == 200
        assert len(port.connections) <= LIMITS.connections
        assert port.count(Cause.TOO_MANY_CONNECTIONS) >= 43
        for client in silent:
            client.close()

    at_port(test)


def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind() -> None:
    async def test(port: Port) -> None:
        for part in (b"", b"POST", begun(1000, b"x" * 10), request(b"x" * 10)):
            client = await port.connect()
            await client.send(part)
            client.writer.transport.abort()
        await port.reach(lambda: len(port.connections) == 0)
        assert port.connections.held == 0
        assert not port.closed

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


def test_a_server_leaves_the_loggers_of_the_process_as_they_are(told: list[str]) -> None:
    async def test(port: Port) -> None:
        assert await (await port.connect()).ask(b"x") == 200
        for name in ("access", "error", "asgi"):
            logger = logging.getLogger(f"uvicorn.{name}")
            assert (logger.level, len(logger.handlers), logger.propagate) == (logging.INFO, 1, True)

    at_port(test, tls=False)
    assert any("Started server process" in line for line in told)


def test_a_server_writes_no_access_log_though_there_is_a_handler_for_one(told: list[str]) -> None:
    async def test(port: Port) -> None:
        assert await (await port.connect()).ask(b"x") == 200

    at_port(test, tls=False)
    assert not any("POST" in line for line in told)
