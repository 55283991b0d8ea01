"""The topologies of a saved state: each stands in ``nodes/*.json`` alone, and not in the ConfigMap of its agent too."""

from collections.abc import Iterable, Mapping, Sequence

from webhook.cluster.redaction.objects import Object, identity
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.words import names
from webhook.words.node_names import config_map_name


def without_topologies(documents: Sequence[Object], nodes: Iterable[str]) -> list[Object]:
    """Return the documents without the topologies of these nodes in the ConfigMaps of their agents."""
    return _with_data(documents, {config_map_name(node): {} for node in nodes})


def with_topologies(documents: Sequence[Object], topologies: Mapping[str, NodeTopology]) -> list[Object]:
    """Return the documents with the topologies in the ConfigMaps of their agents, which are as old as they were."""
    return _with_data(
        documents,
        {config_map_name(node): {names.TOPOLOGY_KEY: format_topology(found)} for node, found in topologies.items()},
    )


def without_agent(documents: Sequence[Object], topologies: Mapping[str, NodeTopology]) -> dict[str, NodeTopology]:
    """Return the topologies of nodes of which the documents have no ConfigMap."""
    known = {identity(each)[1] for each in documents if each["kind"] == "ConfigMap"}
    return {node: found for node, found in topologies.items() if config_map_name(node) not in known}


def _with_data(documents: Sequence[Object], data: Mapping[str, Mapping[str, str]]) -> list[Object]:
    return [
        each | {"data": data[identity(each)[1]]} if each["kind"] == "ConfigMap" and identity(each)[1] in data else each
        for each in documents
    ]
