"""The port of the extender: TLS, certificates of schedulers, and clients that send something else."""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from certs import BundleError
from certs.certificate import Authority, encode, issue, new_authority
from tests.certs.test_live_context import signed
from tests.ports import reserved_port
from tests.programs.planner.extender.scene import POLICY, Scene, denying, pod, question
from webhook.programs.log import Log
from webhook.programs.planner.extender import answers
from webhook.programs.planner.extender import run as module
from webhook.programs.planner.extender.application import BODY_BYTES
from webhook.programs.planner.extender.run import Extender, ExtenderSettings
from webhook.words.errors import GpuTopologyError

DEADLINE_S = 60.0
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.05)
    monkeypatch.setattr(answers, "BUDGET_SECONDS", DEADLINE_S)  # a busy machine is late within half a second


@dataclass
class Port:
    """A running extender.

    Attributes:
        context: Of a scheduler with a certificate.
    """

    extender: Extender
    directory: Path
    url: str
    serving: bytes
    context: ssl.SSLContext

    def stranger(self, authority: Authority | None = None) -> ssl.SSLContext:
        """Of a client without a certificate, or with one of another authority."""
        context = ssl.create_default_context(cadata=self.serving.decode())
        if authority is not None:
            context.load_cert_chain(write_client(self.directory, "stranger", authority))
        return context

    def client(self, context: ssl.SSLContext | None = None) -> httpx.AsyncClient:
        return httpx.AsyncClient(verify=context or self.context, base_url=self.url, timeout=DEADLINE_S, trust_env=False)

    def lines(self) -> list[str]:
        return (self.directory / "log").read_text().splitlines()


def write_client(directory: Path, name: str, authority: Authority) -> Path:
    """A certificate for a client with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.DNSName("kube-scheduler")])
    certificate = signed(key, names, ExtendedKeyUsageOID.CLIENT_AUTH, authority)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = directory / f"{name}.pem"
    path.touch(mode=0o600)
    path.write_bytes(certificate + pem)
    return path


def settings(directory: Path, port: int, authority: Authority) -> tuple[ExtenderSettings, bytes]:
    """What the command line says, and the authority of the extender's certificate."""
    bundle = issue(("127.0.0.1",), now=datetime.now(UTC), lifetime=DAY)
    for name, content in (("tls.crt", bundle.certificate), ("tls.key", bundle.key)):
        (directory / name).touch(mode=0o600)
        (directory / name).write_bytes(content)
    (directory / "clients.pem").write_bytes(encode([authority.certificate]))
    found = ExtenderSettings(host="127.0.0.1", port=port, tls=directory, client_authority=directory / "clients.pem")
    return found, bundle.authority


@asynccontextmanager
async def listening(directory: Path, *, filled: bool = True) -> AsyncIterator[Port]:
    """An extender with both nodes."""
    scene = Scene(directory)
    if filled:
        scene.filled()
    authority = new_authority(now=datetime.now(UTC), lifetime=DAY)
    log = Log(os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    with reserved_port() as port:
        told, serving = settings(directory, port, authority)
        extender = Extender(told, POLICY, scene.told.mirrors, log)
        context = ssl.create_default_context(cadata=serving.decode())
        context.load_cert_chain(write_client(directory, "scheduler", authority))
        await extender.open()
        try:
            yield Port(extender, directory, f"https://127.0.0.1:{port}/scheduler", serving, context)
        finally:
            await extender.close()


def with_port(directory: Path, test: Callable[[Port], Awaitable[None]], *, filled: bool = True) -> None:
    async def run() -> None:
        async with listening(directory, filled=filled) as port:
            await test(port)

    asyncio.run(run())


def test_a_scheduler_with_a_certificate_is_answered_on_one_connection(tmp_path: Path) -> None:
    async def test(port: Port) -> None:
        async with port.client() as client:
            for _ in range(3):
                answer = await client.post("/filter", content=question(denying(3), "pairs", "whole"))
                assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
                assert answer.json()["NodeNames"] == ["whole"]
                assert "connection" not in answer.headers
            answer = await client.post("/prioritize", content=question(pod(), "pairs", "whole"))
            assert answer.json() == [{"Host": "pairs", "Score": 1}, {"Host": "whole", "Score": 10}]

    with_port(tmp_path, test)


def test_without_a_certificate_or_with_a_foreign_one_nothing_is_answered(tmp_path: Path) -> None:
    async def test(port: Port) -> None:
        foreign = new_authority(now=datetime.now(UTC), lifetime=DAY)
        for context in (port.stranger(), port.stranger(foreign)):
            async with port.client(context) as client:
                with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError, httpx.ConnectError)):
                    await client.post("/filter", content=question(pod(), "pairs"))
        assert port.extender.counts.requests == {}

    with_port(tmp_path, test)


def test_hundreds_of_clients_without_a_certificate_keep_no_scheduler_out(tmp_path: Path) -> None:
    """They come from the address of the scheduler, say nothing or half of a greeting, and come again when ended."""
    greeting = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"

    async def stays(port: int, said: bytes) -> None:
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(said)
                with suppress(OSError):
                    await reader.read(1)
            finally:
                writer.close()

    async def test(port: Port) -> None:
        number = httpx.URL(port.url).port
        assert number is not None
        hostile = [asyncio.create_task(stays(number, said)) for said in (b"", greeting) for _ in range(150)]
        await asyncio.sleep(0.2)
        for _ in range(5):
            async with port.client() as client:
                answer = await client.post("/filter", content=question(denying(3), "pairs", "whole"))
                assert answer.json()["NodeNames"] == ["whole"]
        for task in hostile:
            task.cancel()
        await asyncio.wait(hostile)

    with_port(tmp_path, test)


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/filter", 405, "/scheduler/filter: expected POST, found GET"),
        ("POST", "/bind", 404, "expected /scheduler/filter or /scheduler/prioritize, found /scheduler/bind"),
        ("POST", "/filter/", 404, "expected /scheduler/filter or /scheduler/prioritize, found /scheduler/filter/"),
    ],
)
def test_other_requests_are_refused(tmp_path: Path, method: str, path: str, status: int, text: str) -> None:
    async def test(port: Port) -> None:
        async with port.client() as client:
            answer = await client.request(method, path)
            assert (answer.status_code, answer.text) == (status, text)
        assert port.extender.counts.rejected == {(str(status),): 1}

    with_port(tmp_path, test)


def test_a_body_that_is_too_long_is_refused_and_the_port_lives_on(tmp_path: Path) -> None:
    async def test(port: Port) -> None:
        async with port.client() as client:
            answer = await client.post("/filter", content=b" " * (BODY_BYTES + 1))
            assert answer.status_code == 413
            assert answer.text == f"request body: expected at most {BODY_BYTES} bytes, found more"
            answer = await client.post("/filter", content=b'{"NodeNames":')
            assert answer.status_code == 400
            answer = await client.post("/filter", content=question(pod(), "pairs"))
            assert answer.json()["NodeNames"] == ["pairs"]

    with_port(tmp_path, test)


def test_as_many_names_as_a_large_cluster_has_are_answered(tmp_path: Path) -> None:
    async def test(port: Port) -> None:
        names = [f"node-{number:05}.{'x' * 200}" for number in range(15_000)]
        async with port.client() as client:
            answer = await client.post("/filter", content=question(denying(3), *names, "pairs"))
            assert answer.json()["NodeNames"] == names
            answer = await client.post("/prioritize", content=question(denying(3), *names))
            assert len(answer.json()) == len(names)

    with_port(tmp_path, test)


def test_before_anything_is_known_all_nodes_pass(tmp_path: Path) -> None:
    async def test(port: Port) -> None:
        async with port.client() as client:
            answer = await client.post("/filter", content=question(denying(9), "pairs", "whole"))
            assert answer.json()["NodeNames"] == ["pairs", "whole"]

    with_port(tmp_path, test, filled=False)


def test_a_stop_answers_what_has_come_and_sends_schedulers_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DRAIN_SECONDS", DEADLINE_S)

    async def test(port: Port) -> None:
        async with port.client() as client:
            await client.post("/filter", content=question(pod(), "pairs"))
            closing = asyncio.create_task(port.extender.close())
            await asyncio.sleep(0)
            answer = await client.post("/filter", content=question(pod(), "pairs"))
            assert (answer.status_code, answer.headers["connection"]) == (200, "close")
            closing.cancel()
            await asyncio.wait({closing})
        monkeypatch.setattr(module, "DRAIN_SECONDS", 0.01)

    with_port(tmp_path, test)


def test_metrics_say_what_was_answered_and_until_when_the_certificate_lasts(tmp_path: Path) -> None:
    async def test(port: Port) -> None:
        async with port.client() as client:
            await client.post("/filter", content=question(denying(3), "pairs", "whole"))
            await client.post("/filter", content=b"")

        class Families(Collector):
            def collect(self):  # type: ignore[no-untyped-def]  # noqa: ANN202 - the signature of the base
                return port.extender.families()

        registry = CollectorRegistry(auto_describe=False)
        registry.register(Families())
        lines = generate_latest(registry).decode().splitlines()
        for line in (
            'gpu_topology_extender_requests_total{result="judged",verb="filter"} 1.0',
            'gpu_topology_extender_requests_total{result="bug",verb="prioritize"} 0.0',
            'gpu_topology_extender_nodes_removed_total{code="GT693"} 1.0',
            'gpu_topology_extender_rejected_total{status="400"} 1.0',
            "gpu_topology_extender_seconds_count 1.0",
        ):
            assert line in lines
        assert any(line.startswith("gpu_topology_extender_certificate_expiry_timestamp_seconds 1.") for line in lines)

    with_port(tmp_path, test)


def test_the_log_says_where_it_listens(tmp_path: Path) -> None:
    async def test(port: Port) -> None:
        said = json.loads(port.lines()[0])
        assert (said["message"], said["listening"]) == ("extender", port.url.removesuffix("/scheduler"))

    with_port(tmp_path, test)


def test_what_cannot_be_used_is_said_at_the_start(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    log = Log(os.open(tmp_path / "log", os.O_WRONLY))
    authority = new_authority(now=datetime.now(UTC), lifetime=DAY)
    with reserved_port() as port:
        told, _ = settings(tmp_path, port, authority)
        (tmp_path / "clients.pem").unlink()
        with pytest.raises(BundleError, match=r"--extender-client-ca: .*expected the authority of clients, PEM"):
            Extender(told, POLICY, scene.told.mirrors, log)
        told, _ = settings(tmp_path, port, authority)
        (tmp_path / "tls.key").unlink()
        with pytest.raises(BundleError, match=r"expected tls.crt and tls.key"):
            Extender(told, POLICY, scene.told.mirrors, log)
    told, _ = settings(tmp_path, 1, authority)
    wrong = ExtenderSettings(host="192.0.2.1", port=1, tls=told.tls, client_authority=told.client_authority)
    with pytest.raises(GpuTopologyError, match="Choose others with --host and --extender-port"):
        Extender(wrong, POLICY, scene.told.mirrors, log)
