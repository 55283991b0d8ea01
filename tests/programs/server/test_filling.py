"""The program itself while clients without credentials try to fill it, and kube-apiserver's pattern beside them.

kube-apiserver keeps its connections for as long as they live, and opens new ones in bursts.
"""

import asyncio
import socket
import ssl

import pytest

from tests.pods import pod
from tests.programs.server.asgi import review
from tests.programs.server.conftest import RunningServer, StartServer
from tests.programs.server.test_stopping import ask

CONFIG = "server: {maxConnections: 16, maxOpsConnections: 8, maxReviewBytes: 1048576, maxUnfinishedBytes: 2097152}"
KEPT = 4
ATTACKERS = 20
"""On each of: the HTTPS port, the same without a handshake, the plain port."""
ELSEWHERE = ("127.0.0.2", 0)
"""Attackers have other addresses than API servers."""
HEAD = b"POST /mutate/pods HTTP/1.1\r\nhost: x\r\n"
ATTACKS = {
    "unfinished bodies": HEAD + b"content-length: 1000000\r\n\r\n" + b" " * 999_999,
    "unfinished headers": HEAD + b"x: y\r\n",
    "endless headers": HEAD + b"x: y\r\n" * 100_000,
    "endless chunks": HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"10000\r\n%s\r\n" % (b" " * 65_536) * 15,
    "pipelines": b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 5_000,
    "silence": b"",
}
BODY = review(pod())

pytestmark = pytest.mark.long


async def attack(
    port: int, context: ssl.SSLContext | None, data: bytes, held: set[asyncio.StreamWriter], over: asyncio.Event
) -> None:
    """One attacker, who comes again when it is sent away.

    It is never cancelled: asyncio leaves the socket open where ``open_connection`` is cancelled at the wrong moment.
    """
    while not over.is_set():
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=ELSEWHERE)
        except (OSError, EOFError):
            await asyncio.sleep(0.01)
            continue
        held.add(writer)
        try:
            if not over.is_set():
                writer.write(data)
                await reader.read()
        except OSError:
            pass
        finally:
            held.discard(writer)
            writer.transport.abort()


def counted(server: RunningServer, name: str) -> float:
    lines = server.probe("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"gpu_topology_{name}{{"))


async def under_attack(server: RunningServer, data: bytes) -> None:
    trusting = server.context()
    targets = ((server.port, trusting), (server.port, None), (server.ops_port, None))
    kept = [await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting) for _ in range(KEPT)]
    for reader, writer in kept:
        assert not await ask(reader, writer)
    held, over = set[asyncio.StreamWriter](), asyncio.Event()
    attackers = [
        asyncio.create_task(attack(port, context, data, held, over))
        for port, context in targets
        for _ in range(ATTACKERS)
    ]
    rounds = 0
    while rounds < 10 or await asyncio.to_thread(counted, server, "closed_connections_total") < ATTACKERS:
        rounds += 1
        for reader, writer in kept:
            assert not await ask(reader, writer)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting)
        assert not await ask(reader, writer)
        writer.transport.abort()
        assert await asyncio.to_thread(counted, server, "unfinished_bytes") <= 2 * 2_097_152
        await asyncio.sleep(0.02)
    over.set()
    for writer in tuple(held):
        writer.transport.abort()
    await asyncio.gather(*attackers)
    for _, writer in kept:
        writer.transport.abort()


@pytest.mark.parametrize("data", ATTACKS.values(), ids=ATTACKS.keys())
def test_kept_connections_are_never_hurt_and_new_ones_are_answered(start_server: StartServer, data: bytes) -> None:
    server = start_server(config=CONFIG)
    asyncio.run(asyncio.wait_for(under_attack(server, data), 120))
    assert server.probe("/healthz").status_code == 200
    assert server.lines("bug", "library") == []
    assert server.err.read_text() == ""


def test_without_an_attack_nothing_is_closed(start_server: StartServer) -> None:
    server = start_server(config=CONFIG)
    with server.client() as client:
        for _ in range(50):
            assert client.post("/mutate/pods", content=BODY).status_code == 200
    with socket.create_connection(("127.0.0.1", server.ops_port)):
        assert counted(server, "closed_connections_total") == 0
    assert server.lines("closed") == []
