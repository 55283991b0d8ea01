"""How a kubeconfig says to reach an API server, with what the official client knows of exec plugins and OIDC."""

import asyncio
import os
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.kube_config import load_kube_config

from webhook.kube.credentials import problem_of, sendable
from webhook.kube.proxy import find_proxy
from webhook.kube.trust import TlsFiles, Trust
from webhook.manifest.documents import read_yaml
from webhook.model.errors import ConfigError


class Kubeconfig:
    """:class:`webhook.kube.access.Access` of a kubeconfig.

    Args:
        path: The file.

    Raises:
        ConfigError: it cannot be used.
        ManifestError: it cannot be read.
    """

    renew_seconds = 60.0
    """Seconds after which the file is read again, and an exec plugin run again. Plugins keep their tokens themselves,
    because kubectl runs them for each command."""

    def __init__(self, path: Path) -> None:
        self._path = path
        documents = read_yaml(path)  # says better than the client what is wrong with a file
        if not all(isinstance(document, dict) for document in documents):
            raise ConfigError(f"{path}: expected a kubeconfig: it is no mapping")
        try:
            found = _loaded(path)
            self._header: str | None = sendable(_bearer(found))
            self.proxy: str | None = found.proxy or find_proxy(found.host, os.environ)
        except Exception as error:  # of the client's code for OIDC and exec plugins anything may come
            raise ConfigError(f"{path}: expected a kubeconfig: {problem_of(error)}") from None
        self.url: str = found.host
        self.tls_server_name: str | None = found.tls_server_name
        self._trust = Trust(
            TlsFiles(
                authority=found.ssl_ca_cert,
                certificate=found.cert_file,
                key=found.key_file,
                verify=found.verify_ssl,
                server=self.url,
            )
        )

    def tls(self) -> ssl.SSLContext:
        """For the next request."""
        return self._trust.context()

    async def authorization(self) -> str:
        """The Authorization header; an exec plugin is run, and an OIDC token that has ended is renewed.

        Raises:
            Exception: whatever a plugin or a provider makes the client raise.
        """
        header, self._header = self._header, None  # what the start has read is fresh
        return _bearer(await _load(self._path)) if header is None else header


def _loaded(path: Path) -> Configuration:
    """What :func:`_load` returns, for callers that are not asynchronous, whether or not a loop runs in this thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _load(path)).result()


async def _load(path: Path) -> Configuration:
    found = Configuration()
    await load_kube_config(  # type: ignore[no-untyped-call]  # kubernetes has no annotations there
        str(path), client_configuration=found, persist_config=False
    )
    return found


def _bearer(found: Configuration) -> str:
    return (found.api_key.get("BearerToken") or "").strip()
