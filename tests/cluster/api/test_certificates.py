"""What the care of certificates asks the API server, at a server that says what it is told to."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs import ApiFailure, Conflict
from certs.certificate import issue
from certs.context import server_context
from tests.certs.world import SPEC
from tests.cluster.api.conftest import Run
from tests.cluster.api.stand_in import Line, Received, StandIn, Turn, always, serving, status
from webhook.cluster.api.certificates import CertificateRequests
from webhook.cluster.api.service_account import ServiceAccount
from webhook.cluster.api.session import Session

FOUND = b'{"metadata":{"name":"a"}}'
Talk = Callable[[Turn, Callable[[CertificateRequests], Awaitable[None]]], StandIn]


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
                variables = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(stand_in.port)}
                session = Session(ServiceAccount(tmp_path, variables), user_agent="test/1", seconds=10.0)
                requests = CertificateRequests(session, SPEC, identity="me", lease_seconds=60)
                try:
                    await conversation(requests)
                finally:
                    await requests.close()

        run(test())
        return servers[0]

    return held


def test_requests_go_out_as_the_api_server_wants_them(talk: Talk) -> None:
    async def conversation(requests: CertificateRequests) -> None:
        assert await requests.configuration() == {"metadata": {"name": "a"}}
        assert (await requests.secret())[0] == {"metadata": {"name": "a"}}
        place = {"name": "webhook-tls", "namespace": "gpu"}
        await requests.write_secret({"metadata": place})
        await requests.write_secret({"metadata": place | {"resourceVersion": "1"}})
        await requests.register({"y": 1})
        await requests.ask_for("serving")

    received = talk(always(FOUND), conversation).received
    secrets = "/api/v1/namespaces/gpu/secrets"
    webhooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    by_us = "fieldManager=gpu-topology-certificates"
    assert [(one.method, one.target) for one in received] == [
        ("GET", f"{webhooks}/webhook"),
        ("GET", f"{secrets}/webhook-tls"),
        ("POST", secrets),
        ("PUT", f"{secrets}/webhook-tls"),
        ("PATCH", f"{webhooks}/webhook?{by_us}"),
        ("PATCH", f"{secrets}/webhook-tls?{by_us}"),
    ]
    assert [json.loads(one.body or b"null") for one in received[4:]] == [
        {"y": 1},
        {"metadata": {"annotations": {"example.org/rotate": "serving"}}},
    ]
    kinds = [f"application/{each}-patch+json" for each in ("strategic-merge", "merge")]
    assert [one.headers.get("content-type") for one in received[4:]] == kinds


def test_the_clock_of_an_answer_is_that_of_the_api_server(talk: Talk) -> None:
    async def turn(_: Received, line: Line) -> None:
        line.say(FOUND, "200 OK", "Date: Thu, 15 Jan 2026 09:30:00 GMT")

    async def conversation(requests: CertificateRequests) -> None:
        assert (await requests.secret())[1] == datetime(2026, 1, 15, 9, 30, tzinfo=UTC)

    talk(turn, conversation)


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        ("409 Conflict", Conflict, r"^get Secret gpu/webhook-tls: not now \(409\)$"),
        ("403 Forbidden", ApiFailure, r"^get Secret gpu/webhook-tls: not now \(403\)$"),
    ],
)
def test_an_answer_that_is_no_success_is_told_by_its_words(
    talk: Talk, code: str, kind: type[ApiFailure], text: str
) -> None:
    async def conversation(requests: CertificateRequests) -> None:
        with pytest.raises(kind, match=text):
            await requests.secret()

    talk(always(status(int(code[:3]), "not now"), code), conversation)


def test_what_is_not_there_is_no_failure(talk: Talk) -> None:
    async def conversation(requests: CertificateRequests) -> None:
        assert (await requests.configuration(), (await requests.secret())[0]) == (None, None)

    talk(always(status(404, "none", details={"kind": "secrets"}), "404 Not Found"), conversation)


def test_a_replica_that_is_slower_than_another_does_not_lead(talk: Talk) -> None:
    async def turn(request: Received, line: Line) -> None:
        if request.method == "GET":
            line.say(b'{"metadata":{"name":"a"},"spec":{}}')
        else:
            line.say(status(409, "another version"), "409 Conflict")

    async def conversation(requests: CertificateRequests) -> None:
        assert not await requests.lead()

    talk(turn, conversation)
