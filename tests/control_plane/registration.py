"""Our server, registered at the API server as a chart would register it."""

import base64
import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
from kubernetes.client import AdmissionregistrationV1Api, ApiClient, CoreV1Api, V1ObjectMeta

from tests.chart.registration import PATIENCE_S
from tests.control_plane.accounts import namespace_for_pods
from tests.control_plane.control_plane import REQUEST_TIMEOUT_S, ControlPlane
from tests.hardware.topology.machines import h20
from tests.programs.server.conftest import RunningServer, Starter, until
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.words.names import CERTIFICATES_TYPE

PATIENT = f"binding: {{readSeconds: {REQUEST_TIMEOUT_S}}}\n"
MOST_TESTS_OF_A_MODULE = 20
PERMISSIONS = {f"gpu.topology/allow-{what}": "true" for what in ("host-ipc", "host-pid", "node-gpus")}
ENFORCE = "pod-security.kubernetes.io/enforce"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What Pod Security level restricted wants of a container: kubernetes.io, "Pod Security Standards"."""


def gpu_container(name: str = "worker", gpus: int = 2, **fields: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {"name": name, "image": "x", "resources": resources, "securityContext": RESTRICTED} | fields


def gpu_pod(name: str, annotations: Mapping[str, str], *containers: dict[str, Any], **labels: str) -> dict[str, Any]:
    """For HAMi's scheduler; one container of two GPUs if none is given."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations), "labels": labels},
        "spec": {"schedulerName": "hami-scheduler", "containers": list(containers) or [gpu_container()]},
    }


@dataclass(frozen=True)
class Answer:
    """What the API server said to a request."""

    status: int
    body: Any
    warnings: list[str]

    @property
    def message(self) -> str:
        """Why not."""
        return str(self.body.get("message", ""))


def create_pod(control_plane: ControlPlane, namespace: str, pod: dict[str, Any], *, dry_run: bool = False) -> Answer:
    """Create the pod as the administrator, and hear the warnings, which the client keeps to itself."""
    config = json.loads(control_plane.kubeconfig.read_text())
    trust = ssl.create_default_context(cafile=control_plane.ca_file)
    answer = httpx.post(
        f"{control_plane.url}/api/v1/namespaces/{namespace}/pods",
        params={"dryRun": "All"} if dry_run else {},
        headers={"Authorization": f"Bearer {config['users'][0]['user']['token']}"},
        json=pod,
        verify=trust,
        trust_env=False,
        timeout=REQUEST_TIMEOUT_S,
    )
    return Answer(answer.status_code, answer.json(), answer.headers.get_list("Warning"))


def created(control_plane: ControlPlane, namespace: str, pod: dict[str, Any]) -> Any:
    """The pod as the API server stored it; it must accept it."""
    answer = create_pod(control_plane, namespace, pod)
    assert answer.status == 201, answer.message
    return answer.body


@contextmanager
def registered(
    control_plane: ControlPlane,
    namespace: str,
    directory: Path,
    *,
    config: str = "",
    topology: NodeTopology | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Iterator[RunningServer]:
    """A server that answers for one namespace, once the API server asks it.

    Args:
        control_plane: Where it is registered.
        namespace: Whose pods it is asked about; exists already.
        directory: For its files.
        config: Its configuration, YAML.
        topology: Of the only node.
        labels: More labels of the namespace, in the eyes of the server.
        annotations: Its annotations, in the eyes of the server.
    """
    state = write_state(directory / "state", namespace, topology or h20(), labels or {}, annotations or {})
    with _asked(control_plane, [namespace], directory, state, config) as server:
        yield server


@dataclass(frozen=True)
class Served:
    """One server for the tests of a module, each of which has a namespace of its own."""

    server: RunningServer
    unused: Iterator[str]

    def namespace(self) -> str:
        """The name of a namespace that no test has had."""
        return next(self.unused)


@contextmanager
def served(
    control_plane: ControlPlane, directory: Path, *, config: str = "", labels: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """A server that answers for many new namespaces, because the start of one takes seconds.

    Args:
        control_plane: Where it is registered.
        directory: For its files.
        config: Its configuration, YAML.
        labels: More labels of the namespaces, in the eyes of the server.
    """
    with control_plane.client() as client:
        admin = CoreV1Api(client)
        namespaces = [
            namespace_for_pods(admin, V1ObjectMeta(generate_name="served-")) for _ in range(MOST_TESTS_OF_A_MODULE)
        ]
    for namespace in namespaces:
        state = write_state(directory / "state", namespace, h20(), labels or {})
    with _asked(control_plane, namespaces, directory, state, config) as server:
        yield Served(server, iter(namespaces))


@contextmanager
def _asked(
    control_plane: ControlPlane,
    namespaces: Sequence[str],
    directory: Path,
    state: Path,
    config: str,
) -> Iterator[RunningServer]:
    """A server with this state, once the API server asks it about the namespaces."""
    starter = Starter(directory)
    try:
        server = starter("--kubeconfig", str(control_plane.kubeconfig), state=state, config=f"{PATIENT}{config}")
        with control_plane.client() as client:
            api = AdmissionregistrationV1Api(client)
            body: Any = registration(server, *namespaces)
            api.create_mutating_webhook_configuration(body)
            try:
                wait_until_asked(control_plane, namespaces[0])
                yield server
            finally:
                api.delete_mutating_webhook_configuration(body["metadata"]["name"])
    finally:
        starter.stop_all()


def write_state(
    directory: Path,
    namespace: str,
    topology: NodeTopology,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """The state directory of a cluster with one node and this namespace, beside those that were written before."""
    for part in ("namespaces", "nodes"):
        (directory / part).mkdir(parents=True, exist_ok=True)
    all_labels = {"gpu.topology/injection": "enabled", **PERMISSIONS, **labels}
    metadata = {"name": namespace, "labels": all_labels, "annotations": dict(annotations)}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    (directory / "namespaces" / f"{namespace}.yaml").write_text(json.dumps(manifest), encoding="utf-8")
    (directory / "nodes" / f"{topology.node}.json").write_text(format_topology(topology), encoding="utf-8")
    (directory / "cluster.yaml").write_text('hamiVersion: "2.9.0"\nkubernetesVersion: "1.36"\n', encoding="utf-8")
    return directory


def registration(server: RunningServer, *namespaces: str) -> dict[str, Any]:
    """The webhooks as a chart would register them, at an address in place of a Service."""
    common = {
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "failurePolicy": "Fail",
        "timeoutSeconds": PATIENCE_S,
        "namespaceSelector": {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)},
            ],
        },
    }

    def webhook(name: str, path: str, resources: list[str]) -> dict[str, Any]:
        authority = base64.b64encode(server.authority.read_bytes()).decode()
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": resources}
        client = {"url": f"{server.url}{path}", "caBundle": authority}
        return common | {"name": name, "clientConfig": client, "rules": [rule]}

    return {
        "metadata": {"name": f"gpu-topology-webhook-{namespaces[0]}"},
        "webhooks": [
            webhook("pods.gpu.topology", "/mutate/pods", ["pods"]) | {"reinvocationPolicy": "IfNeeded"},
            webhook("bindings.gpu.topology", "/mutate/bindings", ["pods/binding", "bindings"]),
        ],
    }


def wait_until_asked(control_plane: ControlPlane, namespace: str) -> None:
    """The API server learns of a registration by a watch, a moment after it was written."""

    def injected() -> bool:
        answer = create_pod(control_plane, namespace, gpu_pod("probe", {}), dry_run=True)
        return "gpu.topology/injected" in (answer.body["metadata"].get("annotations") or {})

    until(injected, "a pod that our webhook has seen")


def make_secret(client: ApiClient, namespace: str) -> None:
    """Without values, as the chart makes it."""
    secret: Any = {"metadata": {"name": "gpu-topology-webhook-tls"}, "type": CERTIFICATES_TYPE}
    CoreV1Api(client).create_namespaced_secret(namespace, secret)
