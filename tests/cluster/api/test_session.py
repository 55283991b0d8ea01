"""Whom we trust, and who we are: everything that the official client's configuration can say."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kubernetes.aio.config.config_exception import ConfigException

from certs.certificate import issue
from tests.cluster.api.access import ToldAccess
from tests.cluster.api.stand_in import POD, Line, Received, StandIn, Turn, always, kubeconfig, serving, status
from webhook.cluster.api.credentials import STALE_TIMES, Credentials
from webhook.cluster.api.current_objects import LivePods
from webhook.cluster.api.session import Session, connect, find_access
from webhook.cluster.api.verbs import Api
from webhook.words.errors import ConfigError, PodsUnreadable

PATIENCE_S = 30.0
IPV6 = "::1"


@dataclass(frozen=True)
class Tls:
    """A server's side of TLS, and its authority in a file."""

    context: ssl.SSLContext
    ca: Path


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    return make_tls(tmp_path, "127.0.0.1", "localhost", IPV6)


def make_tls(directory: Path, *names: str) -> Tls:
    bundle = issue(list(names), now=datetime.now(UTC), lifetime=timedelta(days=1))
    (directory / "ca.crt").write_bytes(bundle.authority)
    (directory / "both.pem").write_bytes(bundle.certificate + bundle.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "both.pem")
    return Tls(context, directory / "ca.crt")


def make_client_certificate() -> tuple[bytes, bytes]:
    """A certificate that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return certificate, key.private_bytes(pem, form, serialization.NoEncryption())


@asynccontextmanager
async def connected(configured: Path | None, *, seconds: float = PATIENCE_S) -> AsyncIterator[LivePods]:
    session = connect(configured, user_agent="test", seconds=seconds)
    try:
        yield LivePods(Api(session))
    finally:
        await session.close()


async def read_over(stand_in: StandIn, configured: Path | None) -> dict[str, str]:
    """Read a pod; the headers of the request."""
    async with connected(configured) as pods:
        assert await pods.pod("team-a", "train") == POD
    return stand_in.received[-1].headers


async def test_a_kubeconfig_with_an_authority_and_a_token(tmp_path: Path, tls: Tls) -> None:
    async with serving(always(POD), tls=tls.context) as stand_in:
        url, cluster = f"https://127.0.0.1:{stand_in.port}", {"certificate-authority": str(tls.ca)}
        headers = await read_over(stand_in, kubeconfig(tmp_path / "kubeconfig", url, cluster=cluster))
    assert headers["authorization"] == "Bearer t"


async def test_a_kubeconfig_with_everything_inside(tmp_path: Path, tls: Tls) -> None:
    certificate, key = make_client_certificate()
    (tmp_path / "client.crt").write_bytes(certificate)
    tls.context.load_verify_locations(tmp_path / "client.crt")
    tls.context.verify_mode = ssl.CERT_REQUIRED
    user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    cluster = {"certificate-authority-data": encoded(tls.ca.read_bytes())}

    async with serving(always(POD), tls=tls.context) as stand_in:
        url = f"https://127.0.0.1:{stand_in.port}"
        headers = await read_over(stand_in, kubeconfig(tmp_path / "kubeconfig", url, user=user, cluster=cluster))
    assert "authorization" not in headers


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"username": "alice", "password": "secret"}, "Basic YWxpY2U6c2VjcmV0"),
        ({"token": "from-the-file\n"}, "Bearer from-the-file"),
        ({}, None),
    ],
)
async def test_other_ways_to_say_who_we_are(tmp_path: Path, user: dict[str, Any], header: str | None) -> None:
    async with serving(always(POD)) as stand_in:
        url = f"http://127.0.0.1:{stand_in.port}"
        headers = await read_over(stand_in, kubeconfig(tmp_path / "kubeconfig", url, user=user))
    assert headers.get("authorization") == header


async def test_a_token_of_an_exec_plugin(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    version = "client.authentication.k8s.io/v1"
    answer = f'{{"apiVersion": "{version}", "kind": "ExecCredential", "status": {{"token": "of-the-plugin"}}}}'
    plugin.write_text(f"#!/bin/sh\necho '{answer}'\n")
    plugin.chmod(0o700)
    user = {"exec": {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}}

    async with serving(always(POD)) as stand_in:
        url = f"http://127.0.0.1:{stand_in.port}"
        headers = await read_over(stand_in, kubeconfig(tmp_path / "kubeconfig", url, user=user))
    assert headers["authorization"] == "Bearer of-the-plugin"


async def test_an_insecure_cluster_is_not_checked(tmp_path: Path) -> None:
    elsewhere = make_tls(tmp_path, "elsewhere.example")

    async with serving(always(POD), tls=elsewhere.context) as stand_in:
        url, cluster = f"https://127.0.0.1:{stand_in.port}", {"insecure-skip-tls-verify": True}
        await read_over(stand_in, kubeconfig(tmp_path / "kubeconfig", url, cluster=cluster))


async def test_a_server_with_another_name(tmp_path: Path) -> None:
    elsewhere = make_tls(tmp_path, "elsewhere.example")
    cluster = {"certificate-authority": str(elsewhere.ca)}

    async with serving(always(POD), tls=elsewhere.context) as stand_in:
        url = f"https://127.0.0.1:{stand_in.port}"
        named = {**cluster, "tls-server-name": "elsewhere.example"}
        await read_over(stand_in, kubeconfig(tmp_path / "kubeconfig", url, cluster=named))
        async with connected(kubeconfig(tmp_path / "kubeconfig", url, cluster=cluster)) as pods:
            with pytest.raises(PodsUnreadable, match=r"certificate is not valid for '127\.0\.0\.1'"):
                await pods.pod("team-a", "train")


async def test_a_server_that_cannot_be_trusted_gets_nothing(tmp_path: Path, tls: Tls) -> None:
    async with serving(always(POD), tls=tls.context) as stand_in:
        url = f"https://127.0.0.1:{stand_in.port}"
        async with connected(kubeconfig(tmp_path / "kubeconfig", url)) as pods:
            with pytest.raises(PodsUnreadable, match=r"gives no answer: .*CERTIFICATE_VERIFY_FAILED") as caught:
                await pods.pod("team-a", "train")
        assert "object at" not in str(caught.value)
    assert stand_in.received == []


async def test_a_server_without_tls_is_told(tmp_path: Path) -> None:
    async with serving(always(POD)) as stand_in:
        url = f"https://127.0.0.1:{stand_in.port}"
        async with connected(kubeconfig(tmp_path / "kubeconfig", url), seconds=0.2) as pods:
            with pytest.raises(PodsUnreadable, match=r"^get pod team-a/train: no answer from https://"):
                await pods.pod("team-a", "train")


@pytest.mark.parametrize(("written", "path"), [("", ""), ("/", ""), ("/k8s/clusters/c-1", "/k8s/clusters/c-1")])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_the_address_may_have_a_name_and_a_path(tmp_path: Path, host: str, written: str, path: str) -> None:
    async with serving(always(POD)) as stand_in:
        url = f"http://{host}:{stand_in.port}"
        headers = await read_over(stand_in, kubeconfig(tmp_path / "kubeconfig", url + written))
    assert headers["host"] == f"{host}:{stand_in.port}"
    assert stand_in.received[0].target == f"{path}/api/v1/namespaces/team-a/pods/train"


async def test_the_address_may_be_of_ipv6(tmp_path: Path, tls: Tls) -> None:
    try:
        async with serving(always(POD), tls=tls.context, host=IPV6) as stand_in:
            url, cluster = f"https://[::1]:{stand_in.port}", {"certificate-authority": str(tls.ca)}
            headers = await read_over(stand_in, kubeconfig(tmp_path / "kubeconfig", url, cluster=cluster))
            assert headers["host"] == f"[::1]:{stand_in.port}"
    except OSError:
        pytest.skip("this machine has no IPv6")


@pytest.fixture
def service_account(tmp_path: Path, tls: Tls, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The token file of a pod of the cluster."""
    directory = tmp_path / "serviceaccount"
    directory.mkdir()
    token = directory / "token"
    token.write_text("first")
    (directory / "ca.crt").write_bytes(tls.ca.read_bytes())
    monkeypatch.setattr("webhook.cluster.api.service_account.DIRECTORY", directory)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    return token


async def test_in_the_cluster_it_is_the_service_account(
    tls: Tls, service_account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert service_account.read_text() == "first"

    async with serving(always(POD), tls=tls.context) as stand_in:
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(stand_in.port))
        headers = await read_over(stand_in, None)
    assert headers["authorization"].lower() == "bearer first"


class Turned:
    """An access whose token is in a file, credentials of it, and their clock."""

    def __init__(self, token: Path) -> None:
        self.seconds = 0.0
        self.token = token
        self.access = ToldAccess("http://127.0.0.1:1", token=token)

    def credentials(self) -> Credentials:
        return Credentials(self.access, clock=lambda: self.seconds)


RENEWED = ToldAccess.renew_seconds
STALE = RENEWED * (STALE_TIMES + 0.1)


@pytest.fixture
def turned(tmp_path: Path) -> Turned:
    token = tmp_path / "token"
    token.write_text("first\n")
    return Turned(token)


async def test_a_token_is_not_read_for_each_request(turned: Turned) -> None:
    credentials = turned.credentials()
    assert await credentials.authorization() == "Bearer first"
    turned.seconds = RENEWED - 0.1
    assert [await credentials.authorization() for _ in range(9)] == ["Bearer first"] * 9
    assert turned.access.reads == 1


async def test_a_token_that_is_replaced_is_read_again_while_requests_go_on(turned: Turned) -> None:
    credentials = turned.credentials()
    await credentials.authorization()
    turned.token.write_text("second")
    turned.seconds = RENEWED
    turned.access.may_read.clear()
    for _ in range(3):
        assert await credentials.authorization() == "Bearer first"
        await asyncio.sleep(0)
    turned.access.may_read.set()
    async with asyncio.timeout(PATIENCE_S):
        while await credentials.authorization() != "Bearer second":
            await asyncio.sleep(0.001)
    assert turned.access.reads == 2


async def test_a_token_that_has_lain_for_long_is_read_before_it_is_used(turned: Turned) -> None:
    credentials = turned.credentials()
    await credentials.authorization()
    turned.token.write_text("second")
    turned.seconds = STALE
    found = await asyncio.gather(credentials.authorization(), credentials.authorization())
    assert list(found) == ["Bearer second"] * 2
    assert turned.access.reads == 2


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (OSError(2, "No such file or directory"), "[Errno 2] No such file or directory"),
        (KeyError("id-token"), "KeyError: 'id-token'"),
        (
            AttributeError("'NoneType' object has no\nattribute 'get'"),
            "AttributeError: 'NoneType' object has no attribute 'get'",
        ),
        (RuntimeError(), "RuntimeError"),
        (ValueError(), "ValueError"),
        (ConfigException("no refresh token"), "no refresh token"),
    ],
    ids=repr,
)
async def test_whatever_goes_wrong_with_a_renewal_the_old_token_stays_and_it_is_tried_again_when_it_is_due(
    turned: Turned, error: Exception, problem: str
) -> None:
    credentials = turned.credentials()
    await credentials.authorization()
    turned.access.error = error
    turned.seconds = STALE
    for _ in range(5):
        assert await credentials.authorization() == "Bearer first"
    assert credentials.problem == problem
    assert turned.access.reads == 2
    turned.access.error = None
    turned.token.write_text("second")
    turned.seconds += RENEWED
    assert await credentials.authorization() == "Bearer second"
    assert credentials.problem == ""


async def test_a_request_that_waits_for_a_renewal_when_the_session_is_closed_gets_an_error(turned: Turned) -> None:
    session = Session(turned.access, user_agent="test", seconds=PATIENCE_S)
    turned.access.may_read.clear()
    read = asyncio.create_task(LivePods(Api(session)).pod("team-a", "train"))
    await asyncio.sleep(0.01)
    await session.close()
    with pytest.raises(PodsUnreadable, match=r"gives no answer: the program stops\. "):
        await read


async def test_one_who_gives_up_waiting_for_a_renewal_does_not_end_it_for_others(turned: Turned) -> None:
    credentials = turned.credentials()
    turned.access.may_read.clear()
    one, other = (asyncio.create_task(credentials.authorization()) for _ in range(2))
    await asyncio.sleep(0.01)
    one.cancel()
    await asyncio.wait((one,))
    turned.access.may_read.set()
    assert await other == "Bearer first"


async def test_what_keeps_the_token_from_being_renewed_is_told_when_it_is_refused(turned: Turned) -> None:
    async with serving(always(status(401, "Unauthorized"), "401 Unauthorized")) as stand_in:
        turned.access.url = f"http://127.0.0.1:{stand_in.port}"
        turned.access.error = FileNotFoundError(2, "No such file or directory")
        session = Session(turned.access, user_agent="test", seconds=PATIENCE_S)
        with pytest.raises(
            PodsUnreadable, match=r"Unauthorized \(401\)\. .* It could not be renewed: \[Errno 2\] No s"
        ):
            await LivePods(Api(session)).pod("team-a", "train")
        await session.close()


async def test_a_renewal_that_hangs_is_not_waited_for(turned: Turned) -> None:
    session = Session(turned.access, user_agent="test", seconds=0.1)
    turned.access.may_read.clear()
    with pytest.raises(PodsUnreadable, match=r"no answer from http://127\.0\.0\.1:1 within 0\.1 s"):
        await LivePods(Api(session)).pod("team-a", "train")
    await session.close()


async def test_a_kubeconfig_whose_token_file_is_replaced_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "rotated"
    token.write_text("first")
    found = find_access(kubeconfig(tmp_path / "k", "https://127.0.0.1:1", user={"tokenFile": str(token)}))

    assert await found.authorization() == "Bearer first"
    token.write_text("second")
    assert await found.authorization() == "Bearer second"


@pytest.mark.parametrize("part", ["certificate-authority", "client-certificate"])
def test_certificates_that_cannot_be_read_are_named(tmp_path: Path, part: str) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    user = {"client-certificate": str(broken), "client-key": str(broken)} if part == "client-certificate" else {}
    cluster = {"certificate-authority": str(broken)} if part == "certificate-authority" else {}
    path = kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1", user=user, cluster=cluster)
    with pytest.raises(ConfigError, match=r"expected certificates for https://127\.0\.0\.1:1 in .*broken\.pem"):
        connect(path, user_agent="test", seconds=1.0)


@pytest.mark.parametrize("where", ["kubeconfig", "environment"])
async def test_a_proxy_is_asked_instead_of_the_api_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    async with serving(always(POD)) as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        if where == "environment":
            monkeypatch.setenv("http_proxy", address)
        cluster = {"proxy-url": address} if where == "kubeconfig" else {}
        await read_over(proxy, kubeconfig(tmp_path / "k", "http://10.0.0.1:1", cluster=cluster))
        assert proxy.received[0].target == "http://10.0.0.1:1/api/v1/namespaces/team-a/pods/train"


@pytest.mark.parametrize("url", ["10.0.0.1:6443", "ftp://10.0.0.1", "https://", "https://10.0.0.1:many"])
def test_an_address_that_is_none_is_named(tmp_path: Path, url: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^expected the URL of an API server such as https://10\.0\.0\.1:6443, found "
    ):
        connect(kubeconfig(tmp_path / "k", url), user_agent="test", seconds=1.0)


@pytest.mark.parametrize("token", ["two\nlines", "caf\u00e9", "a\x00b"])
def test_a_token_that_cannot_be_sent_is_refused(tmp_path: Path, token: str) -> None:
    path = kubeconfig(tmp_path / "k", "http://127.0.0.1:1", user={"token": token})
    with pytest.raises(ConfigError, match=r"/k: expected a kubeconfig: expected a token of one line"):
        connect(path, user_agent="test", seconds=1.0)


async def test_a_session_that_was_never_used_can_be_closed(tmp_path: Path) -> None:
    await connect(kubeconfig(tmp_path / "k", "http://127.0.0.1:1"), user_agent="test", seconds=1.0).close()


async def test_whoever_waits_when_the_session_is_closed_gets_an_error(tmp_path: Path) -> None:
    async with serving(silent()) as stand_in:
        session = connect(
            kubeconfig(tmp_path / "k", f"http://127.0.0.1:{stand_in.port}"), user_agent="test", seconds=PATIENCE_S
        )
        read = asyncio.create_task(LivePods(Api(session)).pod("team-a", "train"))
        while not stand_in.received:
            await asyncio.sleep(0.001)
        await session.close()
        with pytest.raises(PodsUnreadable, match=r"gives no answer: the program stops\. "):
            await read


def silent() -> Turn:
    async def turn(_: Received, __: Line) -> None:
        await asyncio.sleep(PATIENCE_S)

    return turn
