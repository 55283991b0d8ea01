"""Whom we trust at the API server, and the certificate that says who we are: read anew when their files change.

The kubelet renews the files of a service account in a running pod, the certificate of the cluster's authority among
them. Each new connection looks at the files, which costs two calls of stat; connections that are open stay.
"""

import ssl
from pathlib import Path

from webhook.kube.access import Access
from webhook.model.errors import ConfigError

_Stamp = tuple[tuple[int, int], ...]


class Trust:
    """A client's TLS context.

    Args:
        access: Says which files.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        files = (access.ssl_ca_cert, access.cert_file, access.key_file)
        self._files = tuple(Path(file) for file in files if file)
        self._stamp = self._read_stamp()
        self._context = tls_context(access)

    def context(self) -> ssl.SSLContext:
        """For a new connection. Files that cannot be read, or do not fit together yet, leave it as it was."""
        stamp = self._read_stamp()
        if stamp and stamp != self._stamp:
            try:
                self._context = tls_context(self._access)
            except ConfigError:
                return self._context  # perhaps between two writes; the next connection tries again
            self._stamp = stamp
        return self._context

    def _read_stamp(self) -> _Stamp:
        """What changes with the files; nothing if one is not there."""
        try:
            found = [file.stat() for file in self._files]
        except OSError:
            return ()
        return tuple((one.st_mtime_ns, one.st_ino) for one in found)


def tls_context(access: Access) -> ssl.SSLContext:
    """Whom to trust and who we are, as ``access`` says it.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=access.ssl_ca_cert, cadata=access.ca_cert_data)
        if access.cert_file:
            context.load_cert_chain(access.cert_file, access.key_file)
    except (OSError, ValueError) as error:  # of OpenSSL's errors some are the one, some the other
        files = access.ssl_ca_cert or "the configuration", access.cert_file or "no client certificate"
        raise ConfigError(f"expected certificates for {access.host} in {' and '.join(files)}: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    context.check_hostname = access.verify_ssl and access.assert_hostname is not False
    if not access.verify_ssl:
        context.verify_mode = ssl.CERT_NONE
    return context
