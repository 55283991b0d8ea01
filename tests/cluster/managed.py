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

from kubernetes.client import AdmissionregistrationV1Api

from tests.cluster.control_plane import ControlPlane
from tests.server.conftest import RunningServer, Starter


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
    """No server runs yet; at the end none does any more."""
    (directory / "servers").mkdir()
    starter = Starter(directory / "servers")
    try:
        yield Site(control_plane, namespace, directory, state, starter, name, config)
    finally:
        starter.stop_all()


def shown(server: RunningServer) -> str:
    """The certificate that it serves, PEM."""
    return ssl.get_server_certificate(("127.0.0.1", server.port))
