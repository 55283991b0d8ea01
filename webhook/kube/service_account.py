"""What the cluster tells a program that runs in it as a pod.

The places are those of kubernetes.io, "Accessing the Kubernetes API from a Pod".
"""

import os
from collections.abc import Mapping
from pathlib import Path

from webhook.model.errors import ConfigError

DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


class ServiceAccount:
    """:class:`webhook.kube.access.Access` of a pod. The kubelet replaces its files while the program runs.

    Args:
        directory: Where they are, if not where every pod has them.
        environment: Says where the API server is.

    Raises:
        ConfigError: something of it is missing.
    """

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
        self.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self.ssl_ca_cert: str | None = str(authority)
        self.ca_cert_data: str | bytes | None = None
        self.cert_file: str | None = None
        self.key_file: str | None = None
        self.verify_ssl = True
        self.assert_hostname: bool | None = None
        self.tls_server_name: str | None = None
        self.proxy = _said(environment, "https_proxy") or _said(environment, "all_proxy")
        self.no_proxy = _said(environment, "no_proxy")

    def get_api_key_with_prefix(self, identifier: str) -> str | None:
        """The Authorization header as the token file has it now.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is empty, or no text.
        """
        return f"Bearer {self._read_token()}" if identifier == "BearerToken" else None

    def _read_token(self) -> str:
        try:
            token = self._token.read_text(encoding="ascii").strip()
        except UnicodeDecodeError:
            raise ValueError(f"{self._token}: expected a token of one line, found other characters") from None
        if not token:
            raise ValueError(f"{self._token} is empty")
        return token


def _said(environment: Mapping[str, str], name: str) -> str | None:
    """A variable that is written in small letters or capitals; small ones go first, as with curl."""
    return environment.get(name, environment.get(name.upper()))


def _outside(problem: str) -> ConfigError:
    return ConfigError(
        f"expected to run as a pod with a service account: {problem} Outside of a cluster give --kubeconfig FILE"
    )
