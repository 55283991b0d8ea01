"""A pod from a cluster, with everything around it that the caller is allowed to see."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import typer

from webhook import __version__
from webhook.cli.explain.known import Known, read_pod
from webhook.kube.client import ApiServer, Object, connect
from webhook.kube.errors import NotFound
from webhook.model import names
from webhook.model.cluster import ClusterFacts
from webhook.model.errors import GpuTopologyError
from webhook.model.lease import renewed_at
from webhook.model.node_names import node_label
from webhook.model.pod import Namespace, Pod
from webhook.model.version import Version
from webhook.resolve.node import KnownNode, Origin, Sources
from webhook.state.published import topology_of_config_map, topology_of_node

_T = TypeVar("_T")
_SOURCE = "the cluster"
_NONE: list[Object] = []


def known_from_cluster(namespace: str, name: str, kubeconfig: Path | None) -> Known:
    """The pod as it is now; the rest is asked for when it is needed.

    What cannot be read besides the pod is left out, with a note on standard error.

    Raises:
        GpuTopologyError: there is no such pod, or the API server cannot be asked.
    """
    api = connect(kubeconfig, user_agent=f"gpu-topology-explain/{__version__}")
    try:
        found = api.pod(namespace, name)
    except NotFound:
        raise GpuTopologyError(f"there is no pod {namespace}/{name} in this cluster") from None
    document = json.dumps(found).encode()
    pod = read_pod(document, f"pod {namespace}/{name}")
    return Known(
        document=document,
        pod=pod,
        namespace=_namespace(api, namespace),
        cluster=_cluster(api),
        group=lambda group: _group(api, pod, group),
        node=lambda node: _node(api, node),
    )


def _try(ask: Callable[[], _T], otherwise: _T) -> _T:
    """The answer, or ``otherwise`` and a note."""
    try:
        return ask()
    except GpuTopologyError as error:
        typer.echo(f"gpu-topology: left out: {error}", err=True)
        return otherwise


def _namespace(api: ApiServer, name: str) -> Namespace:
    found = _try(lambda: api.namespace(name), None)
    if found is None:
        return Namespace(name, known=False)
    metadata = found.get("metadata") or {}
    return Namespace(name, metadata.get("labels") or {}, metadata.get("annotations") or {})


def _cluster(api: ApiServer) -> ClusterFacts:
    """Kubernetes' version; HAMi does not tell its own."""
    version = _try(lambda: Version.parse(api.version(), source="the version of the API server"), None)
    return ClusterFacts(kubernetes=version)


def _group(api: ApiServer, pod: Pod, group: str) -> tuple[Pod, ...] | None:
    namespace = (pod.metadata.namespace if pod.metadata else None) or ""
    found = _try(lambda: api.pods(namespace, label=f"{names.GROUP}={group}"), None)
    if found is None:
        return None
    pods = [read_pod(json.dumps(one).encode(), f"a pod of group {group}") for one in found]
    return tuple(other for other in pods if other.display_name != pod.display_name)


def _node(api: ApiServer, name: str) -> Sources:
    published, age = _published(api, name)
    return Sources(published=published, age=age, annotated=_try(lambda: _annotated(api, name), None))


def _published(api: ApiServer, name: str) -> tuple[KnownNode | None, float | None]:
    """What the agent published, and how many seconds ago it was true; the agent's Lease says that."""
    found = _try(lambda: api.config_maps(label=f"{names.NODE}={node_label(name)}"), _NONE)
    if not found:
        return None, None
    if len(found) > 1:
        typer.echo(
            f"gpu-topology: {len(found)} ConfigMaps say that they are of node {name}; the first is taken", err=True
        )
    manifest: Object = {"apiVersion": "v1", "kind": "ConfigMap"} | found[0]  # the items of a list say neither
    topology = _try(lambda: topology_of_config_map(manifest, _SOURCE), None)
    if topology is None or topology.node != name:
        return None, None
    metadata = manifest["metadata"]
    lease = _try(lambda: api.lease(metadata["namespace"], metadata["name"]), None)
    renewed = renewed_at(lease) if lease else None
    age = (datetime.now(UTC) - renewed).total_seconds() if renewed else None
    return KnownNode(topology, origin=Origin.AGENT), age


def _annotated(api: ApiServer, name: str) -> KnownNode | None:
    node = api.node(name)
    if names.HAMI_NODE_REGISTER not in (node.get("metadata", {}).get("annotations") or {}):
        return None
    return KnownNode(topology_of_node(node, _SOURCE), origin=Origin.HAMI)
