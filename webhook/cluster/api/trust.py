"""Whom we trust at the API server, and the certificate that says who we are: read again when their files change.

The kubelet renews the files of a service account in a running pod, the certificate of the cluster's authority among
them. Each request looks at the files, which costs a call of stat for each. After a change requests take new
connections; a request that is on its way goes on.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from webhook.words.errors import ConfigError

_Stamp = tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsFiles:
    """What a TLS context is made of."""

    authority: str | None = None
    """File with the authorities to trust; without one, those of this machine."""
    certificate: str | None = None
    """File with the client certificate, if there is one."""
    key: str | None = None
    verify: bool = True
    """Whether the certificate of the API server is checked."""
    server: str = "the API server"
    """How messages call it."""


class Trust:
    """A client's TLS context.

    Args:
        files: What it is made of.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._paths = [Path(file) for file in (files.authority, files.certificate, files.key) if file]
        self._stamp = self._read_stamp()
        self._context = tls_context(files)

    def context(self) -> ssl.SSLContext:
        """For the next request. Files that cannot be read, or do not fit together yet, leave it as it was."""
        stamp = self._read_stamp()
        if stamp and stamp != self._stamp:
            try:
                self._context = tls_context(self._files)
            except ConfigError:
                return self._context  # perhaps between two writes; the next request tries again
            self._stamp = stamp
        return self._context

    def _read_stamp(self) -> _Stamp:
        """What changes with the files; nothing if one is not there."""
        try:
            found = [path.stat() for path in self._paths]
        except OSError:
            return ()
        return tuple((status.st_mtime_ns, status.st_ino) for status in found)


def tls_context(files: TlsFiles) -> ssl.SSLContext:
    """Whom to trust and who we are.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=files.authority)
        if files.certificate:
            context.load_cert_chain(files.certificate, files.key)
    except (OSError, ValueError) as error:  # of OpenSSL's errors some are the one, some the other
        read = files.authority or "the configuration", files.certificate or "no client certificate"
        raise ConfigError(f"expected certificates for {files.server} in {' and '.join(read)}: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    context.check_hostname = files.verify
    if not files.verify:
        context.verify_mode = ssl.CERT_NONE
    return context
