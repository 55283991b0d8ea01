"""A server's TLS context from a bundle."""

import os
import ssl
import tempfile
from pathlib import Path

from certs.bundle import TlsBundle


def server_context(bundle: TlsBundle) -> ssl.SSLContext:
    """TLS 1.2 or later with modern suites, without session tickets.

    kube-apiserver keeps no session cache, so tickets would cost 10 % of each handshake for nothing.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    context.num_tickets = 0
    load_pair(context, bundle)
    return context


def load_pair(context: ssl.SSLContext, bundle: TlsBundle) -> None:
    """Load certificate and key into ``context``.

    OpenSSL takes them only from files. These live in a directory that only we can enter, for as long as the call
    lasts, and in memory where the machine has ``/dev/shm``.
    """
    memory = "/dev/shm"  # noqa: S108 - a private directory is made below it
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
        certificate, key = Path(directory, "tls.crt"), Path(directory, "tls.key")
        certificate.write_bytes(bundle.certificate)
        key.touch(mode=0o600)
        key.write_bytes(bundle.key)
        context.load_cert_chain(certificate, key)
