"""Answers that go on: their lines, however they are cut, and their ends."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from kubernetes.client import Configuration

from tests.kube.conftest import Run
from tests.kube.stand_in import Line, Received, Turn, chunked, head, serving, status
from webhook.kube.errors import ApiServerAway
from webhook.kube.session import Session
from webhook.kube.stream import HIGH_WATER, Stream

CHUNKED = head("200 OK", "Transfer-Encoding: chunked")
SECONDS = 20.0


async def watch(
    turn: Turn, read: Callable[[Stream], Awaitable[None]], *, limit: int = 1000, seconds: float = SECONDS
) -> None:
    async with serving(turn) as stand_in:
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{stand_in.port}"
        session = Session(configuration, user_agent="test", seconds=SECONDS)
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


async def lines(stream: Stream) -> list[bytes]:
    found = []
    while (line := await stream.line()) is not None:
        found.append(line)
    return found


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
    async def read(stream: Stream) -> None:
        assert stream.status == 200
        assert await lines(stream) == [b'{"a":1}', b'{"b":2}']

    run(watch(says(*parts), read))


def test_an_answer_that_is_cut_off_gives_its_lines_first_and_is_an_error_then(run: Run) -> None:
    got: list[bytes | None] = []

    async def read(stream: Stream) -> None:
        got.append(await stream.line())
        await stream.line()

    with pytest.raises(ApiServerAway, match=r"watch x: http://127.0.0.1:.* closed before the end of the answer"):
        run(watch(says(CHUNKED, b"4\r\na\nbb\r\n", hang_up=True), read))
    assert got == [b"a"]


def test_a_line_that_is_too_long_is_an_error_and_is_not_kept(run: Run) -> None:
    async def read(stream: Stream) -> None:
        await lines(stream)

    with pytest.raises(ApiServerAway, match=r"watch x: expected lines of at most 1000 bytes, found a longer one"):
        run(watch(says(CHUNKED, *[b"64\r\n" + b"x" * 100 + b"\r\n"] * 11), read))


def test_a_refusal_has_its_words(run: Run) -> None:
    async def read(stream: Stream) -> None:
        answer = await stream.rest()
        assert (stream.status, answer.status, answer.body) == (410, 410, status(410, "too old"))

    async def turn(_: Received, line: Line) -> None:
        line.say(status(410, "too old"), "410 Gone")

    run(watch(turn, read))


@pytest.mark.parametrize("parts", [[b"nonsense\r\n\r\n"], [CHUNKED, b"zz\r\n"]])
def test_what_is_no_http_is_an_error(run: Run, parts: list[bytes]) -> None:
    async def read(stream: Stream) -> None:
        await lines(stream)

    with pytest.raises(ApiServerAway, match=r"watch x: .* what came is no HTTP"):
        run(watch(says(*parts), read))


def test_a_watch_ends_when_its_time_is_over(run: Run) -> None:
    async def read(stream: Stream) -> None:
        await lines(stream)

    with pytest.raises(ApiServerAway, match=r"watch x: .* gives no answer in time"):
        run(watch(says(CHUNKED), read, seconds=0.05))


def test_nobody_listens_is_an_error(run: Run) -> None:
    async def test() -> None:
        configuration = Configuration()
        configuration.host = "http://127.0.0.1:1"
        session = Session(configuration, user_agent="test", seconds=SECONDS)
        with pytest.raises(ApiServerAway, match=r"watch x: http://127.0.0.1:1 gives no answer"):
            async with session.watch("watch x", "/x", limit=10, accept="application/json", seconds=SECONDS):
                pass
        await session.close()

    run(test())


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

    async def read(stream: Stream) -> None:
        before = -1
        while sent > before:
            before = sent
            await asyncio.sleep(0.3)
        assert HIGH_WATER < before < 2000 * 10_000
        assert len(await lines(stream)) == 2000

    run(watch(turn, read, limit=20_000))
