"""A look at what a client sends before OpenSSL reads it, on ports that demand certificates of clients.

OpenSSL decodes the public key of each certificate before it asks who signed the certificate. A key on an elliptic curve
that its sender made up can name a prime for which the root of a point costs hundreds of thousands of multiplications:
with OpenSSL 3.0.19 a certificate of 630 bytes takes 150 ms, and OpenSSL takes 100 KiB of certificates. Python has no
setting against this, so such a curve is looked for in the bytes of the handshake. In TLS 1.3 they are encrypted.
"""

import ssl
from typing import Any, cast

MOST_HANDSHAKE_BYTES = 16 * 1024
"""What a client may send until its handshake is over. A chain of three certificates with RSA keys takes 6 KiB. Of what
stays possible, 115 certificates with compressed points of P-224 cost OpenSSL the most: 80 ms."""

_EXPLICIT_CURVES = tuple(bytes.fromhex(each) for each in ("2a8648ce3d0101", "2a8648ce3d0102"))
"""The object identifiers of prime-field and characteristic-two-field (RFC 3279, 2.3.5) without tag and length. A curve
that is not named has one of the two, and DER and BER know only this form of it."""

_HEADER_BYTES = 5
_FIRST_TYPE, _HANDSHAKE, _LAST_TYPE = 20, 22, 23
_MOST_RECORD_BYTES = 2**14 + 2048
"""The types of records and their longest length: RFC 5246, 6.2.1 and 6.2.3."""


class RefusedHandshakeError(ssl.SSLError):
    """A client sent what no client with a valid certificate sends before the end of its handshake."""


class ClientFlight:
    """The bytes of a client until its handshake is over."""

    def __init__(self) -> None:
        self._size = 0
        self._records = b""
        """The first bytes of a record that is not complete yet."""
        self._messages = b""
        """The last bytes of the handshake messages: an identifier may go on in the next record."""

    def take(self, data: bytes) -> None:
        """Look at the next bytes.

        Raises:
            RefusedHandshakeError: they are too many, are not TLS, or describe a curve instead of naming it.
        """
        self._size += len(data)
        if self._size > MOST_HANDSHAKE_BYTES:
            raise RefusedHandshakeError(f"a handshake of more than {MOST_HANDSHAKE_BYTES} bytes")
        records = self._records + data
        at = 0
        while len(records) - at >= _HEADER_BYTES:
            kind, length = records[at], int.from_bytes(records[at + 3 : at + _HEADER_BYTES], "big")
            if not _FIRST_TYPE <= kind <= _LAST_TYPE or length > _MOST_RECORD_BYTES:
                raise RefusedHandshakeError("no record of TLS")
            end = at + _HEADER_BYTES + length
            if len(records) < end:
                break
            if kind == _HANDSHAKE:
                self._look(records[at + _HEADER_BYTES : end])
            at = end
        self._records = records[at:]

    def _look(self, messages: bytes) -> None:
        known = self._messages + messages
        if any(curve in known for curve in _EXPLICIT_CURVES):
            raise RefusedHandshakeError("a certificate whose elliptic curve has no name")
        self._messages = known[-len(_EXPLICIT_CURVES[0]) + 1 :]


class _Connection(ssl.SSLObject):
    """A connection of a server that shows OpenSSL only a handshake that :class:`ClientFlight` has seen."""

    incoming: ssl.MemoryBIO
    flight: ClientFlight

    def do_handshake(self) -> None:
        data = self.incoming.read()
        self.flight.take(data)
        self.incoming.write(data)
        super().do_handshake()


class GuardedContext(ssl.SSLContext):
    """A context of a server that demands certificates of clients. It speaks TLS 1.2 alone, with asyncio or uvloop."""

    sslobject_class = _Connection

    def __new__(cls, protocol: int) -> "GuardedContext":
        """Return a context; the argument is that of :class:`ssl.SSLContext`."""
        context = super().__new__(cls, protocol)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        return context

    def wrap_bio(self, incoming: ssl.MemoryBIO, *args: Any, **options: Any) -> ssl.SSLObject:
        """Return a connection; the arguments are those of :meth:`ssl.SSLContext.wrap_bio`."""
        connection = cast("_Connection", super().wrap_bio(incoming, *args, **options))
        connection.incoming, connection.flight = incoming, ClientFlight()
        return connection

    def wrap_socket(self, *_args: Any, **_options: Any) -> ssl.SSLSocket:
        """Raise NotImplementedError: OpenSSL would read from the socket itself."""
        raise NotImplementedError("the handshake of a socket is not looked at; use wrap_bio")
