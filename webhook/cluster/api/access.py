"""The access to an API server: its address and our identity, from a kubeconfig or as a pod of the cluster."""

import ssl
from typing import Protocol


class Access(Protocol):
    """The data of a connection. A kubelet, or kubectl, may replace the files behind it while the program runs."""

    url: str
    """The URL of the API server, such as ``https://10.0.0.1:6443``."""
    tls_server_name: str | None
    """The name in the API server's certificate, if it differs from the host of the URL."""
    renew_seconds: float
    """The time between two calls of :meth:`authorization` while requests are made."""
    proxy: str | None
    """The URL of an HTTP proxy between us and the API server."""

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context of the next request: the trusted authorities, and the client certificate if any."""

    async def authorization(self) -> str:
        """Return the present value of the Authorization header; empty if a client certificate replaces it.

        Raises:
            OSError: a file cannot be read.
            ValueError: the text read is no token.
            Exception: any error that an exec plugin or an OIDC provider causes in the official client.
        """
