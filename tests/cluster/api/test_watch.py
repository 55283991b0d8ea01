"""Answers that go on: their lines, however they are cut, and their ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.cluster.api.access import ToldAccess
from tests.cluster.api.conftest import Run
from tests.cluster.api.stand_in import Line, Received, Turn, chunked, head, serving, status
from webhook.cluster.api.errors import ApiServerAway, Expired
from webhook.cluster.api.session import READ_AHEAD, Session

CHUNKED = head("200 OK", "Transfer-Encoding: chunked")
SECONDS = 20.0


async def watch(
    turn: Turn, read: Callable[[AsyncIterator[bytes]], Awaitable[None]], *, limit: int = 1000, seconds: float = SECONDS
) -> None:
    async with serving(turn) as stand_in:
        session = Session(ToldAccess(f"http://127.0.0.1:{stand_in.port}"), user_agent="test", seconds=SECONDS)
        try:
            async with session.watch(
                "watch x", "/x", limit=limit, accept="application/json", seconds=seconds
            ) as stream:
                await read(stream)
        finally:
            await session.close()


def says(*parts: bytes, hang_up: bool = False) -> Turn:
    async def turn(_: Received, line: Line) -> None:
        for part in parts:
            line.raw(part)
            await line.writer.drain()
            await asyncio.sleep(0.002)
        if hang_up:
            line.hang_up()

    return turn


async def all_of(lines: AsyncIterator[bytes]) -> list[bytes]:
    return [line async for line in lines]


@pytest.mark.parametrize(
    "parts",
    [
        [CHUNKED + chunked(b'{"a":1}\n{"b":2}\n')],
        [CHUNKED, chunked(b'{"a"', b":1}", b'\n{"b":2}', b"\n")],
        [CHUNKED + chunked(b'{"a":1}\n\n\n{"b":2}')],
        [bytes([byte]) for byte in CHUNKED + chunked(b'{"a":1}\n{"b":2}\n')],
        [b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + chunked(b'{"a":1}\n{"b":2}\n')],
    ],
)
def test_lines_are_whole_however_they_arrive(run: Run, parts: list[bytes]) -> None:
    async def read(lines: AsyncIterator[bytes]) -> None:
        assert await all_of(lines) == [b'{"a":1}', b'{"b":2}']

    run(watch(says(*parts), read))


def test_an_answer_that_is_cut_off_gives_its_lines_first_and_is_an_error_then(run: Run) -> None:
    got: list[bytes] = []

    async def read(lines: AsyncIterator[bytes]) -> None:
        async for line in lines:
            got.append(line)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(ApiServerAway, match=r"watch x: http://127.0.0.1:.* gives no answer: the connection end"):
        run(watch(says(CHUNKED, b"4\r\na\nbb\r\n", hang_up=True), read))
    assert got == [b"a"]


def test_a_line_that_is_too_long_is_an_error_and_is_not_kept(run: Run) -> None:
    async def read(lines: AsyncIterator[bytes]) -> None:
        await all_of(lines)

    with pytest.raises(ApiServerAway, match=r"watch x: expected lines of at most 1000 bytes, found a longer one"):
        run(watch(says(CHUNKED, *[b"64\r\n" + b"x" * 100 + b"\r\n"] * 11), read))


def test_a_refusal_is_told_in_the_words_of_the_api_server(run: Run) -> None:
    async def read(_: AsyncIterator[bytes]) -> None:
        raise AssertionError("a refusal has no lines")

    async def turn(_: Received, line: Line) -> None:
        line.say(status(410, "too old"), "410 Gone")

    with pytest.raises(Expired, match=r"^watch x: too old \(410\)$"):
        run(watch(turn, read))


@pytest.mark.parametrize("parts", [[b"nonsense\r\n\r\n"], [b"HTTP/2 200\r\n\r\n"]])
def test_what_is_no_http_is_an_error(run: Run, parts: list[bytes]) -> None:
    async def read(lines: AsyncIterator[bytes]) -> None:
        await all_of(lines)

    with pytest.raises(ApiServerAway, match=r"watch x: http://127.0.0.1:.* gives no answer: what came is no HTTP$"):
        run(watch(says(*parts), read))


def test_a_watch_ends_when_its_time_is_over(run: Run) -> None:
    async def read(lines: AsyncIterator[bytes]) -> None:
        await all_of(lines)

    with pytest.raises(ApiServerAway, match=r"watch x: .* gives no answer in time"):
        run(watch(says(CHUNKED), read, seconds=0.05))


async def test_nobody_listens_is_an_error() -> None:
    session = Session(ToldAccess("http://127.0.0.1:1"), user_agent="test", seconds=SECONDS)
    with pytest.raises(ApiServerAway, match=r"watch x: http://127.0.0.1:1 gives no answer"):
        async with session.watch("watch x", "/x", limit=10, accept="application/json", seconds=SECONDS):
            pass
    await session.close()


def test_the_server_waits_while_nobody_reads(run: Run) -> None:
    sent = 0

    async def turn(_: Received, line: Line) -> None:
        nonlocal sent
        line.raw(CHUNKED)
        for _number in range(2000):
            line.raw(b"%x\r\n%s\r\n" % (10_000, b"x" * 9_999 + b"\n"))
            await line.writer.drain()
            sent += 10_000
        line.raw(b"0\r\n\r\n")

    async def read(lines: AsyncIterator[bytes]) -> None:
        before = -1
        while sent > before:
            before = sent
            await asyncio.sleep(0.3)
        assert READ_AHEAD < before < 2000 * 10_000
        assert len(await all_of(lines)) == 2000

    run(watch(turn, read, limit=20_000))
