"""The topology of a node of a cluster: what its agent published, else what HAMi wrote on the Node."""

import asyncio

from webhook.cli.complaint import complain
from webhook.kube.api_server import ApiServer, Object, connect_objects
from webhook.kube.contexts import Where
from webhook.kube.errors import ApiRefused, NotFound
from webhook.model import names
from webhook.model.errors import GpuTopologyError
from webhook.model.node_names import node_label
from webhook.printable import printable
from webhook.state.published import is_owned_by, topology_of_config_map, topology_of_node
from webhook.topology.model import NodeTopology

_SOURCE = "the cluster"


def node_of_cluster(where: Where, name: str) -> NodeTopology:
    """The topology of that node as it is now.

    Raises:
        GpuTopologyError: there is no such node, nothing tells of its GPUs, or the API server cannot be asked.
    """
    return asyncio.run(_read(where, name))


async def _read(where: Where, name: str) -> NodeTopology:
    api = connect_objects(where, user_agent=names.EXPLAIN_USER_AGENT)
    try:
        node = await _node(api, name)
        published = await _published(api, name)
    finally:
        await api.close()
    uid = node.get("metadata", {}).get("uid")
    for found in published:
        if uid and is_owned_by(found, uid):
            topology = topology_of_config_map({"apiVersion": "v1", "kind": "ConfigMap"} | found, _SOURCE)
            if topology.node == name:  # names that are too long for a label are cut there
                return topology
    if names.HAMI_NODE_REGISTER in (node.get("metadata", {}).get("annotations") or {}):
        return topology_of_node(node, _SOURCE)
    raise GpuTopologyError(f"node {name}: no agent has published its GPUs, and HAMi has registered none")


async def _published(api: ApiServer, name: str) -> list[Object]:
    try:
        return await api.config_maps(label=f"{names.NODE}={node_label(name)}")
    except ApiRefused as error:
        complain(
            printable(f"gpu-topology: left out: {error}. Without ConfigMaps only HAMi's annotations tell of links")
        )
        return []


async def _node(api: ApiServer, name: str) -> Object:
    try:
        return await api.node(name)
    except NotFound:
        raise GpuTopologyError(f"there is no node {name} in this cluster") from None
