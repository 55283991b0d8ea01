"""What a cluster tells of one node and its GPUs."""

from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from webhook.cli.cluster.asking import Cluster, attempt
from webhook.cli.complaint import complain
from webhook.explain.evidence import Reading
from webhook.kube.api_server import Object
from webhook.kube.errors import NotFound
from webhook.model import names
from webhook.model.lease import lasts, renewed_at
from webhook.model.node_names import node_label
from webhook.resolve.node import KnownNode, Origin, Sources
from webhook.state.published import is_owned_by, topology_of_config_map, topology_of_node
from webhook.traffic.document import parse_traffic
from webhook.traffic.model import Traffic

_SOURCE = "the cluster"
_NONE: list[Object] = []


def read_node(cluster: Cluster, name: str) -> tuple[Sources, Reading]:
    """What is known of a node: what its agent published, and what HAMi wrote on it; and how that was come by.

    What may not be read is left out, with a note on standard error.
    """
    node, problem = attempt(lambda: _node_if_there(cluster, name), None)
    published, reading = _published(cluster, name, node)
    annotated, _ = attempt(lambda: _annotated(node), None) if node else (None, "")
    problems = "; ".join(filter(None, (reading.node_problem, problem)))
    return replace(published, annotated=annotated), msgspec.structs.replace(reading, node_problem=problems)


def _node_if_there(cluster: Cluster, name: str) -> Object:
    try:
        return cluster.ask(cluster.api.node(name))
    except NotFound as error:
        raise NotFound(f"there is no node {name} in this cluster", status=error.status) from None


def _published(cluster: Cluster, name: str, node: Object | None) -> tuple[Sources, Reading]:
    """What the agent published, and how many seconds ago it was true; the agent's Lease says that.

    All namespaces are looked through, and only what the Node owns is believed, by its uid, if that may be read.
    """
    found, problem = attempt(
        lambda: cluster.ask(cluster.api.config_maps(label=f"{names.NODE}={node_label(name)}")), _NONE
    )
    if uid := (node or {}).get("metadata", {}).get("uid"):
        found = [document for document in found if is_owned_by(document, uid)]
    if not found:
        return Sources(), Reading(node_problem=problem)
    if len(found) > 1:
        complain(f"gpu-topology: {len(found)} ConfigMaps say that they are of node {name}; the first is taken")
    manifest: Object = {"apiVersion": "v1", "kind": "ConfigMap"} | found[0]  # the items of a list say neither
    topology, _ = attempt(lambda: topology_of_config_map(manifest, _SOURCE), None)
    if topology is None or topology.node != name:
        return Sources(), Reading()
    found_of_lease, problem = _of_lease(cluster, manifest["metadata"])
    known = KnownNode(topology, origin=Origin.AGENT)
    return replace(found_of_lease, published=known), Reading(age_problem=problem)


def _of_lease(cluster: Cluster, metadata: Object) -> tuple[Sources, str]:
    """When the agent was heard of, for how long it vouches with it, and what its GPUs did; or why that is not known."""
    where = f"{metadata['namespace']}/{metadata['name']}"
    lease, problem = attempt(lambda: cluster.ask(cluster.api.lease(metadata["namespace"], metadata["name"])), None)
    renewed = renewed_at(lease) if lease else None
    if lease is None or renewed is None:
        return Sources(), problem or f"there is no Lease {where} that says it"
    age = (datetime.now(UTC) - renewed).total_seconds()
    return Sources(age=age, lasts=lasts(lease), traffic=_traffic(lease, where)), ""


def _traffic(lease: Object, where: str) -> Traffic | None:
    text = (lease["metadata"].get("annotations") or {}).get(names.TRAFFIC)
    if text is None:
        return None
    found, _ = attempt(lambda: parse_traffic(text, f"annotation {names.TRAFFIC} of Lease {where}"), None)
    return found


def _annotated(node: Object) -> KnownNode | None:
    if names.HAMI_NODE_REGISTER not in (node.get("metadata", {}).get("annotations") or {}):
        return None
    return KnownNode(topology_of_node(node, _SOURCE), origin=Origin.HAMI)
