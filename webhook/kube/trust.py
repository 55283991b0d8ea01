"""Whom we trust at the API server, and the certificate that says who we are: read anew when their files change.

The kubelet renews the files of a service account in a running pod, the certificate of the cluster's authority among
them. Each new connection looks at the files, which costs two calls of stat; connections that are open stay.
"""

import ssl
from pathlib import Path

from kubernetes.client import Configuration

from webhook.model.errors import ConfigError

_Stamp = tuple[tuple[int, int], ...]


class Trust:
    """A client's TLS context.

    Args:
        configuration: Of the official client, loaded.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        self._files = tuple(Path(file) for file in files if file)
        self._stamp = self._read_stamp()
        self._context = tls_context(configuration)

    def context(self) -> ssl.SSLContext:
        """For a new connection. Files that cannot be read, or do not fit together yet, leave it as it was."""
        stamp = self._read_stamp()
        if stamp and stamp != self._stamp:
            try:
                self._context = tls_context(self._configuration)
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


def tls_context(configuration: Configuration) -> ssl.SSLContext:
    """Whom to trust and who we are, as the client's configuration says it.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (OSError, ValueError) as error:  # of OpenSSL's errors some are the one, some the other
        files = configuration.ssl_ca_cert or "the configuration", configuration.cert_file or "no client certificate"
        raise ConfigError(f"expected certificates for {configuration.host} in {' and '.join(files)}: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    context.check_hostname = configuration.verify_ssl and configuration.assert_hostname is not False
    if not configuration.verify_ssl:
        context.verify_mode = ssl.CERT_NONE
    return context
