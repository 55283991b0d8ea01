"""How an API server is reached and who we are to it: by a kubeconfig, or as a pod of the cluster."""

import ssl
from pathlib import Path
from typing import Protocol

from webhook.kube.contexts import Context, Where
from webhook.kube.service_account import ServiceAccount
from webhook.model.errors import ConfigError


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


def find_access(where: Where) -> Access:
    """What a kubeconfig says or, without one, what the cluster tells a program that runs in it as a pod.

    Args:
        where: Which cluster.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """
    if where is None:
        return ServiceAccount()
    context = Context((where,)) if isinstance(where, Path) else where
    # The official client knows exec plugins and OIDC. It takes 45 MiB, which a pod of the cluster does without.
    try:
        from webhook.kube.kubeconfig import Kubeconfig  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"{context.source}: a kubeconfig needs the Python package {missing.name}, which the image does not have. "
            "Run this where gpu-topology is installed with pip"
        ) from None
    return Kubeconfig(context)
