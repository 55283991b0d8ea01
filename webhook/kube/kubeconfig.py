"""How a kubeconfig says to reach an API server, with what the official client knows of exec plugins and OIDC."""

import asyncio
import os
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.kube_config import load_kube_config

from webhook.kube.credentials import problem_of, sendable
from webhook.kube.proxy import find_proxy
from webhook.kube.trust import TlsFiles, Trust
from webhook.manifest.documents import read_yaml
from webhook.model.errors import ConfigError, shorten
from webhook.printable import printable

_DEFAULT = "default"


class Kubeconfig:
    """:class:`webhook.kube.access.Access` of a kubeconfig.

    Args:
        path: The file.
        context: Which of its contexts; empty for the current one.

    Raises:
        ConfigError: it cannot be used.
        ManifestError: it cannot be read.
    """

    renew_seconds = 60.0
    """Seconds after which the file is read again, and an exec plugin run again. Plugins keep their tokens themselves,
    because kubectl runs them for each command."""

    def __init__(self, path: Path, context: str = "") -> None:
        self._path, self._context = path, context
        documents = read_yaml(path)  # says better than the client what is wrong with a file
        if not all(isinstance(document, dict) for document in documents):
            raise ConfigError(f"{path}: expected a kubeconfig: it is no mapping")
        try:
            found = _loaded(path, context)
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
        return _bearer(await _load(self._path, self._context)) if header is None else header


def current_namespace(path: Path, context: str = "") -> str:
    """The namespace that a context of a kubeconfig names, and ``default`` if it names none, as kubectl takes it.

    Args:
        path: The file.
        context: Which of its contexts; empty for the current one.

    Raises:
        ConfigError: there is no such context.
        ManifestError: the file cannot be read.
    """
    documents = [document for document in read_yaml(path) if isinstance(document, dict)]
    wanted = context or next(
        (document["current-context"] for document in documents if "current-context" in document), ""
    )
    found = [each for document in documents for each in _contexts(document)]
    named = next((each for each in found if each.get("name") == wanted), None)
    if named is None:
        if not context:
            return _DEFAULT
        there = ", ".join(str(each.get("name")) for each in found) or "none"
        raise ConfigError(f"{path}: there is no context {shorten(context)}; the contexts there are: {printable(there)}")
    chosen = named.get("context")
    namespace = chosen.get("namespace") if isinstance(chosen, dict) else None
    return namespace if isinstance(namespace, str) and namespace else _DEFAULT


def _contexts(document: dict[str, Any]) -> list[dict[str, Any]]:
    contexts = document.get("contexts")
    return [each for each in contexts if isinstance(each, dict)] if isinstance(contexts, list) else []


def _loaded(path: Path, context: str) -> Configuration:
    """What :func:`_load` returns, for callers that are not asynchronous, whether or not a loop runs in this thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _load(path, context)).result()


async def _load(path: Path, context: str) -> Configuration:
    found = Configuration()
    await load_kube_config(  # type: ignore[no-untyped-call]  # kubernetes has no annotations there
        str(path), context=context or None, client_configuration=found, persist_config=False
    )
    return found


def _bearer(found: Configuration) -> str:
    return (found.api_key.get("BearerToken") or "").strip()
