"""Looks at machines, and the objects of a cluster as an API server sends them."""

import copy
from dataclasses import replace
from typing import Any

from tests.hardware.topology.machines import bent
from webhook.hardware.topology.health import node_health
from webhook.hardware.topology.model import UNKNOWN, NodeTopology, NvLink
from webhook.programs.agent.look import Look

NO_DRIVER = "libnvidia-ml.so.1 is not here"


def look(topology: NodeTopology) -> Look:
    return Look(topology, node_health(topology))


def driver_away(topology: NodeTopology) -> NodeTopology:
    """The node while its driver is loaded anew."""
    return NodeTopology(node=topology.node, source="nvml", problem=NO_DRIVER, cpus=topology.cpus)


def all_links_down(topology: NodeTopology) -> NodeTopology:
    """Where no link is up, NVML does not say where links lead."""
    for gpu in topology.gpus:
        count = sum(link.count for link in gpu.nvlinks)
        topology = bent(topology, gpu.index, nvlinks=(NvLink(target=UNKNOWN, count=count, active=0),))
    return topology


def unlisted(topology: NodeTopology, index: int) -> NodeTopology:
    """A GPU that the driver does not even list as lost."""
    return replace(topology, gpus=tuple(gpu for gpu in topology.gpus if gpu.index != index))


def node_object(
    name: str, *, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, version: str = "7001"
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "uid": "c0ffee00-0000-4000-8000-000000000001", "resourceVersion": version}
    if labels is not None:
        metadata["labels"] = labels
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"nodeInfo": {}}}


def stored(manifest: dict[str, Any], *, version: str = "41") -> dict[str, Any]:
    """A manifest after the API server has taken it."""
    taken = copy.deepcopy(manifest)
    taken["metadata"] |= {"uid": "c0ffee00-0000-4000-8000-000000000002", "resourceVersion": version}
    return taken


def nowhere(server: str) -> dict[str, Any]:
    """A kubeconfig for a server that does not answer."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
