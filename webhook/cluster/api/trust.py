"""The TLS side of a connection: trusted authorities and client certificate, read again when their files change.

The kubelet renews the files of a service account in a running pod, among them the certificate of the cluster's
authority. Each request looks at the files, which costs a call of stat for each. After a change, requests take new
connections; a running request goes on.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from webhook.words.errors import ConfigError

_Stamp = tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsFiles:
    """The parts of a TLS context."""

    authority: str | None = None
    """The file with the trusted authorities; without one, those of this machine are trusted."""
    certificate: str | None = None
    """The file with the client certificate, if there is one."""
    key: str | None = None
    verify: bool = True
    """True if the certificate of the API server is checked."""
    server: str = "the API server"
    """The name of the server in messages."""


class Trust:
    """A client's TLS context that follows its files.

    Args:
        files: The parts of the context.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._paths = [Path(file) for file in (files.authority, files.certificate, files.key) if file]
        self._stamp = self._read_stamp()
        self._context = tls_context(files)

    def context(self) -> ssl.SSLContext:
        """Return the context of the next request. Files that are unreadable, or do not match yet, leave the old one."""
        stamp = self._read_stamp()
        if stamp and stamp != self._stamp:
            try:
                self._context = tls_context(self._files)
            except ConfigError:
                return self._context  # perhaps between two writes, so the next request tries again
            self._stamp = stamp
        return self._context

    def _read_stamp(self) -> _Stamp:
        """Return a value that changes with the files; empty if one is missing."""
        try:
            found = [path.stat() for path in self._paths]
        except OSError:
            return ()
        return tuple((status.st_mtime_ns, status.st_ino) for status in found)


def tls_context(files: TlsFiles) -> ssl.SSLContext:
    """Make a context from trusted authorities and a client certificate.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=files.authority)
        if files.certificate:
            context.load_cert_chain(files.certificate, files.key)
    except (OSError, ValueError) as error:  # OpenSSL's errors are of either type
        read = files.authority or "the configuration", files.certificate or "no client certificate"
        raise ConfigError(f"expected certificates for {files.server} in {' and '.join(read)}: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    context.check_hostname = files.verify
    if not files.verify:
        context.verify_mode = ssl.CERT_NONE
    return context
