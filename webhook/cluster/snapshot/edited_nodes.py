"""The topologies of a saved state that were edited: ``nodes/*.json`` repeat the agents' ConfigMaps, and win."""

from collections.abc import Mapping, Sequence

from webhook.cluster.redaction.objects import Object, identity
from webhook.hardware.topology.document import format_topology, parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.words import names
from webhook.words.errors import FormatError
from webhook.words.node_names import config_map_name


def edited_nodes(documents: Sequence[Object], topologies: Mapping[str, NodeTopology]) -> dict[str, NodeTopology]:
    """Return the topologies that differ from those of the ConfigMaps, or that have none.

    Args:
        documents: The documents of a saved state.
        topologies: The topologies of its files, by nodes.
    """
    saved = {identity(each)[1]: _topology_in(each) for each in documents if each["kind"] == "ConfigMap"}
    return {node: found for node, found in topologies.items() if saved.get(config_map_name(node)) != found}


def with_edited(documents: Sequence[Object], edited: Mapping[str, NodeTopology]) -> list[Object]:
    """Return the documents with the edited topologies in the ConfigMaps, whose agents stay as old and busy as saved."""
    texts = {config_map_name(node): format_topology(topology) for node, topology in edited.items()}
    return [
        each | {"data": each["data"] | {names.TOPOLOGY_KEY: texts[identity(each)[1]]}}
        if each["kind"] == "ConfigMap" and identity(each)[1] in texts
        else each
        for each in documents
    ]


def _topology_in(config_map: Object) -> NodeTopology | None:
    try:
        return parse_topology(config_map["data"].get(names.TOPOLOGY_KEY, ""), source="ConfigMap")
    except FormatError:
        return None
