"""Stands in for a Service: one address before several replicas."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count

from tests.ports import reserved_port

CHUNK = 65536
ENDED = (ConnectionError, OSError, asyncio.IncompleteReadError)


@dataclass
class Traffic:
    """What went through a Service.

    Attributes:
        largest_reply: Bytes between one request and the next of a connection, TLS included.
    """

    largest_reply: int = 0


@contextmanager
def running_service(replicas: Sequence[int], traffic: Traffic | None = None) -> Iterator[int]:
    """A port of the loopback interface whose connections go to the ports of ``replicas`` in turn.

    One that refuses a connection is passed over, as a replica that is not ready gets none from a Service.

    Args:
        replicas: Ports.
        traffic: Is told of what goes through.
    """
    seen = traffic or Traffic()
    loop = asyncio.new_event_loop()
    turns = count()
    callers: set[asyncio.StreamWriter] = set()

    async def serve(incoming: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        turn = next(turns)
        callers.add(back)
        try:
            for place in range(len(replicas)):
                try:
                    replica = await asyncio.open_connection("127.0.0.1", replicas[(turn + place) % len(replicas)])
                except OSError:
                    continue
                await _join(incoming, back, *replica, seen)
                break
        finally:
            callers.discard(back)
            back.close()

    with reserved_port() as port:
        server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", port))
        thread = threading.Thread(target=loop.run_forever, name="service")
        thread.start()
        try:
            yield port
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()
            loop.run_until_complete(_end_all(callers))
            loop.close()


async def _join(
    incoming: asyncio.StreamReader,
    back: asyncio.StreamWriter,
    answers: asyncio.StreamReader,
    outgoing: asyncio.StreamWriter,
    traffic: Traffic,
) -> None:
    """Until one side ends, and with it the connection: reviews are whole requests with whole answers."""
    reply = 0

    def asked(_size: int) -> None:
        nonlocal reply
        reply = 0

    def answered(size: int) -> None:
        nonlocal reply
        reply += size
        traffic.largest_reply = max(traffic.largest_reply, reply)

    ways = [
        asyncio.ensure_future(_copy(incoming, outgoing, asked)),
        asyncio.ensure_future(_copy(answers, back, answered)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        outgoing.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, tell: Callable[[int], None]) -> None:
    with suppress(*ENDED):
        while chunk := await source.read(CHUNK):
            tell(len(chunk))
            sink.write(chunk)
            await sink.drain()


async def _end_all(callers: Iterable[asyncio.StreamWriter]) -> None:
    for back in callers:
        back.close()  # then there is nothing more to read, and each connection ends by itself
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
    await asyncio.sleep(0)  # transports that were closed let go of their sockets in the next round of the loop
