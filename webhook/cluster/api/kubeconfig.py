"""The access to an API server by a kubeconfig, with the official client for exec plugins and OIDC."""

import asyncio
import os
import ssl
from concurrent.futures import ThreadPoolExecutor

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.kube_config import load_kube_config_from_dict

from webhook.cluster.api.contexts import Context
from webhook.cluster.api.credentials import problem_of, sendable
from webhook.cluster.api.kubeconfig_files import Object, read_context
from webhook.cluster.api.proxy import find_proxy
from webhook.cluster.api.trust import TlsFiles, Trust
from webhook.words.errors import ConfigError


class Kubeconfig:
    """The access that a kubeconfig gives, as :class:`webhook.cluster.api.access.Access`.

    Args:
        context: The files, and one of their contexts.

    Raises:
        ConfigError: the kubeconfig cannot be used.
        ManifestError: a file cannot be read.
    """

    renew_seconds = 60.0
    """The seconds after which files are read again and an exec plugin runs again. Plugins cache their tokens
    themselves, because kubectl runs them for each command."""

    def __init__(self, context: Context) -> None:
        self._context = context
        chosen = read_context(context)  # its messages about a bad file are better than the client's
        try:
            found = _loaded(chosen)
            self._header: str | None = sendable(_bearer(found))
            self.proxy: str | None = found.proxy or find_proxy(found.host, os.environ)
        except Exception as error:  # the client's code for OIDC and exec plugins may raise anything
            raise ConfigError(f"{context.source}: expected a kubeconfig: {problem_of(error)}") from None
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
        """Return the TLS context of the next request."""
        return self._trust.context()

    async def authorization(self) -> str:
        """Return the Authorization header. This runs an exec plugin, and renews an OIDC token that has ended.

        Raises:
            Exception: any error that a plugin or a provider causes in the client.
        """
        header, self._header = self._header, None  # the value read at the start is fresh
        return _bearer(await _load(read_context(self._context))) if header is None else header


def _loaded(chosen: Object) -> Configuration:
    """Run :func:`_load` for a synchronous caller, also if an event loop runs in this thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _load(chosen)).result()


async def _load(chosen: Object) -> Configuration:
    found = Configuration()
    await load_kube_config_from_dict(chosen, client_configuration=found)  # type: ignore[no-untyped-call]  # kubernetes has no annotations there
    return found


def _bearer(found: Configuration) -> str:
    return (found.api_key.get("BearerToken") or "").strip()
