"""What the care of certificates asks the API server, at a server that says what it is told to."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.context import server_context
from certs.errors import ApiFailure, Conflict
from certs.issue import issue
from certs.requests import Create, Get, Kind, Patch, PatchType, Request
from tests.cluster.api.conftest import Run
from tests.cluster.api.stand_in import Line, Received, StandIn, Turn, always, serving, status
from webhook.cluster.api.certificates import CertificateRequests
from webhook.cluster.api.service_account import ServiceAccount
from webhook.cluster.api.session import Session

FOUND = b'{"metadata":{"name":"a"}}'
GET = Get(Kind.SECRET, "a")
Talk = Callable[[Turn, Callable[[CertificateRequests], Awaitable[None]]], StandIn]


def way(directory: Path, port: int) -> CertificateRequests:
    variables = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}
    session = Session(ServiceAccount(directory, variables), user_agent="test/1", seconds=10.0)
    return CertificateRequests(session, namespace="own", field_manager="me")


@pytest.fixture
def talk(run: Run, tmp_path: Path) -> Talk:
    """Runs a conversation, at a server with TLS that takes each turn as it is told to."""
    bundle = issue(["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    (tmp_path / "ca.crt").write_bytes(bundle.authority)
    (tmp_path / "token").write_text("first")

    def held(turn: Turn, conversation: Callable[[CertificateRequests], Awaitable[None]]) -> StandIn:
        servers: list[StandIn] = []

        async def test() -> None:
            async with serving(turn, tls=server_context(bundle)) as stand_in:
                servers.append(stand_in)
                server = way(tmp_path, stand_in.port)
                try:
                    await conversation(server)
                finally:
                    await server.close()

        run(test())
        return servers[0]

    return held


def test_requests_go_out_as_the_api_server_wants_them(talk: Talk) -> None:
    requests: list[Request] = [
        GET,
        Create(Kind.LEASE, {"x": "\u00e9"}),
        Patch(Kind.SECRET, "a", {"y": 1}, PatchType.STRATEGIC),
    ]

    async def conversation(server: CertificateRequests) -> None:
        assert [(await server.send(request)).found for request in requests] == [{"metadata": {"name": "a"}}] * 3

    received = talk(always(FOUND), conversation).received
    leases = "/apis/coordination.k8s.io/v1/namespaces/own/leases"
    assert [(one.method, one.target) for one in received] == [
        ("GET", "/api/v1/namespaces/own/secrets/a"),
        ("POST", leases),
        ("PATCH", "/api/v1/namespaces/own/secrets/a?fieldManager=me"),
    ]
    assert [json.loads(one.body or b"null") for one in received] == [None, {"x": "\u00e9"}, {"y": 1}]
    kinds = [None, "application/json", "application/strategic-merge-patch+json"]
    assert [one.headers.get("content-type") for one in received] == kinds
    for one in received:
        assert (one.headers["authorization"], one.headers["user-agent"]) == ("Bearer first", "test/1")
        assert one.headers["accept"] == "application/json"
    assert {one.connection for one in received} == {1}


def test_the_clock_of_an_answer_is_that_of_the_api_server(talk: Talk) -> None:
    async def turn(_: Received, line: Line) -> None:
        line.say(FOUND, "200 OK", "Date: Thu, 15 Jan 2026 09:30:00 GMT")

    async def conversation(server: CertificateRequests) -> None:
        assert (await server.send(GET)).at.replace(microsecond=0) == datetime(2026, 1, 15, 9, 30, tzinfo=UTC)

    talk(turn, conversation)


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        ("409 Conflict", Conflict, r"^GET /api/v1/namespaces/own/secrets/a: not now \(409\)$"),
        ("403 Forbidden", ApiFailure, r"^GET /api/v1/namespaces/own/secrets/a: not now \(403\)$"),
    ],
)
def test_an_answer_that_is_no_success_is_told_by_its_words(
    talk: Talk, code: str, kind: type[ApiFailure], text: str
) -> None:
    async def conversation(server: CertificateRequests) -> None:
        with pytest.raises(kind, match=text):
            await server.send(GET)

    talk(always(status(int(code[:3]), "not now"), code), conversation)


def test_what_is_not_there_is_no_failure_of_a_get(talk: Talk) -> None:
    async def conversation(server: CertificateRequests) -> None:
        assert (await server.send(GET)).found is None

    talk(always(status(404, "none", details={"kind": "secrets"}), "404 Not Found"), conversation)


@pytest.mark.parametrize("said", [b"SSH-2.0\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"])
def test_a_connection_that_is_lost_fails_one_request_alone(talk: Talk, said: bytes) -> None:
    async def turn(request: Received, line: Line) -> None:
        if request.connection > 1:
            line.say(FOUND)
            return
        line.raw(said)
        await line.writer.drain()
        line.hang_up()

    async def conversation(server: CertificateRequests) -> None:
        with pytest.raises(ApiFailure, match=r"^GET /api/.*/a: https://127\.0\.0\.1:\d+ gives no answer: \S"):
            await server.send(GET)
        assert (await server.send(GET)).found == {"metadata": {"name": "a"}}

    talk(turn, conversation)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"secret"])
def test_what_is_no_object_is_not_repeated(talk: Talk, body: bytes) -> None:
    async def conversation(server: CertificateRequests) -> None:
        with pytest.raises(ApiFailure, match=r"secrets/a: expected an object from the API server, found something els"):
            await server.send(GET)

    talk(always(body), conversation)
