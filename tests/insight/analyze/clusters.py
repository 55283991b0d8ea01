"""Clusters as the API server has them: one in which nothing is wrong, and what can be done to it."""

import base64
import copy
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from certs.certificate import TlsBundle, issue
from tests.control_plane.hami.nodes import node_manifest
from tests.decisions.place.cluster import named
from tests.decisions.test_detection import deployment
from tests.hardware.topology import machines
from tests.insight.explain.situations import injected, on
from tests.judge import policy
from tests.pods import container, pod
from webhook.cluster.snapshot.documents import Documents
from webhook.cluster.snapshot.model import Setting, Snapshot, read_snapshot
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.insight.analyze.analyzers import analyze
from webhook.insight.analyze.diagnosis import Diagnosis
from webhook.objects.lease import lease_spec, micro_time

Object = dict[str, Any]
AT = datetime(2026, 11, 22, 12, tzinfo=UTC)
CONFIGURATION = "MutatingWebhookConfiguration"
READ = (
    *("Namespace", "Node", "ConfigMap", "Lease", "Deployment", CONFIGURATION, "DeviceClass"),
    *("Deployment of the webhook", "DaemonSet", "Event", "EndpointSlice"),
    *("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"),
    *("gpu-topology-place", "gpu-topology-webhook-tls"),
)
MANIFESTS = Path(__file__).parent / "manifests"
INTERVAL = 60.0


@cache
def bundle(*, days_ago: int = 1, days: int = 36_500) -> TlsBundle:
    """An authority and a serving certificate of its own."""
    return issue(["webhook"], now=AT - timedelta(days=days_ago), lifetime=timedelta(days=days))


class Cluster:
    """The objects of a cluster, by kind, namespace and name. It begins with nothing that is wrong."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.read = list(READ)
        self.unread: list[Object] = []
        self.kubernetes = "v1.33.2"
        for found in healthy():
            self.add(found)

    def add(self, found: Object) -> None:
        """Create an object, or put it in the place of the one that is there."""
        metadata = found["metadata"]
        self.objects[found["kind"], metadata.get("namespace", ""), metadata["name"]] = copy.deepcopy(found)

    def get(self, kind: str, name: str, namespace: str = "") -> Object:
        return self.objects[kind, namespace, name]

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        del self.objects[kind, namespace, name]

    def apply(self, name: str) -> None:
        """The objects of a manifest that was written by hand."""
        for found in yaml.safe_load_all((MANIFESTS / f"{name}.yaml").read_text(encoding="utf-8")):
            self.add(found)

    def add_node(self, topology: NodeTopology) -> None:
        for found in node(topology):
            self.add(found)

    def raw(self) -> Iterable[Object]:
        about: Object = {"apiVersion": "gpu.topology/v1", "kind": "ClusterSnapshot", "metadata": {"name": "cluster"}}
        about |= {"at": AT.isoformat(), "kubernetes": self.kubernetes, "read": self.read, "unread": self.unread}
        return (*copy.deepcopy(list(self.objects.values())), about)

    def snapshot(self, **settings: Any) -> Snapshot:
        documents = Documents()
        documents.add(self.raw())
        setting = Setting(policy=policy(**settings), is_configured=bool(settings))
        return read_snapshot(documents.others, documents.pods, setting)

    def analyzed(self, **settings: Any) -> list[Diagnosis]:
        return list(analyze(self.snapshot(**settings)).findings)

    def found(self, **settings: Any) -> set[tuple[str, str]]:
        """The codes, each with its object."""
        return {(each.code, str(each.holder)) for each in self.analyzed(**settings)}


def node(topology: NodeTopology, *, renewed: datetime = AT) -> list[Object]:
    """A Node, and what its agent has published."""
    found = node_manifest(topology)
    name, uid = topology.node, f"uid-{topology.node}"
    found["metadata"] |= {"uid": uid}
    metadata = {
        "name": f"gpu-topology-{name}",
        "namespace": "gpu-topology-nodes",
        "labels": {"gpu.topology/node": name},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
    }
    data = {"topology.json": format_topology(topology)}
    spec = lease_spec(name, at=renewed, interval=INTERVAL)
    return [
        {"apiVersion": "v1", "kind": "Node"} | found,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec},
    ]


def h20(name: str) -> NodeTopology:
    """Eight GPUs behind a switch."""
    return named(machines.h20(), name)


def pairs(name: str) -> NodeTopology:
    """Four GPUs, joined two by two."""
    return named(machines.a100_pcie_bridged(), name)


def cards(name: str, *indices: int) -> list[str]:
    """The UUIDs of these cards of a node."""
    return [f"GPU-{name}.{index}" for index in indices]


def namespace(name: str, annotations: dict[str, str] | None = None, **labels: str) -> Object:
    """A namespace that has opted in."""
    marked = {"gpu.topology/injection": "enabled"} | {f"gpu.topology/{key}": value for key, value in labels.items()}
    metadata = {"name": name, "labels": marked, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def running(name: str, where: str, *indices: int, **fields: Any) -> Object:
    """A pod of team-a that admission has injected and that runs with these cards."""
    manifest = pod(container(gpus=len(indices), **fields), schedulerName="hami-scheduler")
    placed = on(injected(manifest), where, cards(where, *indices))
    placed["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    return placed | {"status": {"phase": "Running"}}


def registration(name: str = "gpu-topology-webhook", **bundles: bytes) -> Object:
    """Our webhooks, with the authorities of ``bundle()`` if no others are named."""
    ours = bundle().authority
    account = "system:serviceaccount:kube-system:default"
    condition = {"name": "by-the-scheduler", "expression": f"request.userInfo.username in ['{account}']"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": CONFIGURATION,
        "metadata": {"name": name},
        "webhooks": [
            _webhook("pods", "IfNeeded", ["pods"], bundles.get("pods", ours)),
            _webhook("bindings", "Never", ["pods/binding"], bundles.get("bindings", ours))
            | {"matchConditions": [condition]},
        ],
    }


def _webhook(what: str, policy: str, resources: list[str], authority: bytes) -> Object:
    service = {"name": "gpu-topology-webhook", "namespace": "gpu-topology", "path": f"/mutate/{what}"}
    return {
        "name": f"{what}.gpu.topology",
        "reinvocationPolicy": policy,
        "clientConfig": {"service": service, "caBundle": base64.b64encode(authority).decode()},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": resources}],
    }


def hami_webhook(name: str = "hami-webhook") -> Object:
    """HAMi's, as its chart registers it."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {"name": "vgpu.hami.io", "reinvocationPolicy": "Never", "clientConfig": {}, "rules": [rule]}
    metadata = {"name": name}
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": CONFIGURATION, "metadata": metadata, "webhooks": [webhook]}


def secret(found: TlsBundle) -> Object:
    """The Secret of the webhook, with its key."""
    files = {"tls.crt": found.certificate, "tls.key": found.key, "ca.crt": found.authority}
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    metadata = {"name": "gpu-topology-webhook-tls", "namespace": "gpu-topology"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "gpu.topology/certificates",
        "metadata": metadata,
        "data": data,
    }


def scheduler(version: str = "2.9.0", namespace: str = "kube-system") -> Object:
    """HAMi's."""
    found = deployment(f"projecthami/hami:v{version}")
    found["metadata"] |= {"namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment"} | found


def planner_lease(renewed: datetime = AT) -> Object:
    """Of a planner that was alive then."""
    spec = {"holderIdentity": "planner-1", "leaseDurationSeconds": 15, "renewTime": micro_time(renewed)}
    metadata = {"name": "gpu-topology-place", "namespace": "gpu-topology"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def program(component: str, wanted: int, ready: int) -> Object:
    """A workload of this project, of which so many replicas are ready."""
    labels = {"app.kubernetes.io/name": "gpu-topology-webhook", "app.kubernetes.io/component": component}
    metadata = {"name": f"gpu-topology-{component}", "namespace": "gpu-topology", "labels": labels}
    found = {"apiVersion": "apps/v1", "metadata": metadata}
    if component == "agent":
        return found | {"kind": "DaemonSet", "status": {"desiredNumberScheduled": wanted, "numberReady": ready}}
    return found | {"kind": "Deployment", "spec": {"replicas": wanted}, "status": {"readyReplicas": ready}}


def failed_create(kind: str, name: str, message: str, *, minutes_ago: int = 1) -> Object:
    """The Event of a controller that could not create a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.17a-{kind.lower()}", "namespace": "team-a"},
        "involvedObject": {"kind": kind, "namespace": "team-a", "name": name, "uid": f"uid-{name}"},
        "reason": "FailedCreate",
        "message": message,
        "lastTimestamp": (AT - timedelta(minutes=minutes_ago)).isoformat().replace("+00:00", "Z"),
    }


def endpoints(*ready: bool) -> Object:
    """The endpoints of the webhook's Service."""
    metadata = {
        "name": "gpu-topology-webhook-x1",
        "namespace": "gpu-topology",
        "labels": {"kubernetes.io/service-name": "gpu-topology-webhook"},
    }
    found = [{"addresses": ["10.0.0.1"], "conditions": {"ready": each}} for each in ready]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": found,
    }


def healthy() -> Iterable[Object]:
    """Two nodes, a pod on each, and everything that serves them."""
    yield namespace("team-a")
    yield from node(h20("switched"))
    yield from node(pairs("paired"))
    yield running("train", "switched", 0, 1, 2, 3)
    yield running("pair", "paired", 0, 1)
    yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "team-a"}, "spec": _WEB}
    yield registration()
    yield endpoints(True, True)
    yield hami_webhook()
    yield secret(bundle())
    yield scheduler()
    yield planner_lease()


_WEB = {"containers": [{"name": "web", "image": "nginx"}]}
