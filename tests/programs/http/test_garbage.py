"""A connection that was ended early is freed at once. Else a flood of them waits in memory for the collector."""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from tests.programs.server.conftest import DEADLINE_S
from tests.programs.server.listening import KIB, LIMITS, Port, begun, listening, request
from webhook.programs.http.connections import Cause
from webhook.programs.http.protocol import HttpConnection

Attack = Callable[[Port], Coroutine[Any, Any, None]]
TIMES = 5


@contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def no_tls(port: Port) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await reader.read()
    writer.close()


async def nothing(port: Port) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
    writer.write_eof()
    await reader.read()
    writer.close()


async def late_body(port: Port) -> None:
    client = await port.connect()
    await client.send(begun(1000, b"x" * 100))
    await port.reach(lambda: port.connections.held > 0)
    port.pass_seconds(int(LIMITS.body_seconds) + 2)
    await client.ended()


async def many_bytes(port: Port) -> None:
    client = await port.connect()
    await client.send(request(b"{}"))
    await client.ended()


@pytest.mark.parametrize(
    ("attack", "cause"),
    [
        (no_tls, Cause.HANDSHAKE_FAILED),
        (nothing, Cause.HANDSHAKE_FAILED),
        (late_body, Cause.BODY_LATE),
        (many_bytes, Cause.TOO_MANY_BYTES),
    ],
)
def test_a_connection_that_was_ended_early_is_freed_at_once(attack: Attack, cause: Cause) -> None:
    def left() -> int:
        return sum(isinstance(each, HttpConnection) for each in gc.get_objects())

    async def run() -> None:
        limits = replace(LIMITS, unfinished_bytes=1024 * KIB)
        async with asyncio.timeout(DEADLINE_S), listening(limits) as port:
            port.app.answer_bytes = 4096 * KIB
            with no_collector():
                before = left()
                for _ in range(TIMES):
                    await attack(port)
                await port.until(cause, TIMES)
                await port.reach(lambda: left() == before)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
