"""A stop loses no review."""

import asyncio
import json
import signal
import ssl
from dataclasses import dataclass

import httpx
import pytest

from tests.pods import pod
from tests.programs.server.asgi import review
from tests.programs.server.conftest import DEADLINE_S, NO_TLS, RunningServer, StartServer, until
from webhook import __version__

BODY = review(pod())
REQUEST = (
    b"POST /mutate/pods HTTP/1.1\r\nhost: webhook\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n" % len(BODY)
) + BODY
WORKERS = 16
BEFORE_THE_STOP = 300


@dataclass
class Traffic:
    """What many keep-alive clients have seen so far."""

    answered: int = 0
    closes: int = 0
    moved: bool = False
    """The service has found out that the server is not ready: no new connections."""


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """One review; returns whether the server asked to close the connection."""
    writer.write(REQUEST)
    await writer.drain()
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    assert head.startswith(b"http/1.1 200"), head
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    answer = json.loads(await reader.readexactly(length))
    assert answer["response"]["patchType"] == "JSONPatch"
    return b"connection: close" in head


async def work(port: int, context: ssl.SSLContext, traffic: Traffic) -> None:
    while not traffic.moved:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        closing = False
        while not closing:
            closing = await ask(reader, writer)
            traffic.answered += 1
        traffic.closes += 1
        writer.close()
        await writer.wait_closed()


async def load_until_the_stop(server: RunningServer, traffic: Traffic) -> None:
    context = server.context()
    workers = [asyncio.create_task(work(server.port, context, traffic)) for _ in range(WORKERS)]
    finished = asyncio.gather(*workers)
    while traffic.answered < BEFORE_THE_STOP and not finished.done():
        await asyncio.sleep(0.01)
    server.process.send_signal(signal.SIGTERM)
    url = f"http://127.0.0.1:{server.ops_port}/readyz"
    async with httpx.AsyncClient(verify=NO_TLS, trust_env=False, timeout=DEADLINE_S) as client:
        while (await client.get(url)).status_code != 503 and not finished.done():
            await asyncio.sleep(0.01)
    while traffic.closes < WORKERS and not finished.done():
        await asyncio.sleep(0.01)
    traffic.moved = True
    await finished


def test_sigterm_under_load_answers_every_review_and_sigint_ends_the_drain(start_server: StartServer) -> None:
    server = start_server(config="server: {drainSeconds: 600}")
    traffic = Traffic()
    asyncio.run(asyncio.wait_for(load_until_the_stop(server, traffic), 120))
    assert server.stop(signal.SIGINT) == 0
    assert traffic.answered >= BEFORE_THE_STOP
    assert traffic.closes >= WORKERS
    logged = server.lines("admission")
    assert len(logged) == traffic.answered
    assert {line["reason"] for line in logged} == {"injected"}
    started, ready, draining, stopped = server.lines("started", "ready", "draining", "stopped")
    assert (
        started.items()
        >= {
            "level": "info",
            "message": "started",
            "version": __version__,
            "reviews": server.url,
            "probes": f"http://127.0.0.1:{server.ops_port}",
        }.items()
    )
    assert [line["message"] for line in (ready, draining, stopped)] == ["ready", "draining", "stopped"]
    assert server.err.read_text() == ""


def test_readiness_fails_while_reviews_are_still_answered(start_server: StartServer) -> None:
    server = start_server(config="server: {drainSeconds: 600}")
    with server.client() as client:
        assert "connection" not in client.post("/mutate/pods", content=BODY).headers
        server.process.send_signal(signal.SIGTERM)
        until(lambda: server.probe("/readyz").status_code == 503, "readiness to fail")
        server.process.send_signal(signal.SIGTERM)  # a second one changes nothing
        assert server.probe("/readyz").json() == {"status": "stopping"}
        assert server.probe("/healthz").status_code == 200
        metrics = server.probe("/metrics").text.splitlines()
        assert {"gpu_topology_webhook_ready 0.0", "gpu_topology_webhook_draining 1.0"} <= set(metrics)
        for body, status in ((BODY, 200), (BODY, 200), (b"{", 400)):
            answer = client.post("/mutate/pods", content=body)
            assert answer.status_code == status
            assert answer.headers["connection"] == "close"
        assert server.stop(signal.SIGINT) == 0
    assert "Traceback" not in server.err.read_text()


@pytest.mark.parametrize(("how", "drain"), [(signal.SIGTERM, 0), (signal.SIGINT, 600)])
def test_an_idle_connection_does_not_hold_the_stop_up(
    start_server: StartServer, how: signal.Signals, drain: int
) -> None:
    server = start_server(config=f"server: {{drainSeconds: {drain}}}")
    with server.client() as client:
        assert client.post("/mutate/pods", content=BODY).status_code == 200
        assert server.stop(how) == 0
    assert "ERROR" not in server.err.read_text()
