"""API servers that show a client certificate, as docs/operations.md sets them up, and one that shows none."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from kubernetes.client import AdmissionregistrationV1Api, CoreV1Api, V1ObjectMeta

from certs.certificate import Authority, encode, new_authority
from tests.certs.test_live_context import signed
from tests.control_plane.accounts import namespace_for_pods
from tests.control_plane.control_plane import (
    CERTIFICATE_LIFETIME,
    Binaries,
    ControlPlane,
    StartableControlPlane,
    startable_control_plane,
)
from tests.control_plane.registration import create_pod, gpu_pod, registration, wait_until_asked, write_state
from tests.hardware.topology.machines import h20
from tests.programs.server.conftest import RunningServer, Starter, until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

NAMESPACE = "team"


@dataclass
class Clients:
    """Files of the API server's certificate, and of the authority that the webhook believes."""

    directory: Path

    @property
    def authority(self) -> Path:
        return self.directory / "authority.pem"

    @property
    def options(self) -> tuple[str, ...]:
        """Of the API server."""
        return (f"--admission-control-config-file={self.directory / 'admission.yaml'}",)

    def demand(self, *authorities: Authority) -> None:
        self.authority.write_bytes(encode([each.certificate for each in authorities]))

    def show(self, authority: Authority) -> None:
        """The next API server that starts has a new certificate of this authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage, names = ExtendedKeyUsageOID.CLIENT_AUTH, x509.SubjectAlternativeName([x509.DNSName("kube-apiserver")])
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (self.directory / "client.crt").write_bytes(signed(key, names, usage, authority))
        (self.directory / "client.key").touch(mode=0o600)
        (self.directory / "client.key").write_bytes(pem)

    def configure(self, host: str) -> None:
        """What the API server reads, with this certificate for the webhook at ``host``."""
        user = {
            "client-certificate": str(self.directory / "client.crt"),
            "client-key": str(self.directory / "client.key"),
        }
        kubeconfig = {"apiVersion": "v1", "kind": "Config", "users": [{"name": host, "user": user}]}
        version = "apiserver.config.k8s.io/v1"
        webhooks = {
            "apiVersion": version,
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(self.directory / "webhooks.kubeconfig"),
        }
        plugin = {"name": "MutatingAdmissionWebhook", "configuration": webhooks}
        admission = {"apiVersion": version, "kind": "AdmissionConfiguration", "plugins": [plugin]}
        (self.directory / "webhooks.kubeconfig").write_text(json.dumps(kubeconfig))
        (self.directory / "admission.yaml").write_text(json.dumps(admission))


@pytest.fixture
def clients(tmp_path: Path) -> Clients:
    (tmp_path / "clients").mkdir()
    return Clients(tmp_path / "clients")


def test_reviews_work_with_a_certificate_and_go_on_while_its_authority_is_replaced(
    binaries: Binaries, clients: Clients, tmp_path: Path
) -> None:
    old, new = (new_authority(now=datetime.now(UTC), lifetime=CERTIFICATE_LIFETIME) for _ in range(2))
    clients.demand(old)
    clients.show(old)
    (tmp_path / "plane").mkdir()
    with (
        startable_control_plane(binaries, tmp_path / "plane", *clients.options) as plane,
        _serving(clients, plane.control_plane, tmp_path) as server,
    ):
        clients.configure(f"127.0.0.1:{server.port}")
        plane.start()
        _register(plane.control_plane, server)
        wait_until_asked(plane.control_plane, NAMESPACE)

        clients.demand(old, new)
        _wait_until_read(server, 1)
        clients.show(new)
        _restart(plane)
        assert _answer(plane.control_plane) == ""

        clients.demand(new)
        _wait_until_read(server, 2)
        _restart(plane)
        assert _answer(plane.control_plane) == ""

        clients.show(old)
        _restart(plane)
        assert "failed calling webhook" in _answer(plane.control_plane)


def test_an_api_server_without_a_certificate_gets_no_answer(
    control_plane: ControlPlane, namespace: str, clients: Clients, tmp_path: Path
) -> None:
    clients.demand(new_authority(now=datetime.now(UTC), lifetime=CERTIFICATE_LIFETIME))
    with _serving(clients, control_plane, tmp_path, namespace) as server, control_plane.client() as client:
        api = AdmissionregistrationV1Api(client)
        body: Any = registration(server, namespace)
        api.create_mutating_webhook_configuration(body)
        try:
            until(lambda: "failed calling webhook" in _answer(control_plane, namespace), "a refusal")
            assert server.probe("/readyz").status_code == 200
        finally:
            api.delete_mutating_webhook_configuration(body["metadata"]["name"])


@contextmanager
def _serving(
    clients: Clients, control_plane: ControlPlane, directory: Path, namespace: str = NAMESPACE
) -> Iterator[RunningServer]:
    """A server that demands a certificate of its clients."""
    (directory / "servers").mkdir()
    starter = Starter(directory / "servers")
    state = write_state(directory / "state", namespace, h20(), {})
    try:
        config = f"server: {{clientAuthority: {clients.authority}}}"
        yield starter("--kubeconfig", str(control_plane.kubeconfig), state=state, config=config)
    finally:
        starter.stop_all()


def _register(control_plane: ControlPlane, server: RunningServer) -> None:
    with control_plane.client() as client:
        core = CoreV1Api(client)
        namespace_for_pods(core, V1ObjectMeta(name=NAMESPACE))
        body: Any = registration(server, NAMESPACE)
        AdmissionregistrationV1Api(client).create_mutating_webhook_configuration(body)


def _wait_until_read(server: RunningServer, times: int) -> None:
    """Until the server has read another authority so often."""
    until(
        lambda: sum(one.get("did") == "demanding" for one in server.lines("certificates")) == times, "another authority"
    )


def _restart(plane: StartableControlPlane) -> None:
    """As a kubelet does when the files of the API server change; connections to webhooks end."""
    plane.stop()
    plane.start()


def _answer(control_plane: ControlPlane, namespace: str = NAMESPACE) -> str:
    """Why the API server refuses a pod; empty for one that was injected."""
    answer = create_pod(control_plane, namespace, gpu_pod("probe", {}), dry_run=True)
    if answer.status == 201 and "gpu.topology/injected" in answer.body["metadata"].get("annotations", {}):
        return ""
    return answer.message or "not injected"
