"""The port of probes and metrics of agent and planner, for clients that mean no good."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric

from tests.ports import free_port
from webhook.programs.endpoints import Endpoints, serve
from webhook.programs.http.server import Limits
from webhook.words.errors import GpuTopologyError

BUGS: list[str] = []


def families() -> Iterator[Metric]:
    yield GaugeMetricFamily("gpu_topology_example", "An example.", value=1.0)


def broken() -> str:
    raise RuntimeError("a bug")


@pytest.fixture(scope="module")
def port() -> int:
    found = free_port()
    serve(Endpoints(families, illness=broken, failure=lambda: "waits", bug=BUGS.append), "127.0.0.1", found)
    return found


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def answer(port: int, request: bytes) -> tuple[int, bytes]:
    with closing(connected(port)) as client:
        client.sendall(request + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        said = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, body = said.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_metrics_and_probes_are_answered(port: int) -> None:
    status, body = answer(port, b"GET /metrics?name[]=x")
    assert status == 200
    assert b"gpu_topology_example 1.0" in body
    assert answer(port, b"GET /readyz") == (503, b'{"status": "waits"}')
    assert answer(port, b"GET /")[0] == 404
    assert answer(port, b"POST /metrics") == (405, b'{"error": "expected GET, found POST"}')


def test_a_bug_is_logged_and_the_port_goes_on(port: int) -> None:
    BUGS.clear()
    assert answer(port, b"GET /healthz") == (500, b'{"error": "see the log"}')
    assert "RuntimeError: a bug" in "".join(BUGS)
    assert answer(port, b"GET /readyz")[0] == 503


def test_a_crowd_that_asks_nothing_is_ended_from_its_oldest_on_and_a_probe_is_answered(port: int) -> None:
    crowd = [connected(port) for _ in range(Limits().connections + 20)]
    try:
        assert answer(port, b"GET /readyz")[0] == 503
        crowd[0].settimeout(20)
        assert crowd[0].recv(1) == b""
        crowd[-1].sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert crowd[-1].recv(100).startswith(b"HTTP/1.1 503")
    finally:
        for each in crowd:
            each.close()


def test_headers_without_end_are_ended(port: int) -> None:
    with closing(connected(port)) as client:
        client.sendall(b"GET /readyz HTTP/1.1\r\nX: " + b"a" * 2 * Limits().header_bytes)
        assert client.recv(100).startswith(b"HTTP/1.1 400")


def test_a_taken_port_is_told(port: int) -> None:
    with pytest.raises(GpuTopologyError, match=r"cannot listen on 127.0.0.1 port .* Choose others with --host"):
        serve(Endpoints(families, illness=str, failure=str, bug=BUGS.append), "127.0.0.1", port)
    assert json.loads(answer(port, b"GET /readyz")[1]) == {"status": "waits"}
