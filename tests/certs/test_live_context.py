"""A listening context whose certificate is replaced in real handshakes, under load, and with pairs that are none."""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs import BundleError
from certs.certificate import Authority, TlsBundle, encode, issue, issue_serving, load, new_authority
from certs.context import LiveContext, authority_context

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
AUTHORITY = new_authority(now=NOW, lifetime=30 * DAY)


def pair(authority: Authority = AUTHORITY) -> TlsBundle:
    return issue_serving(["localhost"], authority, now=NOW, lifetime=DAY)


def rsa_pair() -> TlsBundle:
    """As somebody with an old certificate authority might bring it."""
    key = rsa.generate_private_key(65537, 2048)
    certificate = signed(key, x509.SubjectAlternativeName([x509.DNSName("localhost")]), ExtendedKeyUsageOID.SERVER_AUTH)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return TlsBundle(certificate, pem, pair().authority)


def signed(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    names: x509.SubjectAlternativeName,
    usage: x509.ObjectIdentifier,
    authority: Authority = AUTHORITY,
    *,
    ends: datetime = NOW + DAY,
) -> bytes:
    signer = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")]))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - DAY)
        .not_valid_after(ends)
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


@asynccontextmanager
async def listening(live: LiveContext) -> AsyncIterator[int]:
    """The port of a server that sends back each line."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(line)
        except OSError:  # the client went away, or was refused
            writer.transport.abort()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=live.listening)
    async with server:
        yield server.sockets[0].getsockname()[1]


class Client:
    """A connection that blocks a thread, not the loop of the server."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self.tls = connection

    @property
    def shown(self) -> x509.Certificate:
        der = self.tls.getpeercert(binary_form=True)
        assert der is not None
        return x509.load_der_x509_certificate(der)

    async def ask(self) -> bytes:
        return await asyncio.to_thread(self._ask)

    def _ask(self) -> bytes:
        self.tls.sendall(b"hello\n")
        return self.tls.recv(100)

    def close(self) -> None:
        self.tls.close()


async def connect(port: int, context: ssl.SSLContext | None = None, name: str | None = "localhost") -> Client:
    context = context or authority_context(pair().authority)
    if name is None:
        context.check_hostname = False
    return await asyncio.to_thread(_connect, port, context, name)


def _connect(port: int, context: ssl.SSLContext, name: str | None) -> Client:
    plain = socket.create_connection(("127.0.0.1", port), timeout=20)
    try:
        return Client(context.wrap_socket(plain, server_hostname=name))
    except OSError:
        plain.close()
        raise


async def shown(port: int, **options: str | None) -> x509.Certificate:
    client = await connect(port, **options)  # type: ignore[arg-type]  # only the name
    assert await client.ask() == b"hello\n"
    found = client.shown
    client.close()
    return found


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> asyncio.Runner:
    return asyncio.Runner(loop_factory=request.param)


def test_a_new_pair_is_shown_at_once_and_open_connections_go_on(run: asyncio.Runner) -> None:
    async def main() -> None:
        first, second = pair(), pair()
        live = LiveContext()
        live.replace(bundle=first)
        async with listening(live) as port:
            before = await connect(port)
            live.replace(bundle=second)
            assert await shown(port) == load(second.certificate)[0]
            assert await shown(port, name=None) == load(second.certificate)[0]
            assert before.shown == load(first.certificate)[0]
            assert await before.ask() == b"hello\n"
            before.close()

    with run:
        run.run(main())


def test_a_pair_of_another_key_type_replaces_the_old_one(run: asyncio.Runner) -> None:
    async def main() -> None:
        live, other = LiveContext(), rsa_pair()
        live.replace(bundle=pair())
        async with listening(live) as port:
            live.replace(bundle=other)
            assert await shown(port) == load(other.certificate)[0]

    with run:
        run.run(main())


@pytest.mark.parametrize(
    "bad",
    [
        TlsBundle(pair().certificate, pair().key),
        TlsBundle(pair().certificate[:200], pair().key),
        TlsBundle(pair().certificate, b""),
        TlsBundle(b"", b""),
        TlsBundle(b"\xff", b"\xff"),
    ],
    ids=["another's key", "truncated", "no key", "empty", "garbage"],
)
def test_a_pair_that_is_none_is_refused_and_the_old_one_stays(bad: TlsBundle) -> None:
    async def main() -> None:
        good, live = pair(), LiveContext()
        live.replace(bundle=good)
        async with listening(live) as port:
            with pytest.raises(BundleError, match="the certificate cannot be used"):
                live.replace(bundle=bad)
            assert await shown(port) == load(good.certificate)[0]
            live.replace(client_authority=b"")
            assert await shown(port) == load(good.certificate)[0]

    asyncio.run(main())


def test_without_a_certificate_no_handshake_succeeds() -> None:
    async def main() -> None:
        async with listening(LiveContext()) as port:
            with pytest.raises((ssl.SSLError, ConnectionError), match=r"(?i)internal error|reset|eof"):
                await connect(port)

    asyncio.run(main())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_rules_of_the_listening_context_outlive_a_change(version: ssl.TLSVersion) -> None:
    async def main() -> None:
        live = LiveContext()
        for _ in range(2):
            live.replace(bundle=pair())
        async with listening(live) as port:
            context = authority_context(pair().authority)
            context.minimum_version = context.maximum_version = version
            client = await connect(port, context)
            await client.ask()
            assert (client.tls.cipher() or ("",))[0].startswith(("TLS_", "ECDHE-"))
            session = client.tls.session
            assert session is None or not session.has_ticket
            client.close()

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_tls_1_1_is_declined_also_after_a_change() -> None:
    async def main() -> None:
        live = LiveContext()
        for _ in range(2):
            live.replace(bundle=pair())
        async with listening(live) as port:
            context = authority_context(pair().authority)
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
            with pytest.raises((ssl.SSLError, ConnectionError), match=r"(?i)version|eof|reset"):
                await connect(port, context)

    asyncio.run(main())


def test_nothing_fails_while_pairs_are_replaced_all_the_time(run: asyncio.Runner) -> None:
    async def main() -> tuple[int, int]:
        live, stop = LiveContext(), threading.Event()
        pairs = [pair(), rsa_pair(), TlsBundle(pair().certificate, pair().key)]
        live.replace(bundle=pairs[0])
        swaps = 0

        def swap() -> None:
            nonlocal swaps
            while not stop.is_set():
                try:
                    live.replace(bundle=pairs[swaps % 3])
                except BundleError:
                    assert swaps % 3 == 2
                swaps += 1

        swapping = threading.Thread(target=swap)
        async with listening(live) as port:
            swapping.start()
            try:
                kept = [await connect(port) for _ in range(3)]
                for _ in range(60):
                    assert await asyncio.gather(*(client.ask() for client in kept)) == [b"hello\n"] * 3
                    await shown(port)
                for client in kept:
                    client.close()
            finally:
                stop.set()
                swapping.join()
        return swaps, len(kept)

    with run:
        swaps, _ = run.run(main())
    assert swaps > 10


def client_context(
    authority: Authority, usage: x509.ObjectIdentifier, directory: Path, *, ends: datetime = NOW + DAY
) -> ssl.SSLContext:
    """Of a client that shows a certificate of ``authority``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.SubjectAlternativeName([x509.DNSName("kube-apiserver")])
    certificate = signed(key, name, usage, authority, ends=ends)
    file = directory / "client.pem"
    file.touch(mode=0o600)
    file.write_bytes(
        certificate
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = authority_context(pair().authority)
    context.load_cert_chain(file)
    return context


async def is_let_in(port: int, context: ssl.SSLContext | None) -> bool:
    """With TLS 1.3 a client learns that it is refused only when it reads."""
    try:
        client = await connect(port, context)
    except (ssl.SSLError, ConnectionError):
        return False
    try:
        return await client.ask() == b"hello\n"
    except (ssl.SSLError, ConnectionError):
        return False
    finally:
        client.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_clients_must_show_a_certificate_of_their_authority_also_after_a_change(
    tmp_path: Path, version: ssl.TLSVersion, run: asyncio.Runner
) -> None:
    ours, others = (new_authority(now=NOW, lifetime=DAY) for _ in range(2))
    pem = {each: each.certificate.public_bytes(serialization.Encoding.PEM) for each in (ours, others)}
    usage = ExtendedKeyUsageOID.CLIENT_AUTH
    good, stranger = client_context(ours, usage, tmp_path), client_context(others, usage, tmp_path)
    server_like = client_context(ours, ExtendedKeyUsageOID.SERVER_AUTH, tmp_path)
    ended = client_context(ours, usage, tmp_path, ends=NOW - DAY / 2)
    bare = authority_context(pair().authority)
    for context in (good, stranger, server_like, ended, bare):
        context.maximum_version = version

    async def main() -> None:
        live = LiveContext(demands_clients=True)
        live.replace(bundle=pair())
        async with listening(live) as port:
            assert not await is_let_in(port, good)  # whose, nobody has said yet
            live.replace(client_authority=pem[ours])
            for _ in range(2):
                found = [await is_let_in(port, each) for each in (good, stranger, server_like, ended, bare)]
                assert found == [True, False, False, False, False]
                live.replace(bundle=pair())
            live.replace(client_authority=pem[others])
            assert [await is_let_in(port, each) for each in (good, stranger, bare)] == [False, True, False]
            with pytest.raises(BundleError, match="the authority of clients cannot be used"):
                live.replace(client_authority=b"no PEM")
            assert await is_let_in(port, stranger)

    with run:
        run.run(main())


def test_a_key_is_in_no_file_and_in_no_representation() -> None:
    live, found = LiveContext(), issue(["localhost"], now=NOW, lifetime=DAY)
    live.replace(bundle=found)
    assert "PRIVATE" not in repr(live) + repr(vars(live)) + repr(AUTHORITY)


@pytest.mark.parametrize("demands", [True, False])
def test_no_session_goes_on_without_a_look_at_the_certificate_that_is_demanded(
    tmp_path: Path, demands: bool, run: asyncio.Runner
) -> None:
    """A session of TLS 1.2 would outlive the end of the certificate of its client, and the authority of it."""
    client = client_context(AUTHORITY, ExtendedKeyUsageOID.CLIENT_AUTH, tmp_path)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    live = LiveContext(demands_clients=demands)
    live.replace(bundle=pair(), client_authority=encode([AUTHORITY.certificate]))

    def again(port: int, session: ssl.SSLSession | None) -> bool:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
            tls = client.wrap_socket(plain, server_hostname="localhost", session=session)
            with tls:
                return bool(tls.session_reused)

    async def main() -> None:
        async with listening(live) as port:
            first = await connect(port, client)
            try:
                await first.ask()
                if demands:
                    with pytest.raises((ssl.SSLError, ConnectionError), match=r"(?i)expired|eof|reset"):
                        await asyncio.to_thread(again, port, first.tls.session)
                else:
                    assert await asyncio.to_thread(again, port, first.tls.session)
            finally:
                first.close()
            assert await is_let_in(port, client)

    with run:
        run.run(main())


@pytest.mark.parametrize("demands", [True, False])
def test_a_client_that_speaks_both_versions_gets_1_2_where_certificates_are_demanded(
    tmp_path: Path, demands: bool, run: asyncio.Runner
) -> None:
    client = client_context(AUTHORITY, ExtendedKeyUsageOID.CLIENT_AUTH, tmp_path, ends=NOW + DAY)

    async def main() -> str | None:
        live = LiveContext(demands_clients=demands)
        live.replace(bundle=pair(), client_authority=encode([AUTHORITY.certificate]))
        async with listening(live) as port:
            found = await connect(port, client)
            try:
                assert await found.ask() == b"hello\n"
                return found.tls.version()
            finally:
                found.close()

    with run:
        assert run.run(main()) == ("TLSv1.2" if demands else "TLSv1.3")
