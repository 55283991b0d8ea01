"""Certificates: issued, checked, and used in a real handshake."""

import asyncio
import os
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from certs import BundleError
from certs.certificate import TlsBundle, check_bundle, issue
from certs.context import LiveContext, authority_context, server_context
from certs.keeper import Served, read_bundle

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
NAMES = ("gpu-topology-webhook.gpu-topology.svc", "127.0.0.1", "::1")


def pair(now: datetime = NOW, lifetime: timedelta = 30 * DAY) -> TlsBundle:
    return issue(NAMES, now=now, lifetime=lifetime)


def serving(bundle: TlsBundle) -> x509.Certificate:
    return x509.load_pem_x509_certificate(bundle.certificate)


def authority(bundle: TlsBundle) -> x509.Certificate:
    return x509.load_pem_x509_certificate(bundle.authority)


async def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> tuple[str, str]:
    """Version and cipher of one connection over loopback."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
        spoken: ssl.SSLObject = writer.get_extra_info("ssl_object")
        found = (spoken.version() or "", (spoken.cipher() or ("", "", 0))[0])
        writer.close()
        await writer.wait_closed()
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_trusts_the_authority_accepts_each_name(name: str) -> None:
    bundle = pair()
    version, _ = asyncio.run(handshake(server_context(bundle), authority_context(bundle.authority), name))
    assert version == "TLSv1.3"


def test_another_name_is_not_accepted() -> None:
    bundle = pair()
    with pytest.raises(ssl.SSLCertVerificationError, match=r"doesn't match|mismatch|not valid for"):
        asyncio.run(handshake(server_context(bundle), authority_context(bundle.authority), "other.svc"))


def test_another_authority_is_not_accepted() -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        asyncio.run(handshake(server_context(pair()), authority_context(pair().authority), NAMES[0]))


def test_tls_1_2_gets_a_suite_with_forward_secrecy() -> None:
    bundle = pair()
    client = authority_context(bundle.authority)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    version, cipher = asyncio.run(handshake(server_context(bundle), client, NAMES[0]))
    assert version == "TLSv1.2"
    assert cipher.startswith("ECDHE-ECDSA-")


def test_the_chain_verifies_with_another_library() -> None:
    bundle = pair()
    verifier = PolicyBuilder().store(Store([authority(bundle)])).time(NOW).build_server_verifier(x509.DNSName(NAMES[0]))
    chain = verifier.verify(serving(bundle), [])
    assert chain == [serving(bundle), authority(bundle)]


def test_the_authority_signs_no_further_authorities() -> None:
    constraints = authority(pair()).extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)


def test_the_certificate_is_for_servers_alone() -> None:
    extensions = serving(pair()).extensions
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["gpu-topology-webhook.gpu-topology.svc"]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1"), ip_address("::1")]


def test_the_key_is_of_the_curve_p_256_and_unencrypted() -> None:
    key = serialization.load_pem_private_key(pair().key, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp256r1"


def test_two_pairs_share_nothing() -> None:
    one, two = pair(), pair()
    assert one.key != two.key
    assert one.authority != two.authority
    assert serving(one).serial_number != serving(two).serial_number


def test_dates_allow_for_slow_clocks() -> None:
    certificate = serving(pair(datetime(2030, 1, 1, 12, tzinfo=UTC), 10 * DAY))
    assert certificate.not_valid_before_utc == datetime(2030, 1, 1, 11, 50, tzinfo=UTC)
    assert certificate.not_valid_after_utc == datetime(2030, 1, 11, 12, tzinfo=UTC)


def test_a_fresh_pair_passes_the_check() -> None:
    check_bundle(pair(), now=NOW)
    check_bundle(pair(), now=NOW - timedelta(minutes=9))


@pytest.mark.parametrize(
    ("bundle", "message"),
    [
        (TlsBundle(b"", b""), r"^tls\.crt: expected a PEM certificate"),
        (TlsBundle(b"x" * 1000, pair().key), r"^tls\.crt: expected a PEM certificate.*Issue it again$"),
        (TlsBundle(pair().key, pair().key), r"^tls\.crt: expected a PEM certificate"),
        (TlsBundle(pair().certificate, b""), r"^tls\.key: expected an unencrypted PEM private key"),
        (TlsBundle(pair().certificate, pair().certificate), r"^tls\.key: expected an unencrypted PEM private key"),
        (TlsBundle(pair().certificate, pair().key), r"^tls\.key does not belong to tls\.crt\. Take both from one"),
    ],
    ids=["empty", "no PEM", "a key for a certificate", "no key", "a certificate for a key", "two pairs"],
)
def test_a_bundle_that_cannot_serve_is_refused(bundle: TlsBundle, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        check_bundle(bundle, now=NOW)


def test_an_encrypted_key_is_refused() -> None:
    bundle = pair()
    key = serialization.load_pem_private_key(bundle.key, password=None)
    locked = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    with pytest.raises(BundleError, match=r"^tls\.key: expected an unencrypted PEM private key"):
        check_bundle(TlsBundle(bundle.certificate, locked), now=NOW)


def test_dates_are_checked_to_the_second() -> None:
    bundle = pair(datetime(2030, 1, 1, 12, tzinfo=UTC), 10 * DAY)
    check_bundle(bundle, now=datetime(2030, 1, 11, 11, 59, 59, tzinfo=UTC))
    with pytest.raises(BundleError, match=r"^tls\.crt ended on 2030-01-11\. Issue it again$"):
        check_bundle(bundle, now=datetime(2030, 1, 11, 12, tzinfo=UTC))
    with pytest.raises(
        BundleError, match=r"^tls\.crt begins only on 2030-01-01 11:50 UTC\. Check this machine's clock$"
    ):
        check_bundle(bundle, now=datetime(2030, 1, 1, 11, 49, 59, tzinfo=UTC))


def test_a_directory_is_read_with_and_without_its_authority(tmp_path: Path) -> None:
    bundle = pair()
    (tmp_path / "tls.crt").write_bytes(bundle.certificate)
    (tmp_path / "tls.key").write_bytes(bundle.key)
    assert read_bundle(tmp_path) == TlsBundle(bundle.certificate, bundle.key, b"")
    (tmp_path / "ca.crt").write_bytes(bundle.authority)
    assert read_bundle(tmp_path) == bundle


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key"])
def test_a_missing_file_is_named_with_the_remedy(tmp_path: Path, missing: str) -> None:
    for name in {"tls.crt", "tls.key"} - {missing}:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(BundleError, match=rf"No such file.*{missing}.*--self-signed"):
        read_bundle(tmp_path)


def test_a_key_does_not_show_in_a_representation() -> None:
    bundle = pair()
    assert "PRIVATE" not in repr(bundle)
    assert repr(bundle.key) not in repr(bundle)


def files_with(key: bytes) -> list[Path]:
    """Where this key was written down. Other processes may keep keys of their own there meanwhile."""
    places = [Path("/dev/shm"), Path(os.environ.get("TMPDIR", "/tmp"))]  # noqa: S108 - looked at, not written to
    found = []
    for path in (path for place in places if place.is_dir() for path in place.glob("tmp*/tls.key")):
        with suppress(OSError):  # it is that of another process, and gone again
            if path.read_bytes() == key:
                found.append(path)
    return found


def test_a_key_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    path = tmp_path / "tmp1" / "tls.key"
    path.parent.mkdir()
    path.write_bytes(pair().key)
    assert files_with(path.read_bytes()) == [path]


def test_no_key_file_is_left_behind() -> None:
    bundle = pair()
    server_context(bundle)
    assert files_with(bundle.key) == []


def test_no_key_file_is_left_behind_when_loading_fails() -> None:
    bundle = TlsBundle(pair().certificate, pair().key)
    with pytest.raises(ssl.SSLError, match=r"KEY_VALUES_MISMATCH|mismatch"):
        server_context(bundle)
    assert files_with(bundle.key) == []


def test_the_context_gives_no_tickets_and_speaks_nothing_old() -> None:
    context = server_context(pair())
    assert context.num_tickets == 0
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    old = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.2"}
    assert old
    assert all(name.startswith("ECDHE-") and ("GCM" in name or "CHACHA20" in name) for name in old)


def test_a_connection_is_never_negotiated_again() -> None:
    assert server_context(pair()).options & ssl.OP_NO_RENEGOTIATION
    assert LiveContext().listening.options & ssl.OP_NO_RENEGOTIATION


def test_a_client_gets_no_session_to_resume() -> None:
    bundle = pair()

    async def sessions() -> bool:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello\n")
            await reader.read()
            writer.close()

        listener = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server_context(bundle))
        async with listener:
            port = listener.sockets[0].getsockname()[1]
            client = authority_context(bundle.authority)
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
            await reader.readline()
            session = writer.get_extra_info("ssl_object").session
            writer.close()
            await writer.wait_closed()
        return session is not None and bool(session.has_ticket)

    assert asyncio.run(sessions()) is False


def served(bundle: TlsBundle) -> tuple[float | None, float | None]:
    found = Served()
    found.take(bundle)
    return found.certificate_ends, found.authority_ends


def test_what_is_served_ends_with_its_certificate_and_with_the_first_of_its_authorities() -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    old, new = pair(now, 10 * DAY), pair(now, 90 * DAY)
    both = TlsBundle(new.certificate, new.key, new.authority + old.authority)
    may_1, february_10 = datetime(2026, 5, 1, 12, tzinfo=UTC), datetime(2026, 2, 10, 12, tzinfo=UTC)
    assert served(both) == (may_1.timestamp(), february_10.timestamp())


def test_what_is_served_without_an_authority_ends_with_its_certificate() -> None:
    bundle = pair(datetime(2026, 1, 31, 12, tzinfo=UTC), 10 * DAY)
    ends = datetime(2026, 2, 10, 12, tzinfo=UTC).timestamp()
    assert served(TlsBundle(bundle.certificate, bundle.key)) == (ends, None)
