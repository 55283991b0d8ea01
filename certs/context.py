"""TLS contexts: of servers, with a certificate that can be replaced or not, and of clients that trust an authority."""

import os
import ssl

from certs import BundleError
from certs.certificate import TlsBundle
from certs.handshake import GuardedContext


def server_context(bundle: TlsBundle) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or later with modern suites, without session tickets.

    kube-apiserver keeps no session cache, so tickets would only cost 10 % of each handshake.
    """
    context = _bare_context()
    _load_pair(context, bundle)
    return context


def authority_context(authority: bytes) -> ssl.SSLContext:
    """Return a client's TLS context that trusts only ``authority`` (PEM)."""
    return ssl.create_default_context(cadata=authority.decode("ascii"))


class LiveContext:
    """A listening context whose certificate and client authority can be replaced at any time.

    A replacement in the context itself is not safe. A pair that does not match leaves the context without a key, and a
    pair of another key type is added to the old one. So each change makes a fresh context, which takes over in the
    middle of a handshake. A failure before that changes nothing. Open connections go on.

    Args:
        demands_clients: True if clients must show a certificate. :meth:`replace` sets its authority. TLS is 1.2
            then (:class:`certs.handshake.GuardedContext`).
    """

    def __init__(self, *, demands_clients: bool = False) -> None:
        self._demands_clients = demands_clients
        self._bundle: TlsBundle | None = None
        self._client_authority = b""
        self._current: ssl.SSLContext | None = None
        # The version, the tickets and the request for a client's certificate stay those of the listening context when
        # another context takes over (SSL_set_SSL_CTX copies certificates). The authority of clients is the new one's.
        self.listening = _bare_context(GuardedContext if demands_clients else ssl.SSLContext)
        self.listening.verify_mode = self._verify_mode
        self.listening.sni_callback = self._take_over

    def replace(self, *, bundle: TlsBundle | None = None, client_authority: bytes | None = None) -> None:
        """Use the bundle and the client authority from the next handshake on; None leaves the old value.

        Any thread may call this, but only one at a time.

        Raises:
            BundleError: the new values cannot be used. The old ones stay.
        """
        new_bundle = bundle or self._bundle
        new_authority = self._client_authority if client_authority is None else client_authority
        fresh = _bare_context()
        fresh.verify_mode = self._verify_mode
        if new_authority:
            _load_client_authority(fresh, new_authority)
        if new_bundle is not None:
            try:
                _load_pair(fresh, new_bundle)
            except (ssl.SSLError, OSError, ValueError) as error:
                raise BundleError(f"the certificate cannot be used: {error}") from None
        self._bundle, self._client_authority = new_bundle, new_authority
        self._current = fresh if new_bundle is not None else None

    @property
    def _verify_mode(self) -> ssl.VerifyMode:
        return ssl.CERT_REQUIRED if self._demands_clients else ssl.CERT_NONE

    def _take_over(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        """Switch the connection to the current context. OpenSSL calls this in each handshake, with or without SNI."""
        if self._current is None or (self._demands_clients and not self._client_authority):
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        if self._demands_clients and connection.session_reused:
            # A session of TLS 1.2 goes on without a look at the certificate of the client, for two hours after the
            # certificate has ended or its authority was replaced. Go's client keeps no such sessions.
            return ssl.ALERT_DESCRIPTION_CERTIFICATE_EXPIRED
        connection.context = self._current
        return None


def _load_pair(context: ssl.SSLContext, bundle: TlsBundle) -> None:
    """Load certificate and key into ``context``.

    OpenSSL reads them only from files. The file used here is in memory, has no name, and ends with the call.
    """
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(bundle.certificate + b"\n" + bundle.key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _bare_context(kind: type[ssl.SSLContext] = ssl.SSLContext) -> ssl.SSLContext:
    context = kind(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    context.num_tickets = 0  # for TLS 1.3; OP_NO_TICKET is for 1.2
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    return context


def _load_client_authority(context: ssl.SSLContext, pem: bytes) -> None:
    try:
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise BundleError(f"the authority of clients cannot be used: {error}") from None
