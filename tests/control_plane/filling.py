"""The objects of a cluster of values, at a real API server."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import httpx
from kubernetes.client import CoreV1Api, V1ObjectMeta, V1ServiceAccount
from kubernetes.client.exceptions import ConflictException

from tests.control_plane.control_plane import REQUEST_TIMEOUT_S, ControlPlane
from tests.control_plane.hami.nodes import untaint
from tests.insight.analyze.clusters import AT, CONFIGURATION, Cluster, Object, registration
from webhook.objects.lease import micro_time
from webhook.words.timestamp import parse_timestamp

OURS = "gpu-topology"
"""The namespace of the webhook."""
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Secret": "/api/v1/namespaces/{namespace}/secrets",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "DaemonSet": "/apis/apps/v1/namespaces/{namespace}/daemonsets",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
    "Event": "/api/v1/namespaces/{namespace}/events",
    CONFIGURATION: "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
}
"""In the order of creation: what is registered is asked about pods, and no server answers there."""


def fill(client: httpx.Client, admin: CoreV1Api, cluster: Cluster) -> None:
    """Create the objects, and what a whole cluster would make of them."""
    uids = dict[str, str]()
    namespaces = {namespace for _, namespace, _ in cluster.objects} - {"", "kube-system"}
    for name in sorted(namespaces):
        if ("Namespace", "", name) not in cluster.objects:
            cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for kind, path in PATHS.items():
        for found in [each for each in cluster.objects.values() if each["kind"] == kind]:
            where = path.format(namespace=found["metadata"].get("namespace", ""))
            made = create(client, where, completed(found, uids))
            if kind == "Node":
                uids[found["metadata"]["name"]] = made["metadata"]["uid"]
                untaint(admin, found["metadata"]["name"])
            if kind == "Namespace":
                account = V1ServiceAccount(metadata=V1ObjectMeta(name="default"))
                with suppress(ConflictException):  # of a namespace that was there before
                    admin.create_namespaced_service_account(found["metadata"]["name"], account)


@contextmanager
def administrator(control_plane: ControlPlane) -> Iterator[httpx.Client]:
    """Requests of the administrator, for objects of any kind."""
    token = json.loads(control_plane.kubeconfig.read_text())["users"][0]["user"]["token"]
    trust = ssl.create_default_context(cafile=control_plane.ca_file)
    header = {"Authorization": f"Bearer {token}"}
    with httpx.Client(
        base_url=control_plane.url, headers=header, verify=trust, trust_env=False, timeout=REQUEST_TIMEOUT_S
    ) as client:
        yield client


def create(client: httpx.Client, path: str, body: Object) -> Object:
    answer = client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def completed(found: Object, uids: dict[str, str]) -> Object:
    """The object with what the API server wants besides, true now and not at ``AT``."""
    kind, name = found["kind"], found["metadata"]["name"]
    metadata = {key: value for key, value in found["metadata"].items() if key not in ("uid", "resourceVersion")}
    for owner in metadata.get("ownerReferences", ()):
        owner["uid"] = uids.get(owner["name"], owner["uid"])
    found = found | {"metadata": metadata}
    if kind == "Lease":
        renewed = parse_timestamp(found["spec"]["renewTime"])
        assert renewed is not None
        found["spec"]["renewTime"] = micro_time(datetime.now(UTC) - (AT - renewed))
    elif kind == "Deployment":
        labels = {"app": name}
        found["spec"]["selector"] = {"matchLabels": labels}
        found["spec"]["template"]["metadata"] = {"labels": labels}
    elif kind == CONFIGURATION:
        if name == "gpu-topology-webhook":
            found["webhooks"] = registration()["webhooks"]
        for webhook in found["webhooks"]:
            webhook["clientConfig"] = webhook["clientConfig"] or {"url": "https://127.0.0.1:1/"}
            webhook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore"}
    return found


def found(text: str) -> set[tuple[str, str]]:
    return {
        (row["code"], f"{each['kind']} {'/'.join(filter(None, (each['namespace'], each['name'])))}")
        for row in json.loads(text)["findings"]
        for each in row["objects"]
    }
