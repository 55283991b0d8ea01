"""Requests of a thread that waits for each answer: the care of certificates makes a few a minute.

A pod of the cluster makes them with the standard library, and a kubeconfig, which may name proxies, exec plugins and
OIDC, with the official client.
"""

import json
from collections.abc import Mapping, Sequence
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from time import monotonic
from urllib.parse import urlencode

from certs.api import Exchange
from webhook.kube.service_account import ServiceAccount
from webhook.kube.session import address
from webhook.kube.trust import tls_context

CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 7.0
KEPT_SECONDS = 5.0
"""How long a connection waits for the next request of the same round. Far below what ends an idle one elsewhere."""

Reply = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body."""


def find_exchange(kubeconfig: Path | None, *, user_agent: str) -> Exchange:
    """The way that a kubeconfig names or, without one, that of the cluster in which this program runs as a pod.

    Nothing is sent yet.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """
    if kubeconfig is None:
        return PodExchange(ServiceAccount(), user_agent=user_agent)
    # Loading the official client takes as long as the rest of the start.
    from webhook.kube.client_exchange import ClientExchange  # noqa: PLC0415
    from webhook.kube.configuration import load_configuration  # noqa: PLC0415

    return ClientExchange(load_configuration(kubeconfig), user_agent=user_agent)


class PodExchange:
    """:class:`certs.api.Exchange` of a pod, whose files the kubelet may replace at any time.

    Args:
        account: Of the pod.
        user_agent: How we name ourselves.

    Raises:
        ConfigError: address or certificates of the account cannot be used.
    """

    def __init__(self, account: ServiceAccount, *, user_agent: str) -> None:
        self._account = account
        self._address = address(account)
        self._headers = {"Accept": "application/json", "User-Agent": user_agent}
        self._connection: HTTPSConnection | None = None
        self._used = 0.0

    def send(self, method: str, path: str, query: Sequence[tuple[str, str]], body: object, content_type: str) -> Reply:
        """Make a request; :meth:`certs.api.Exchange.send`."""
        headers = {**self._headers, "Authorization": self._authorization()}
        if body is not None:
            headers["Content-Type"] = content_type
        target = f"{path}?{urlencode(query)}" if query else path
        connection = self._connected()
        try:
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read()
        except HTTPException as error:
            self.close()
            raise ConnectionError(f"{type(error).__name__}: {error}") from None
        except BaseException:
            self.close()
            raise
        self._used = monotonic()
        return response.status, dict(response.headers), data

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> HTTPSConnection:
        """A connection: that of the request before, if that was just now."""
        if self._connection is not None and monotonic() - self._used < KEPT_SECONDS:
            return self._connection
        self.close()
        host, port = self._address.host, self._address.port
        connection = HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=tls_context(self._account))
        connection.connect()
        connection.sock.settimeout(ANSWER_SECONDS)
        self._connection = connection
        return connection

    def _authorization(self) -> str:
        try:
            return self._account.get_api_key_with_prefix("BearerToken") or ""
        except ValueError as error:
            raise OSError(str(error)) from None
