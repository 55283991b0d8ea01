"""How an API server is reached and who we are to it: by a kubeconfig, or as a pod of the cluster."""

from pathlib import Path
from typing import Protocol

from webhook.kube.service_account import ServiceAccount


class Access(Protocol):
    """What a connection needs, by the names that the official client's ``Configuration`` gives it, which is one."""

    host: str
    """The URL."""
    ssl_ca_cert: str | None
    """File of the authorities to trust."""
    ca_cert_data: str | bytes | None
    """The same, if it is not in a file."""
    cert_file: str | None
    key_file: str | None
    verify_ssl: bool
    assert_hostname: bool | None
    tls_server_name: str | None
    """The name in its certificate, if it is not that of the URL."""
    proxy: str | None
    no_proxy: str | None
    """Hosts that are reached without the proxy, with commas between them."""

    def get_api_key_with_prefix(self, identifier: str) -> str | None:
        """The Authorization header of now, for ``BearerToken``; nothing where a client certificate does."""


def find_access(kubeconfig: Path | None) -> Access:
    """What a kubeconfig says or, without one, what the cluster tells a program that runs in it as a pod.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """
    if kubeconfig is None:
        return ServiceAccount()
    # The official client knows exec plugins and OIDC, and is 30 MB that a pod of the cluster does without.
    from webhook.kube.configuration import load_configuration  # noqa: PLC0415

    return load_configuration(kubeconfig)
