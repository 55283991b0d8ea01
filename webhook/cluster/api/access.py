"""How an API server is reached and who we are to it: by a kubeconfig, or as a pod of the cluster."""

import ssl
from typing import Protocol


class Access(Protocol):
    """What a connection needs. A kubelet, or kubectl, may replace the files behind it while the program runs."""

    url: str
    """Of the API server, such as ``https://10.0.0.1:6443``."""
    tls_server_name: str | None
    """The name in its certificate, if it is not that of the URL."""
    renew_seconds: float
    """So often :meth:`authorization` is asked while requests are made."""
    proxy: str | None
    """URL of an HTTP proxy between us and the API server."""

    def tls(self) -> ssl.SSLContext:
        """For the next request: whom to trust, and the client certificate if there is one."""

    async def authorization(self) -> str:
        """The value of the Authorization header as it is now; empty where a client certificate does.

        Raises:
            OSError: a file cannot be read.
            ValueError: what was read is no token.
            Exception: whatever an exec plugin or an OIDC provider makes the official client raise.
        """
