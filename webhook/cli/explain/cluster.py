"""A pod from a cluster, with everything around it that the caller is allowed to see."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
import typer

from webhook import __version__
from webhook.cli.complaint import complain
from webhook.cli.explain.known import Known, read_pod
from webhook.explain.evidence import Reading
from webhook.kube.client import ApiServer, Object, connect
from webhook.kube.errors import ApiRefused, NotFound
from webhook.manifest.pods import to_json
from webhook.model import names
from webhook.model.cluster import ClusterFacts
from webhook.model.errors import GpuTopologyError
from webhook.model.lease import lasts, renewed_at
from webhook.model.node_names import node_label
from webhook.model.pod import Namespace, Pod
from webhook.model.version import Version
from webhook.printable import printable
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
    source = f"pod {namespace}/{name}"
    document = to_json(found, source)
    pod = read_pod(document, source)
    around, problem = _namespace(api, namespace)
    return Known(
        document=document,
        pod=pod,
        namespace=around,
        cluster=_cluster(api),
        group=lambda group: _group(api, pod, group),
        node=lambda node: _node(api, node),
        namespace_problem=problem,
    )


def _try(ask: Callable[[], _T], otherwise: _T) -> tuple[_T, str]:
    """The answer, or ``otherwise`` and a note; and why the API server did not let the caller read it, if that is so."""
    try:
        return ask(), ""
    except GpuTopologyError as error:
        said = printable(str(error))
        complain(f"gpu-topology: left out: {said}")
        refused = isinstance(error, ApiRefused) and not isinstance(error, NotFound)
        return otherwise, said if refused else ""


def _namespace(api: ApiServer, name: str) -> tuple[Namespace, str]:
    found, problem = _try(lambda: api.namespace(name), None)
    if found is None:
        return Namespace(name, known=False), problem
    metadata = found.get("metadata") or {}
    return Namespace(name, metadata.get("labels") or {}, metadata.get("annotations") or {}), ""


def _cluster(api: ApiServer) -> ClusterFacts:
    """Kubernetes' version; HAMi does not tell its own."""
    version, _ = _try(lambda: Version.parse(api.version(), source="the version of the API server"), None)
    return ClusterFacts(kubernetes=version)


def _group(api: ApiServer, pod: Pod, group: str) -> tuple[tuple[Pod, ...] | None, str]:
    namespace = (pod.metadata.namespace if pod.metadata else None) or ""
    found, problem = _try(lambda: api.pods(namespace, label=f"{names.GROUP}={group}"), None)
    if found is None:
        return None, problem
    source = f"a pod of group {group}"
    pods = [read_pod(to_json(one, source), source) for one in found]
    return tuple(other for other in pods if other.display_name != pod.display_name), ""


def _node(api: ApiServer, name: str) -> tuple[Sources, Reading]:
    node, problem = _try(lambda: api.node(name), None)
    published, reading = _published(api, name, node)
    annotated, _ = _try(lambda: _annotated(node), None) if node else (None, "")
    problems = "; ".join(filter(None, (reading.node_problem, problem)))
    return replace(published, annotated=annotated), msgspec.structs.replace(reading, node_problem=problems)


def _published(api: ApiServer, name: str, node: Object | None) -> tuple[Sources, Reading]:
    """What the agent published, and how many seconds ago it was true; the agent's Lease says that.

    All namespaces are looked through, and whoever may create ConfigMaps in one of them could pose as an agent. So only
    what the Node owns is believed, by its uid, if that may be read.
    """
    found, problem = _try(lambda: api.config_maps(label=f"{names.NODE}={node_label(name)}"), _NONE)
    if uid := (node or {}).get("metadata", {}).get("uid"):
        found = [one for one in found if uid in _owners(one)]
    if not found:
        return Sources(), Reading(node_problem=problem)
    if len(found) > 1:
        typer.echo(
            f"gpu-topology: {len(found)} ConfigMaps say that they are of node {name}; the first is taken", err=True
        )
    manifest: Object = {"apiVersion": "v1", "kind": "ConfigMap"} | found[0]  # the items of a list say neither
    topology, _ = _try(lambda: topology_of_config_map(manifest, _SOURCE), None)
    if topology is None or topology.node != name:
        return Sources(), Reading()
    age, promised, problem = _age(api, manifest["metadata"])
    known = KnownNode(topology, origin=Origin.AGENT)
    return Sources(published=known, age=age, lasts=promised), Reading(age_problem=problem)


def _owners(manifest: Object) -> set[str]:
    """The uids of the owners of an object."""
    return {owner.get("uid", "") for owner in manifest["metadata"].get("ownerReferences") or []}


def _age(api: ApiServer, metadata: Object) -> tuple[float | None, float, str]:
    """Seconds since the agent's last sign of life, and for how many it vouched with it; or why they are not known."""
    where = f"{metadata['namespace']}/{metadata['name']}"
    lease, problem = _try(lambda: api.lease(metadata["namespace"], metadata["name"]), None)
    renewed = renewed_at(lease) if lease else None
    if lease is None or renewed is None:
        return None, 0.0, problem or f"there is no Lease {where} that says it"
    return (datetime.now(UTC) - renewed).total_seconds(), lasts(lease), ""


def _annotated(node: Object) -> KnownNode | None:
    if names.HAMI_NODE_REGISTER not in (node.get("metadata", {}).get("annotations") or {}):
        return None
    return KnownNode(topology_of_node(node, _SOURCE), origin=Origin.HAMI)
