"""Kueue's manager beside a cluster with HAMi: its kinds and webhooks as its own manifests have them, and its queues."""

import base64
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.hami.planning import is_ready
from tests.control_plane.manifests import applied, request
from tests.control_plane.processes import Program, running
from tests.ports import reserved_port

NAMESPACE, SECRET, SERVICE = "kueue-system", "kueue-webhook-server-cert", "kueue-webhook-service"
API = "kueue.x-k8s.io/v1beta2"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
ADMISSION, TOPOLOGY = "kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"
ALSO_ASKED = ("nvidia.com/gpumem", "nvidia.com/gpucores")
"""Resources in the pods of HAMi that no node has. The first begins the name of a third."""
CONVERTED = frozenset({"localqueues", "clusterqueues", "workloads", "cohorts", "multikueueclusters"})
"""Kinds whose definition Kueue expects to have a webhook of its own for conversion (pkg/util/cert/cert.go)."""


@dataclass(frozen=True)
class Kueue:
    """A manager that runs."""

    program: Program
    control_plane: ControlPlane

    def queue(self, namespace: str, *, cards: int, on: Mapping[str, str] | None = None, stopped: bool = False) -> str:
        """Gives the name of a queue of the namespace for so many cards.

        Args:
            namespace: Whose pods it takes.
            cards: Quota of ``nvidia.com/gpu``.
            on: Labels of nodes, by whose names Kueue places pods (topology-aware scheduling).
            stopped: Whether it admits nothing for now.
        """
        flavor: dict[str, Any] = {"nodeLabels": on, "topologyName": "hosts"} if on else {}
        if on:
            self._apply("Topology", "hosts", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]})
        self._apply("ResourceFlavor", f"{namespace}-cards", flavor)
        # An injected pod also asks for CPU and memory, for the remap container.
        amounts = {"nvidia.com/gpu": cards, "cpu": 100, "memory": "1Ti"}
        quotas = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
        quota = {"name": f"{namespace}-cards", "resources": quotas}
        queue: dict[str, Any] = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": list(amounts), "flavors": [quota]}],
            "stopPolicy": "Hold" if stopped else "None",
        }
        self._apply("ClusterQueue", namespace, queue)
        self._apply("LocalQueue", "team", {"clusterQueue": namespace}, namespace)
        return "team"

    def workload(self, namespace: str) -> dict[str, Any]:
        """The only Workload of a namespace; empty if there is none."""
        path = f"/apis/{API}/namespaces/{namespace}/workloads"
        found: list[dict[str, Any]] = request(self.control_plane, "GET", path).json()["items"]
        assert len(found) <= 1, [each["metadata"]["name"] for each in found]
        return found[0] if found else {}

    def condition(self, namespace: str, kind: str) -> dict[str, Any]:
        """A condition of the only Workload; empty if it has none of this type."""
        conditions = self.workload(namespace).get("status", {}).get("conditions", ())
        return next((each for each in conditions if each["type"] == kind), {})

    def _apply(self, kind: str, name: str, spec: Mapping[str, Any], namespace: str = "") -> None:
        metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
        applied(self.control_plane, {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec})


@contextmanager
def running_kueue(
    control_plane: ControlPlane,
    executable: Path,
    sources: Path,
    directory: Path,
    *,
    ready_within: str = "",
    excluded: tuple[str, ...] = ALSO_ASKED,
) -> Iterator[Kueue]:
    """Kueue's manager for Jobs and plain pods, as the administrator; its webhooks are gone in the end.

    Args:
        control_plane: Where.
        executable: The manager.
        sources: The module, which has its manifests.
        directory: Takes certificate, configuration and log.
        ready_within: How long admitted pods may take until they are ready (``waitForPodsReady``); empty: any time.
        excluded: How names of resources begin that need no quota.
    """
    with ExitStack() as stack:
        webhooks, health = stack.enter_context(reserved_port()), stack.enter_context(reserved_port())
        _make_certificate(directory)
        stack.callback(_remove_webhooks, control_plane)
        _install(control_plane, sources / "config" / "components", f"https://127.0.0.1:{webhooks}", directory)
        config = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"port": webhooks, "host": "127.0.0.1", "certDir": str(directory)},
            "leaderElection": {"leaderElect": False},
            "integrations": {"frameworks": ["batch/job", "pod"]},
            "resources": {"excludeResourcePrefixes": list(excluded)},
        }
        if ready_within:
            # Once evicted, a workload stays away for longer than a test lasts.
            back = {"timestamp": "Eviction", "backoffBaseSeconds": 600}
            config["waitForPodsReady"] = {"timeout": ready_within, "requeuingStrategy": back}
        file = directory / "kueue.yaml"
        file.write_text(json.dumps(config), encoding="utf-8")
        command: list[str | Path] = [executable, "--config", file, "--feature-gates=VisibilityOnDemand=false"]
        environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}
        program = stack.enter_context(running("kueue", command, directory / "kueue.log", environment))
        program.wait_until(lambda: is_ready(health))
        yield Kueue(program, control_plane)


def _install(control_plane: ControlPlane, components: Path, url: str, directory: Path) -> None:
    """Kinds, Secret and webhooks; in place of their Service stands an address of this machine."""
    certificate, key = (base64.b64encode((directory / name).read_bytes()).decode() for name in ("tls.crt", "tls.key"))
    applied(control_plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for file in sorted((components / "crd" / "bases").iterdir()):
        definition = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
        if definition["spec"]["names"]["plural"] in CONVERTED:
            client = {"url": f"{url}/convert", "caBundle": certificate}
            webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
            definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        applied(control_plane, definition)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": NAMESPACE}}
    data = {"ca.crt": certificate, "ca.key": key, "tls.crt": certificate, "tls.key": key}
    applied(control_plane, secret | {"data": data})
    text = (components / "webhook" / "manifests.yaml").read_text(encoding="utf-8")
    for registration in yaml.safe_load_all(text):
        registration["metadata"]["name"] = f"kueue-{registration['metadata']['name']}"
        for webhook in registration["webhooks"]:
            webhook["clientConfig"] = {"url": url + webhook["clientConfig"]["service"]["path"], "caBundle": certificate}
        applied(control_plane, registration)


def _make_certificate(directory: Path) -> None:
    """One that is its own authority, with the names that Kueue looks for (cert-controller pkg/rotator/rotator.go).

    It makes another authority where one of them is missing, and that knows no address of this machine. It reads a key
    of RSA only.
    """
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kueue-ca")])
    names = [x509.DNSName(each) for each in ("kueue-ca", f"{SERVICE}.{NAMESPACE}.svc")]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName([*names, x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, pkcs1 = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    (directory / "tls.key").touch(mode=0o600)
    (directory / "tls.key").write_bytes(key.private_bytes(pem, pkcs1, serialization.NoEncryption()))
    (directory / "tls.crt").write_bytes(certificate.public_bytes(pem))


def _remove_webhooks(control_plane: ControlPlane) -> None:
    """No object waits for a manager that is gone."""
    for kind in ("mutating", "validating"):
        name = f"{kind}webhookconfigurations/kueue-{kind}-webhook-configuration"
        request(control_plane, "DELETE", f"/apis/admissionregistration.k8s.io/v1/{name}")
