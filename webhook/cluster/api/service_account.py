"""The access of a program that runs as a pod, by its service account.

The paths are those of kubernetes.io, "Accessing the Kubernetes API from a Pod".
"""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from webhook.cluster.api.proxy import find_proxy
from webhook.cluster.api.trust import TlsFiles, Trust
from webhook.words.errors import ConfigError

DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


class ServiceAccount:
    """The access of a pod, as :class:`webhook.cluster.api.access.Access`. The kubelet replaces its files at run time.

    Args:
        directory: The directory of the files, if it is not the usual one.
        environment: The variables with the address of the API server.

    Raises:
        ConfigError: a variable or file is missing.
    """

    renew_seconds = 10.0
    """The time between two reads of the token; client-go has one minute (client-go transport/token_source.go)."""

    def __init__(self, directory: Path | None = None, environment: Mapping[str, str] = os.environ) -> None:
        host, port = environment.get(HOST), environment.get(PORT)
        if not host or not port:
            raise _outside(f"the variables {HOST} and {PORT} are not set.")
        directory = directory or DIRECTORY
        self._token, authority = directory / "token", directory / "ca.crt"
        try:
            self._read_token()
            if not authority.read_bytes():
                raise ValueError(f"{authority} is empty")
        except OSError as error:
            raise _outside(f"{error.filename}: {error.strerror}.") from None
        except ValueError as error:
            raise _outside(f"{error}.") from None
        self.url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self.tls_server_name: str | None = None
        self.proxy = find_proxy(self.url, environment)
        self._trust = Trust(TlsFiles(authority=str(authority), server=self.url))

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context of the next connection."""
        return self._trust.context()

    async def authorization(self) -> str:
        """Return the Authorization header with the token that is now in the file.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is empty, or no text.
        """
        return f"Bearer {self._read_token()}"

    def _read_token(self) -> str:
        try:
            token = self._token.read_text(encoding="ascii").strip()
        except UnicodeDecodeError:
            raise ValueError(f"{self._token}: expected a token of one line, found other characters") from None
        if not token:
            raise ValueError(f"{self._token} is empty")
        return token


def _outside(problem: str) -> ConfigError:
    return ConfigError(
        f"expected to run as a pod with a service account: {problem} Outside of a cluster give --kubeconfig FILE"
    )
