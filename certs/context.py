"""A server's TLS context from a bundle, and one whose certificate is replaced while it listens."""

import os
import ssl

from certs.bundle import TlsBundle
from certs.errors import BundleError


def server_context(bundle: TlsBundle) -> ssl.SSLContext:
    """TLS 1.2 or later with modern suites, without session tickets.

    kube-apiserver keeps no session cache, so tickets would cost 10 % of each handshake for nothing.
    """
    context = _bare_context()
    load_pair(context, bundle)
    return context


class LiveContext:
    """A listening context whose certificate, and whose demands on clients, can be replaced at any time.

    Replacing them in the context itself is not safe: a pair that does not match leaves it without a key, and one of
    another key type is added to the old one. So each change makes a fresh context, which takes over in the middle of
    a handshake; what fails before that changes nothing. Connections that are open go on.

    Args:
        demands_clients: Whether clients must show a certificate; whose, :meth:`replace` says.
    """

    def __init__(self, *, demands_clients: bool = False) -> None:
        self._demands_clients = demands_clients
        self._bundle: TlsBundle | None = None
        self._client_authority = b""
        self._current: ssl.SSLContext | None = None
        # Version, tickets and whether a client is asked for its certificate stay those of the listening context when
        # another one takes over (SSL_set_SSL_CTX copies certificates); what clients are checked against does not.
        self.listening = _bare_context()
        self.listening.verify_mode = self._verify_mode
        self.listening.sni_callback = self._take_over

    def replace(self, *, bundle: TlsBundle | None = None, client_authority: bytes | None = None) -> None:
        """Use these from the next handshake on; what is None stays. From any thread, but one at a time.

        Raises:
            BundleError: they cannot be used; the old ones stay.
        """
        new_bundle = bundle or self._bundle
        new_authority = self._client_authority if client_authority is None else client_authority
        fresh = _bare_context()
        fresh.verify_mode = self._verify_mode
        if new_authority:
            _load_client_authority(fresh, new_authority)
        if new_bundle is not None:
            try:
                load_pair(fresh, new_bundle)
            except (ssl.SSLError, OSError, ValueError) as error:
                raise BundleError(f"the certificate cannot be used: {error}") from None
        self._bundle, self._client_authority = new_bundle, new_authority
        self._current = fresh if new_bundle is not None else None

    @property
    def _verify_mode(self) -> ssl.VerifyMode:
        return ssl.CERT_REQUIRED if self._demands_clients else ssl.CERT_NONE

    def _take_over(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        """Called in each handshake, also of clients that name no server."""
        if self._current is None or (self._demands_clients and not self._client_authority):
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def load_pair(context: ssl.SSLContext, bundle: TlsBundle) -> None:
    """Load certificate and key into ``context``.

    OpenSSL takes them only from files. This one has no name, is in memory, and is gone when the call returns.
    """
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(bundle.certificate + b"\n" + bundle.key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _bare_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    context.num_tickets = 0  # of TLS 1.3; the option is for 1.2
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    return context


def _load_client_authority(context: ssl.SSLContext, pem: bytes) -> None:
    try:
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise BundleError(f"the authority of clients cannot be used: {error}") from None
