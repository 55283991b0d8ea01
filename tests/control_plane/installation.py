"""Our side as it is installed: two replicas behind a Service, certificates, roles, agents, the registration."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from kubernetes.client import AdmissionregistrationV1Api, CoreV1Api, V1Namespace, V1ObjectMeta

from certs.certificate import issue
from tests.chart.registration import installed_limits, installed_registration
from tests.control_plane.accounts import namespace_for_pods, permitted
from tests.control_plane.control_plane import CERTIFICATE_LIFETIME, REQUEST_TIMEOUT_S, ControlPlane
from tests.control_plane.manifests import apply
from tests.control_plane.processes import Program, running
from tests.control_plane.registration import create_pod, gpu_pod
from tests.control_plane.service import running_service
from tests.nvml.machines import Machine, write_machine
from tests.nvml.stub import environment_of
from tests.ports import reserved_port
from tests.programs.server.conftest import until
from webhook.cluster.api.permissions import AGENT, CLAIMS, PLANNER, WEBHOOK
from webhook.words.names import INJECT, INJECTION

NAMESPACE = "gpu-topology"
CONFIGURATION = "gpu-topology-webhook"
PLACEMENT: dict[str, Any] = {"mode": "on", "slices": "on", "fullSeconds": 5, "pinSeconds": 5, "releaseSeconds": 30}
"""Pods wait only while a planner runs, which tests of placement start. The times are short: stories wait for them."""
PROBED = "probed"
"""A namespace that has opted in, and in which nothing ever is."""


@dataclass
class Installation:
    """A running webhook.

    Attributes:
        control_plane: Where it is installed.
        url: Of the Service.
        authority: PEM, of the serving certificate.
        planner: A kubeconfig of the planner's account.
        replicas: The server processes that run, by their number.
    """

    control_plane: ControlPlane
    url: str
    authority: bytes
    directory: Path
    ports: Sequence[tuple[int, int]]
    kubeconfig: Path
    planner: Path
    replicas: dict[int, Program] = field(default_factory=dict)
    _running: dict[int, ExitStack] = field(default_factory=dict)

    def registration(self, name: str = CONFIGURATION, *, scheduler: str) -> dict[str, Any]:
        """The MutatingWebhookConfiguration of the chart, at an address in place of the Service.

        Args:
            name: Another one changes the order among webhooks.
            scheduler: User name of HAMi's scheduler.
        """
        chart = installed_registration(self.url, self.authority)
        bindings = next(webhook for webhook in chart["webhooks"] if webhook["name"].startswith("bindings."))
        (condition,) = bindings["matchConditions"]
        assert scheduler in condition["expression"], f"{scheduler} is none of the schedulers that the chart knows"
        return {"metadata": {"name": name}, "webhooks": chart["webhooks"]}

    def learn(self) -> None:
        """Returns once both replicas run and are ready; of what changes later they hear by watches."""
        missing = [number for number in range(len(self.ports)) if number not in self.replicas]
        for number in missing:
            self._begin(number)
        for number in missing:
            self._wait_for(number)

    def start(self, number: int, environment: Mapping[str, str] | None = None) -> None:
        """Returns once this replica, which does not run, is ready.

        Args:
            number: Of the replica.
            environment: Its variables; those of this process if there are none.

        Raises:
            NotRunningError: it ended or does not become ready.
        """
        self._begin(number, environment)
        self._wait_for(number)

    def kill(self, number: int) -> None:
        """Ends one replica with SIGKILL."""
        del self.replicas[number]
        self._running.pop(number).close()

    def _begin(self, number: int, environment: Mapping[str, str] | None = None) -> None:
        port, ops_port = self.ports[number]
        command: list[str | Path] = [sys.executable, "-m", "webhook", "serve", "--state", "kubernetes"]
        command += ["--namespace", NAMESPACE, "--kubeconfig", self.kubeconfig, "--tls", self.directory / "tls"]
        command += ["--config", self.directory / "config.yaml"]
        command += ["--host", "127.0.0.1", "--port", str(port), "--ops-port", str(ops_port)]
        log = self.directory / f"replica-{number}.log"
        stack = self._running[number] = ExitStack()
        self.replicas[number] = stack.enter_context(running(f"replica {number}", command, log, environment))

    def _wait_for(self, number: int) -> None:
        _, ops_port = self.ports[number]
        self.replicas[number].wait_until(lambda: _is_ready(ops_port))

    def metrics(self) -> list[list[str]]:
        """What each replica exposes, by lines."""
        return [self.replica_metrics(number) for number in range(len(self.ports))]

    def replica_metrics(self, number: int) -> list[str]:
        """What one replica exposes, by lines."""
        return _get(self.ports[number][1], "/metrics").text.splitlines()

    def is_asked(self) -> bool:
        """Whether the API server asks us about pods, or tries to."""
        refused = gpu_pod("probe", {INJECT: "neither"})  # by us alone, whatever serves the GPUs of the cluster
        return create_pod(self.control_plane, PROBED, refused, dry_run=True).status != httpx.codes.CREATED

    def stop(self) -> None:
        """Ends the replicas at once, as a crash of both would."""
        for number in list(self.replicas):
            self.kill(number)


@contextmanager
def installed(
    control_plane: ControlPlane,
    directory: Path,
    machines: Mapping[str, Machine],
    nvml: Path,
    *,
    hami: str,
    placement: Mapping[str, int] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[Installation]:
    """Roles with the policies that limit them, certificate, agents and replicas; the registration is up to the caller.

    Args:
        control_plane: Where.
        directory: Empty; takes certificates, configuration, logs.
        machines: What the agents of the nodes of these names find there.
        nvml: Directory of the stand-in for NVML.
        hami: Release of HAMi.
        placement: Of the section ``placement``, where it is other than in the tests.
        settings: More sections of the configuration.
    """
    with control_plane.client() as client:
        admin = CoreV1Api(client)
        admin.create_namespace(V1Namespace(metadata=V1ObjectMeta(name=NAMESPACE)))
        namespace_for_pods(admin, V1ObjectMeta(name=PROBED, labels={INJECTION: "enabled"}))
        with_claims = (settings or {}).get("claims", {}).get("enabled", False)
        allowed = (*WEBHOOK, *CLAIMS) if with_claims else WEBHOOK
        kubeconfig = permitted(admin, control_plane, NAMESPACE, "gpu-topology-webhook", allowed)
        agent = permitted(admin, control_plane, NAMESPACE, "agent", AGENT)
        planner = permitted(admin, control_plane, NAMESPACE, "gpu-topology-place", PLANNER)
    for one in installed_limits():
        assert apply(control_plane, one).status_code == httpx.codes.CREATED
    bundle = issue(("127.0.0.1",), now=datetime.now(UTC), lifetime=CERTIFICATE_LIFETIME)
    (directory / "tls").mkdir()
    for name, content in (("tls.crt", bundle.certificate), ("tls.key", bundle.key)):
        (directory / "tls" / name).touch(mode=0o600)
        (directory / "tls" / name).write_bytes(content)
    facts = {"hamiVersion": hami, "kubernetesVersion": "1.36"}
    (directory / "config.yaml").write_text(
        json.dumps(
            {
                "cluster": facts,
                "binding": {"readSeconds": REQUEST_TIMEOUT_S},
                "placement": {**PLACEMENT, **(placement or {})},
                **(settings or {}),
            }
        )
    )
    with ExitStack() as stack:
        for node, machine in machines.items():
            stack.enter_context(_running_agent(node, machine, directory, nvml, agent))
        ports = [(stack.enter_context(reserved_port()), stack.enter_context(reserved_port())) for _ in range(2)]
        port = stack.enter_context(running_service([port for port, _ in ports]))
        url = f"https://127.0.0.1:{port}"
        installation = Installation(control_plane, url, bundle.authority, directory, ports, kubeconfig, planner)
        stack.callback(installation.stop)
        installation.learn()
        yield installation


@contextmanager
def registered(ours: Installation, *configurations: dict[str, Any]) -> Iterator[None]:
    """MutatingWebhookConfigurations, ours among them, until the end.

    The API server learns of both their coming and their going by a watch, a moment after; this waits for it.
    """
    with ours.control_plane.client() as client, ExitStack() as stack:
        api = AdmissionregistrationV1Api(client)
        stack.callback(until, lambda: not ours.is_asked(), "an API server that has forgotten us")
        for body in configurations:
            api.create_mutating_webhook_configuration(body)  # type: ignore[arg-type]  # a model, says its annotation
            stack.callback(api.delete_mutating_webhook_configuration, body["metadata"]["name"])
        until(ours.is_asked, "an API server that asks us")
        yield


@contextmanager
def _running_agent(node: str, machine: Machine, directory: Path, nvml: Path, kubeconfig: Path) -> Iterator[None]:
    """An agent that finds this machine; it has published once this returns."""
    root = directory / f"root-of-{node}"
    environment = environment_of(nvml, write_machine(machine, root))
    with reserved_port() as port:
        command = [sys.executable, "-m", "webhook", "agent", "--node", node, "--namespace", NAMESPACE]
        command += ["--root", str(root), "--kubeconfig", str(kubeconfig), "--host", "127.0.0.1", "--port", str(port)]
        with running(f"agent of {node}", command, directory / f"agent-{node}.log", environment) as agent:
            agent.wait_until(lambda: _is_ready(port))
            yield


def _is_ready(port: int) -> bool:
    try:
        return _get(port, "/readyz").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def _get(port: int, path: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=REQUEST_TIMEOUT_S, trust_env=False)
