"""What OpenSSL gets to read of a client that has not shown a valid certificate yet."""

import itertools
import ssl
from contextlib import suppress
from datetime import timedelta
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from certs.certificate import encode
from certs.context import LiveContext
from certs.handshake import MOST_HANDSHAKE_BYTES, ClientFlight, GuardedContext, RefusedHandshakeError
from tests.certs.test_live_context import AUTHORITY, NOW, pair

ELLIPTIC = bytes.fromhex("06072a8648ce3d0201")  # id-ecPublicKey
P256 = bytes.fromhex("06082a8648ce3d030107")
PRIME_FIELD, BINARY_FIELD = (bytes.fromhex(each) for each in ("06072a8648ce3d0101", "06072a8648ce3d0102"))
SHA256 = bytes.fromhex("06082a8648ce3d040302")
RECORD, MESSAGE = 22, 11


def der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = len(body)
    if size < 128:
        return bytes([tag, size]) + body
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(octets)]) + octets + body


def integer(number: int) -> bytes:
    return der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def explicit(field: bytes, size: int = 32) -> bytes:
    """The parameters of a curve that is described, not named (RFC 3279, 2.3.5): of one that its sender made up."""
    point = b"\2" + bytes(size)
    element = der(0x04, bytes(size - 1) + b"\4")
    prime = integer(2 ** (8 * size) - 189)
    return der(0x30, integer(1), der(0x30, field, prime), der(0x30, element, element), der(0x04, point), prime)


def certificate(parameters: bytes) -> bytes:
    point = b"\2" + bytes(31) + b"\5"
    key = der(0x30, der(0x30, ELLIPTIC, parameters), der(0x03, b"\0", point))
    dates = der(0x30, der(0x17, b"260101000000Z"), der(0x17, b"360101000000Z"))
    algorithm, name = der(0x30, SHA256), der(0x30)
    body = der(0x30, der(0xA0, integer(2)), integer(1), algorithm, name, dates, name, key)
    return der(0x30, body, algorithm, der(0x03, b"\0"))


def message(*certificates: bytes) -> bytes:
    listed = b"".join(len(each).to_bytes(3, "big") + each for each in certificates)
    body = len(listed).to_bytes(3, "big") + listed
    return bytes([MESSAGE]) + len(body).to_bytes(3, "big") + body


def records(content: bytes, size: int = 2**14, kind: int = RECORD) -> bytes:
    parts = (content[at : at + size] for at in range(0, len(content), size))
    return b"".join(bytes([kind, 3, 3]) + len(each).to_bytes(2, "big") + each for each in parts)


def strangers(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None) -> bytes:
    """A certificate of its own authority, by default one with a key of P-256."""
    key, name = key or ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + timedelta(days=1))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@cache
def demanding() -> ssl.SSLContext:
    live = LiveContext(demands_clients=True)
    live.replace(bundle=pair(), client_authority=encode([AUTHORITY.certificate]))
    return live.listening


def answered(*flights: bytes) -> ssl.SSLError:
    """How the server ends a handshake of TLS 1.2 whose client sends these bytes after its first message."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
    to_client, to_server, from_server = (ssl.MemoryBIO() for _ in range(3))
    hello = ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, hello)
    server = demanding().wrap_bio(to_server, from_server, server_side=True)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    for data in (hello.read(), *flights):
        to_server.write(data)
        try:
            server.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError as error:
            return error
    raise AssertionError("the server waits for more")


@pytest.mark.parametrize("field", [PRIME_FIELD, BINARY_FIELD])
def test_a_curve_that_a_client_made_up_does_not_come_to_openssl(field: bytes) -> None:
    refused = answered(records(message(certificate(explicit(field)))))
    assert isinstance(refused, RefusedHandshakeError)
    assert "a certificate whose elliptic curve has no name" in str(refused)


def test_the_certificate_of_a_stranger_is_left_to_openssl() -> None:
    refused = answered(records(message(strangers())))
    assert not isinstance(refused, RefusedHandshakeError)
    assert "CERTIFICATE_VERIFY_FAILED" in str(refused)


@pytest.mark.parametrize("length", [bytes([0x81, 7]), bytes([0x82, 0, 7]), bytes([0x84, 0, 0, 0, 7])])
def test_another_form_of_the_length_hides_no_curve(length: bytes) -> None:
    """OpenSSL reads BER, in which a length has several forms."""
    made_up = explicit(PRIME_FIELD[:1] + length + PRIME_FIELD[2:])
    assert isinstance(answered(records(message(certificate(made_up)))), RefusedHandshakeError)


def test_openssl_knows_an_identifier_in_no_other_form() -> None:
    """A zero before a number of the identifier hides it from the look. OpenSSL does not decode such a key."""
    padded = der(0x06, bytes.fromhex("2a8648ce3d018001"))
    assert "key too weak" in str(answered(records(message(certificate(explicit(padded))))))
    assert "key too weak" not in str(answered(records(message(strangers()))))


@pytest.mark.parametrize("size", range(1, 40))
def test_records_of_any_size_hide_no_curve(size: int) -> None:
    bad = records(message(certificate(explicit(PRIME_FIELD))), size)
    assert isinstance(answered(*(bad[at : at + 1400] for at in range(0, len(bad), 1400))), RefusedHandshakeError)


@given(
    parameters=st.sampled_from([P256, explicit(PRIME_FIELD), explicit(BINARY_FIELD)]),
    sizes=st.lists(st.integers(1, 60), min_size=1),
    reads=st.lists(st.integers(1, 60), min_size=1),
    warning=st.booleans(),
)
def test_any_cut_into_records_and_reads_gives_the_same_answer(
    parameters: bytes, sizes: list[int], reads: list[int], warning: bool
) -> None:
    content, sent = message(certificate(parameters)), b""
    for size in itertools.cycle(sizes):
        sent += records(content[:size]) + (records(b"\1\0", kind=21) if warning else b"")
        content = content[size:]
        if not content:
            break
    flight, refused = ClientFlight(), False
    try:
        for size in itertools.cycle(reads):
            flight.take(sent[:size])
            sent = sent[size:]
            if not sent:
                break
    except RefusedHandshakeError:
        refused = True
    assert refused == (parameters != P256)


def test_a_handshake_has_an_end() -> None:
    flight = ClientFlight()
    filling = records(bytes(MOST_HANDSHAKE_BYTES - 5))
    flight.take(filling)
    with pytest.raises(RefusedHandshakeError, match="a handshake of more than 16384 bytes"):
        flight.take(b"\x16")
    assert isinstance(answered(records(message(*[strangers()] * 70))), RefusedHandshakeError)


def test_a_chain_of_three_certificates_with_long_rsa_keys_fits() -> None:
    each = strangers(rsa.generate_private_key(65537, 4096))
    assert "CERTIFICATE_VERIFY_FAILED" in str(answered(records(message(each, each, each))))


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", b"\x80\x2e\x01\x03\x03" + bytes(44), b"\x16\x03\x03\xff\xff" + bytes(9)]
)
def test_what_is_no_record_of_tls_does_not_come_to_openssl(data: bytes) -> None:
    with pytest.raises(RefusedHandshakeError, match="no record of TLS"):
        ClientFlight().take(data)


def test_neither_tls_1_3_nor_a_socket_is_served_without_a_look() -> None:
    assert GuardedContext(ssl.PROTOCOL_TLS_SERVER).maximum_version == ssl.TLSVersion.TLSv1_2
    with pytest.raises(NotImplementedError, match="use wrap_bio"):
        GuardedContext(ssl.PROTOCOL_TLS_SERVER).wrap_socket(None)
