"""The program itself while hundreds of clients say nothing, or half of a request."""

import asyncio
import ssl

import pytest

from tests.programs.server.conftest import RunningServer, StartServer
from tests.programs.server.test_stopping import ask

CROWD, AT_ONCE = 600, 50


def closed(server: RunningServer) -> float:
    """The connections of the HTTPS port that the server has ended to make room."""
    line = 'gpu_topology_closed_connections_total{cause="too-many-connections",port="reviews"} '
    (found,) = [each for each in server.probe("/metrics").text.splitlines() if each.startswith(line)]
    return float(found.removeprefix(line))


async def crowded(server: RunningServer, context: ssl.SSLContext | None, said: bytes) -> None:
    trusting = server.context()
    kept = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting)
    assert not await ask(*kept)
    crowd = []
    for _ in range(CROWD // AT_ONCE):
        dialled = (asyncio.open_connection("127.0.0.1", server.port, ssl=context) for _ in range(AT_ONCE))
        crowd += await asyncio.gather(*dialled)
        for _, writer in crowd[-AT_ONCE:]:
            writer.write(said)
    fresh = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting)
    assert not await ask(*fresh)
    assert not await ask(*kept)
    for _, writer in (kept, fresh, *crowd):
        writer.transport.abort()


@pytest.mark.parametrize(
    ("said", "tls"),
    [(b"", False), (b"", True), (b"POST /mutate/pods HTTP/1.1\r\nhost: x\r\n", True)],
    ids=["no handshake", "nothing", "half of the headers"],
)
def test_600_connections_that_send_no_request_keep_no_review_out(
    start_server: StartServer, said: bytes, tls: bool
) -> None:
    server = start_server(config="server: {maxConnections: 64}")
    asyncio.run(asyncio.wait_for(crowded(server, server.context() if tls else None, said), 120))
    assert not tls or closed(server) > 0
    assert server.probe("/healthz").status_code == 200
    assert server.lines("bug", "library") == []
    assert server.err.read_text() == ""
