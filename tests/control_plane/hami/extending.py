"""Our scheduler extender, the schedulers that ask it, and nodes with a plain device plugin."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from kubernetes.client import CoordinationV1Api, CoreV1Api

from certs.certificate import encode, issue, new_authority
from tests.certs.test_live_context import signed
from tests.control_plane.control_plane import CERTIFICATE_LIFETIME, ControlPlane
from tests.control_plane.hami.cluster import Cluster
from tests.control_plane.hami.nodes import node_manifest, untaint
from tests.control_plane.hami.planning import Planner, placing
from tests.control_plane.installation import NAMESPACE
from tests.control_plane.kube_scheduler import running_kube_scheduler
from tests.ports import reserved_port
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.lease import lease_spec
from webhook.words.names import NODE
from webhook.words.node_names import config_map_name, node_label

DOCUMENT = Path(__file__).parents[3] / "docs" / "placement.md"
PLAIN = {"example.org/device-plugin": "nvidia"}
"""The label of nodes with a plain device plugin."""


@dataclass(frozen=True)
class ExtenderFiles:
    """Certificates of the extender and of a scheduler, and where the extender will listen."""

    directory: Path
    port: int

    @property
    def options(self) -> list[str | Path]:
        """Of the planner."""
        tls, clients = self.directory / "tls", self.directory / "clients.pem"
        return ["--extender-port", str(self.port), "--extender-tls", tls, "--extender-client-ca", clients]

    @property
    def before_hami(self) -> dict[str, Any]:
        """The entry of a KubeSchedulerConfiguration before HAMi's, as the document has it."""
        return self._documented("### Before HAMi's extender")

    @property
    def plain(self) -> dict[str, Any]:
        """The same beside a plain device plugin."""
        return self._documented("### With a plain device plugin")

    @property
    def silent(self) -> dict[str, Any]:
        """That one without a question, so that the scheduler passes over the same resources."""
        asked = {"filterVerb", "prioritizeVerb"}
        return {key: value for key, value in self.plain.items() if key not in asked}

    def _documented(self, heading: str) -> dict[str, Any]:
        """The first extender below a heading, at the address and with the files of this test."""
        block = DOCUMENT.read_text(encoding="utf-8").split(f"\n{heading}\n")[1].split("```yaml\n")[1].split("```")[0]
        entry: dict[str, Any] = yaml.safe_load(block)["extenders"][0]
        files = {"ca.crt": "serving.pem", "tls.crt": "client.crt", "tls.key": "client.key"}
        tls = {key: str(self.directory / files[Path(value).name]) for key, value in entry["tlsConfig"].items()}
        return entry | {"urlPrefix": f"https://127.0.0.1:{self.port}/scheduler", "tlsConfig": tls}


@contextmanager
def extender_files(directory: Path) -> Iterator[ExtenderFiles]:
    """The files, and a port that nothing else takes."""
    now = datetime.now(UTC)
    bundle = issue(("127.0.0.1",), now=now, lifetime=CERTIFICATE_LIFETIME)
    clients = new_authority(now=now, lifetime=CERTIFICATE_LIFETIME)
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.DNSName("kube-scheduler")])
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (directory / "tls").mkdir()
    for name, content in (
        ("tls/tls.crt", bundle.certificate),
        ("tls/tls.key", bundle.key),
        ("serving.pem", bundle.authority),
        ("clients.pem", encode([clients.certificate])),
        ("client.crt", signed(key, names, ExtendedKeyUsageOID.CLIENT_AUTH, clients)),
        ("client.key", pem),
    ):
        (directory / name).touch(mode=0o600)
        (directory / name).write_bytes(content)
    with reserved_port() as port:
        yield ExtenderFiles(directory, port)


@contextmanager
def extending(cluster: Cluster, files: ExtenderFiles) -> Iterator[Planner]:
    """A planner with the extender."""
    with placing(cluster.ours, files.directory, options=files.options) as planner:
        yield planner


@contextmanager
def scheduling(
    control_plane: ControlPlane, program: Path, directory: Path, name: str, extenders: Sequence[dict[str, Any]]
) -> Iterator[None]:
    """A kube-scheduler for pods of that ``schedulerName``, which asks these extenders."""
    place = directory / name
    place.mkdir()
    with running_kube_scheduler(program, control_plane.kubeconfig, place, name=name, extenders=extenders):
        yield


@contextmanager
def plain_nodes(control_plane: ControlPlane, *topologies: NodeTopology) -> Iterator[None]:
    """Nodes with NVIDIA's device plugin, which offers each card once, and what our agents publish of them."""
    with control_plane.client() as client, ExitStack() as stack:
        core, leases = CoreV1Api(client), CoordinationV1Api(client)
        for topology in topologies:
            name = config_map_name(topology.node)
            labels = {NODE: node_label(topology.node)}
            metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
            node = node_manifest(topology)
            node["metadata"]["annotations"] = {}
            node["metadata"]["labels"] |= PLAIN
            for amounts in (node["status"]["allocatable"], node["status"]["capacity"]):
                amounts["nvidia.com/gpu"] = str(len(topology.gpus))
            core.create_node(node)  # type: ignore[arg-type]  # a model, says its annotation
            stack.callback(core.delete_node, topology.node)
            untaint(core, topology.node)
            document: Any = {"metadata": metadata, "data": {"topology.json": format_topology(topology)}}
            core.create_namespaced_config_map(NAMESPACE, document)
            stack.callback(core.delete_namespaced_config_map, name, NAMESPACE)
            spec = lease_spec(topology.node, at=datetime.now(UTC), interval=3600.0)
            lease: Any = {"metadata": metadata, "spec": spec}
            leases.create_namespaced_lease(NAMESPACE, lease)
            stack.callback(leases.delete_namespaced_lease, name, NAMESPACE)
        yield


def answered(planner: Planner, verb: str, result: str = "judged") -> float:
    """How many questions of that kind the extender has answered."""
    head = f'gpu_topology_extender_requests_total{{result="{result}",verb="{verb}"}} '
    (line,) = [line for line in planner.metrics() if line.startswith(head)]
    return float(line.removeprefix(head))
