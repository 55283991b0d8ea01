"""Servers that look after their certificates by themselves, and what the API server is told of them."""

import base64
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.client import AdmissionregistrationV1Api, ApiClient, CoreV1Api

from tests.control_plane.control_plane import ControlPlane
from tests.programs.server.conftest import RunningServer, Starter
from webhook.words.names import CERTIFICATES_TYPE


@dataclass
class Site:
    """One installation.

    Attributes:
        namespace: Where the Secret with the certificates is.
        state: As the option ``--state`` takes it.
        name: Of the MutatingWebhookConfiguration; whose caBundle the servers write.
        config: Of servers and command line, YAML.
    """

    control_plane: ControlPlane
    namespace: str
    directory: Path
    state: Path
    starter: Starter
    name: str
    config: str

    def start(self, *, kubeconfig: Path | None = None, ready: bool = True) -> RunningServer:
        """One more server, with the administrator's rights unless there is another kubeconfig."""
        arguments = ("--namespace", self.namespace, "--kubeconfig", str(kubeconfig or self.control_plane.kubeconfig))
        return self.starter(*arguments, state=self.state, config=self.config, ready=ready, managed=True)

    def bundle(self) -> bytes:
        """The caBundle, PEM."""
        with self.control_plane.client() as client:
            found: Any = AdmissionregistrationV1Api(client).read_mutating_webhook_configuration(self.name)
        return base64.b64decode(found.webhooks[0].client_config.ca_bundle or "")

    def certs(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What ``gpu-topology certs`` says to these arguments."""
        config = self.directory / "certs.yaml"
        config.write_text(self.config)
        command = [sys.executable, "-m", "webhook", "certs", *arguments, "--namespace", self.namespace]
        command += ["--kubeconfig", str(self.control_plane.kubeconfig), "--config", str(config)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@contextmanager
def managed_site(
    control_plane: ControlPlane, namespace: str, directory: Path, state: Path, name: str, config: str
) -> Iterator[Site]:
    """An empty Secret is there, and no server runs yet; at the end none does any more."""
    with control_plane.client() as client:
        make_secret(client, namespace)
    (directory / "servers").mkdir()
    starter = Starter(directory / "servers")
    try:
        yield Site(control_plane, namespace, directory, state, starter, name, config)
    finally:
        starter.stop_all()


def make_secret(client: ApiClient, namespace: str) -> None:
    """Without values, as the chart makes it."""
    secret: Any = {"metadata": {"name": "gpu-topology-webhook-tls"}, "type": CERTIFICATES_TYPE}
    CoreV1Api(client).create_namespaced_secret(namespace, secret)


def shown(server: RunningServer) -> str:
    """The certificate that it serves, PEM."""
    return ssl.get_server_certificate(("127.0.0.1", server.port))
