"""The whole program: its certificate, and then its authority, are replaced under load, and no review fails."""

import base64
import itertools
import signal
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import AdmissionregistrationV1Api, CoreV1Api
from kubernetes.client.exceptions import NotFoundException

from certs.certificate import load_authorities
from tests.chart.registration import PATIENCE_S
from tests.cli.command import Done, gpu_topology
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import create_pod, gpu_pod, make_secret, write_state
from tests.figures import ShowFigures
from tests.hardware.topology.machines import h20
from tests.pods import pod
from tests.programs.server.asgi import review
from tests.programs.server.conftest import RunningServer, Starter, until

pytestmark = pytest.mark.cluster

SETTLE_S = 8.0
CLIENTS = 3
"""Of each kind."""


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

    def certs(self, *arguments: str) -> Done:
        """What ``gpu-topology certs`` says to these arguments."""
        config = self.directory / "certs.yaml"
        config.write_text(self.config)
        place = ("--namespace", self.namespace, "--kubeconfig", self.control_plane.kubeconfig, "--config", config)
        return gpu_topology("certs", *arguments, *place)


@pytest.fixture
def site(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Site]:
    """An empty Secret is there, and no server runs yet; at the end none does any more."""
    name = f"rotation-{namespace}"
    config = (
        f"certificates: {{webhookConfiguration: {name}, additionalNames: [127.0.0.1],"
        f" checkSeconds: 1, settleSeconds: {SETTLE_S}, overlapSeconds: {SETTLE_S}}}"
    )
    state = write_state(tmp_path / "state", namespace, h20(), {})
    (tmp_path / "servers").mkdir()
    starter = Starter(tmp_path / "servers")
    with control_plane.client() as client:
        make_secret(client, namespace)
        try:
            yield Site(control_plane, namespace, tmp_path, state, starter, name, config)
        finally:
            starter.stop_all()
            api = AdmissionregistrationV1Api(client)
            with suppress(NotFoundException):
                api.delete_mutating_webhook_configuration(name)


def shown(server: RunningServer) -> str:
    """The certificate that it serves, PEM."""
    return ssl.get_server_certificate(("127.0.0.1", server.port))


def register(site: Site, server: RunningServer) -> None:
    """The API server asks this server; the caBundle is not ours to write."""
    body: Any = {
        "metadata": {"name": site.name},
        "webhooks": [
            {
                "name": "pods.gpu.topology",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "NoneOnDryRun",
                "failurePolicy": "Fail",
                "timeoutSeconds": PATIENCE_S,
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}},
                "clientConfig": {"url": f"{server.url}/mutate/pods"},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            }
        ],
    }
    with site.control_plane.client() as client:
        AdmissionregistrationV1Api(client).create_mutating_webhook_configuration(body)


@dataclass
class Load:
    """Clients that go on until they are told to stop, and what became of their requests."""

    stop: threading.Event = field(default_factory=threading.Event)
    done: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    connections: list[HTTPSConnection] = field(default_factory=list)

    def run(self, kind: str, once: Callable[[], None]) -> None:
        def go() -> None:
            while not self.stop.is_set():
                try:
                    once()
                    self.done[kind] = self.done.get(kind, 0) + 1
                except (OSError, HTTPException, AssertionError) as error:
                    self.failed.append(f"{kind}: {error!r}")

        self.threads.append(threading.Thread(target=go))
        self.threads[-1].start()

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()
        for connection in self.connections:
            connection.close()


def post(connection: HTTPSConnection) -> None:
    connection.request("POST", "/mutate/pods", body=review(pod()))
    answer = connection.getresponse()
    assert answer.status == 200
    assert b'"allowed":true' in answer.read()


class Trusting:
    """A client that believes the caBundle as it was up to ``SETTLE_S`` ago, as a slow API server does."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._context: ssl.SSLContext | None = None
        self._until = 0.0

    def context(self) -> ssl.SSLContext:
        if self._context is None or time.monotonic() >= self._until:
            self._until = time.monotonic() + 0.8 * SETTLE_S
            self._context = ssl.create_default_context(cadata=self._site.bundle().decode())
        return self._context


@pytest.mark.long
def test_no_review_fails_while_the_certificate_and_then_the_authority_rotate(
    site: Site, show_figures: ShowFigures
) -> None:
    servers = [site.start(), site.start()]
    register(site, servers[0])
    until(lambda: site.bundle() != b"", "a caBundle")
    until(lambda: "gpu.topology/injected" in str(create(site, 0, dry_run=True).body), "a pod that our webhook has seen")
    load = Load()
    try:
        for number in range(2 * CLIENTS):
            server, trusting = servers[number % 2], Trusting(site)
            load.run("keep-alive", keep_alive(server, trusting, load.connections))
            load.run("fresh", fresh(server, trusting))
        numbers = itertools.count()
        load.run("created", lambda: check_created(create(site, next(numbers), dry_run=False)))
        time.sleep(1)
        first = {shown(server) for server in servers}
        assert len(first) == 1
        seen = [first]
        old = load_authorities(site.bundle())
        for arguments in (("rotate",), ("rotate",), ("rotate", "--authority")):
            said = site.certs(*arguments)
            assert (said.code, said.err) == (0, "")
            until(lambda: all(shown(server) not in seen[-1] for server in servers), "a new certificate")
            seen.append({shown(server) for server in servers})
        until(lambda: len(load_authorities(site.bundle())) == 1, "the end of the overlap")
        assert load_authorities(site.bundle()) != old
        time.sleep(SETTLE_S)
    finally:
        load.end()
    assert load.failed == []
    assert all(load.done[kind] > 20 for kind in ("keep-alive", "fresh", "created")), load.done
    until(lambda: sorted(leads(server) for server in servers) == [False, True], "one leader")
    with show_figures():
        print(f"\nrotation under load: {load.done}, failed: {len(load.failed)}")
    for server in servers:
        assert "PRIVATE KEY" not in server.out.read_text() + server.err.read_text()
        assert server.stop(signal.SIGTERM) == 0


def leads(server: RunningServer) -> bool:
    """Whether its metrics say that it renews the certificates of all, and that this never failed."""
    lines = server.probe("/metrics").text.splitlines()
    assert "gpu_topology_certificate_failures_total 0.0" in lines
    return "gpu_topology_certificate_leader 1.0" in lines


def keep_alive(server: RunningServer, trusting: Trusting, opened: list[HTTPSConnection]) -> Callable[[], None]:
    connection = HTTPSConnection("127.0.0.1", server.port, context=trusting.context(), timeout=20)
    connection.connect()
    first = connection.sock
    opened.append(connection)

    def once() -> None:
        post(connection)
        assert connection.sock is first
        time.sleep(0.01)

    return once


def fresh(server: RunningServer, trusting: Trusting) -> Callable[[], None]:
    def once() -> None:
        connection = HTTPSConnection("127.0.0.1", server.port, context=trusting.context(), timeout=20)
        try:
            post(connection)
        finally:
            connection.close()
        time.sleep(0.02)

    return once


def create(site: Site, number: int, *, dry_run: bool) -> Any:
    return create_pod(site.control_plane, site.namespace, gpu_pod(f"train-{number}", {}), dry_run=dry_run)


def check_created(answer: Any) -> None:
    assert answer.status == 201, answer.message
    assert "gpu.topology/injected" in answer.body["metadata"]["annotations"]


@pytest.mark.long
def test_a_server_waits_unready_for_a_secret_that_is_not_its_own_and_stops_when_it_is_told_to(site: Site) -> None:
    with site.control_plane.client() as client:
        body: Any = {"metadata": {"name": "gpu-topology-webhook-tls"}, "type": "Opaque"}
        CoreV1Api(client).delete_namespaced_secret("gpu-topology-webhook-tls", site.namespace)
        CoreV1Api(client).create_namespaced_secret(site.namespace, body)
        server = site.start(ready=False)
        until(
            lambda: b"expected type gpu.topology/certificates, found one of type Opaque" in server.out.read_bytes(),
            "it",
        )
        assert server.probe("/healthz").status_code == 200
        assert (server.probe("/readyz").status_code, server.probe("/readyz").json()) == (503, {"status": "starting"})
        with pytest.raises(ConnectionRefusedError, match="refused"):
            shown(server)
        CoreV1Api(client).delete_namespaced_secret("gpu-topology-webhook-tls", site.namespace)
        until(lambda: b"has no right to make one. Make it: helm upgrade, or kubectl" in server.out.read_bytes(), "it")
        make_secret(client, site.namespace)
    until(server.is_ready, "readiness")
    waiting = site.start(ready=True)
    assert shown(waiting) == shown(server)
    assert server.stop(signal.SIGTERM) == 0
