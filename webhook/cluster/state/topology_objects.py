"""Topologies from objects of a cluster: the ConfigMap that the agent publishes, and a Node that HAMi annotates."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.readers.hami import read_hami
from webhook.objects.manifest.yaml_parser import parse_yaml
from webhook.words import names
from webhook.words.errors import FormatError
from webhook.words.node_names import NAME_LIMIT, config_map_name

Manifest = Mapping[str, Any]

MAX_BYTES = 4 * 1024 * 1024
"""The most bytes of a text: the 1 MiB that a ConfigMap holds, quoted, and its metadata."""

_VERSION = "v1"
_CONFIG_MAP, _NODE, _LIST = "ConfigMap", "Node", "List"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
"""A DNS subdomain: k8s.io/apimachinery, pkg/util/validation."""
_MANIFEST = re.compile(r"^kind:[ \t]*[\"']?[A-Z]", re.MULTILINE)
_NAMED = f"kubectl get configmap {names.NODE_CONFIG_MAP_PREFIX}NODE, or kubectl get node NODE"


def read_published(text: str | bytes, *, source: str) -> NodeTopology | None:
    """Read the topology in a manifest, as ``kubectl get -o json|yaml`` and ``gpu-topology agent --dry-run`` write it.

    Args:
        text: One object, or several documents or a List with one ConfigMap or Node.
        source: The name of the text in messages, for example ``file node-1.yaml``.

    Returns:
        None if the text has no ConfigMap and no Node, so that it may have another format.

    Raises:
        FormatError: it is larger than 4 MiB, has several ConfigMaps or Nodes, or one without a topology.
        ManifestError: it begins like a manifest, and is not YAML.
    """
    if len(text) > MAX_BYTES:
        raise FormatError(source, expected=f"at most {MAX_BYTES} bytes", found=f"{len(text)} bytes")
    objects = [found for document in _documents(text, source) for found in _objects(document)]
    if len(objects) > 1:
        raise FormatError(source, expected="one ConfigMap or Node", found=f"{len(objects)} of them", fix=_NAMED)
    return _READERS[objects[0]["kind"]](objects[0], source) if objects else None


def topology_of_config_map(manifest: Manifest, source: str) -> NodeTopology:
    """Read the topology that the agent published.

    Args:
        manifest: The ConfigMap as the API server sends it.
        source: The origin, such as a file. Messages begin with it and go on with the name of the ConfigMap.

    Raises:
        FormatError: it is no ConfigMap, has no topology, a malformed one, or that of another node.
    """
    name = _checked_name(manifest, _CONFIG_MAP, source)
    where = f"{source}: {_CONFIG_MAP} {name}"
    data = _texts(manifest.get("data"), f"{where}: data")
    if names.TOPOLOGY_KEY not in data:
        fix = f"The agent's are called {names.NODE_CONFIG_MAP_PREFIX}NODE and have the label {names.NODE}"
        found = ", ".join(sorted(map(str, data))) or "nothing"
        raise FormatError(f"{where}: data", expected=names.TOPOLOGY_KEY, found=found, fix=fix)
    where = f"{where}: data {names.TOPOLOGY_KEY}"
    return own_topology(_text(data[names.TOPOLOGY_KEY], where), name, where)


def own_topology(text: str, name: str, where: str) -> NodeTopology:
    """Parse the topology in the ConfigMap of that name.

    Args:
        text: The text of the topology.
        name: The name of the ConfigMap.
        where: The name of the text in messages.

    Raises:
        FormatError: it does not parse, or is that of another node.
    """
    topology = parse_topology(text, source=where)
    expected = config_map_name(topology.node)
    if name != expected:
        found = f"that of node {topology.node}, which belongs to {expected}"
        raise FormatError(where, expected="the topology of its own node", found=found)
    return topology


def topology_of_node(manifest: Manifest, source: str) -> NodeTopology:
    """Read the topology in HAMi's annotations of a Node.

    Args:
        manifest: The Node as the API server sends it.
        source: The origin, such as a file. Messages begin with it and go on with the name of the Node.

    Raises:
        FormatError: it is no Node, HAMi's device plugin has not annotated it, or an annotation is malformed.
    """
    name = _checked_name(manifest, _NODE, source)
    where = f"{source}: {_NODE} {name}"
    annotations = _texts(manifest["metadata"].get("annotations"), f"{where}: annotations")
    if names.HAMI_NODE_REGISTER not in annotations:
        raise FormatError(
            f"{where}: annotations",
            expected=names.HAMI_NODE_REGISTER,
            found="none of that name",
            fix="A Node has it while HAMi's device plugin runs there; what the agent publishes is a ConfigMap",
        )
    register, score = (
        _text(annotations.get(key, ""), f"{where}: annotation {key}")
        for key in (names.HAMI_NODE_REGISTER, names.HAMI_NODE_SCORE)
    )
    return read_hami(register, score or None, node=name, source=where)


def is_owned_by(manifest: Manifest, uid: str) -> bool:
    """Return whether the Node of this uid owns the ConfigMap, as it owns those of its agent.

    A tenant who may create ConfigMaps in some namespace could pose as an agent with others.
    """
    owners = manifest["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == uid for owner in owners)


_READERS: dict[str, Callable[[Manifest, str], NodeTopology]] = {
    _CONFIG_MAP: topology_of_config_map,
    _NODE: topology_of_node,
}


def _documents(text: str | bytes, source: str) -> list[Any]:
    """Return the documents of a text; none if it is neither JSON nor like a manifest, and of use to other readers."""
    try:
        plain = (text if isinstance(text, str) else text.decode()).removeprefix("\ufeff")
        if plain.lstrip().startswith("{"):
            return [json.loads(plain, object_pairs_hook=_members)]
    except (ValueError, RecursionError):
        return []
    return parse_yaml(plain, source) if _MANIFEST.search(plain) else []


def _members(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a mapping. Raises ValueError if a member occurs twice, because readers may disagree about it."""
    found = dict(members)
    if len(found) < len(members):
        raise ValueError
    return found


def _objects(document: Any) -> list[Manifest]:
    """Return the ConfigMaps and Nodes of a document, which may be a List of them."""
    if not isinstance(document, Mapping):
        return []
    items = document.get("items") if document.get("kind") == _LIST else [document]
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, Mapping) and item.get("kind") in tuple(_READERS)]


def _checked_name(manifest: Manifest, kind: str, source: str) -> str:
    """Return the name of an object of this kind.

    Raises:
        FormatError: the object is of another kind, or has no valid name.
    """
    found = (manifest.get("apiVersion"), manifest.get("kind"))
    if found != (_VERSION, kind):
        raise FormatError(source, expected=f"a {kind} of {_VERSION}", found=f"{found[1]} of {found[0]}")
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or len(name) > NAME_LIMIT or not _NAME.fullmatch(name):
        raise FormatError(f"{source}: {kind}", expected="metadata.name, such as gpu-1", found=name or "nothing")
    return name


def _texts(value: Any, where: str) -> Mapping[Any, Any]:
    found = {} if value is None else value
    if not isinstance(found, Mapping):
        raise FormatError(where, expected="an object of texts", found=value)
    return found


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise FormatError(where, expected="a text", found=value)
    return value
