"""What the cluster tells a program that runs in it as a pod.

The places are those of kubernetes.io, "Accessing the Kubernetes API from a Pod".
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
    """:class:`webhook.cluster.api.access.Access` of a pod. The kubelet replaces its files while the program runs.

    Args:
        directory: Where they are, if not where every pod has them.
        environment: Says where the API server is.

    Raises:
        ConfigError: something of it is missing.
    """

    renew_seconds = 10.0
    """So often the token is read; client-go does it once a minute (client-go transport/token_source.go)."""

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
        """For a new connection."""
        return self._trust.context()

    async def authorization(self) -> str:
        """The Authorization header as the token file has it now.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is empty, or no text.
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
