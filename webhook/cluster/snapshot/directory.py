"""A snapshot as the files of a state directory, which other commands read too.

The files are JSON, which is YAML but a hundred times as fast to read. Each topology stands in ``nodes/*.json`` alone,
and not in the ConfigMap of its agent too.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from webhook.cluster.redaction.objects import Object, identity
from webhook.cluster.snapshot.documents import ReadSnapshot
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.claims import KINDS
from webhook.words import names
from webhook.words.errors import GpuTopologyError
from webhook.words.node_names import config_map_name, fitted

CLAIMS = "claims"
"""The folder of a state directory with the claims, which other commands read too."""
OBJECTS = "objects"
"""The folder of a state directory with a cluster's other objects, without pods, namespaces and topologies."""

_NAME_LIMIT = 200
"""The most bytes of a file name without its ending; systems allow 255 bytes."""


def check_target(directory: Path) -> None:
    """Check that a state may be written to the directory.

    Raises:
        GpuTopologyError: the path is no directory, or it is not empty.
    """
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise GpuTopologyError(f"{directory}: expected a directory, found something else")
    if directory.exists() and any(directory.iterdir()):
        raise GpuTopologyError(f"{directory}: expected an empty directory, found files. Name another")


def files_of(read: ReadSnapshot) -> dict[str, bytes]:
    """Return the files to write, by paths within the directory."""
    files = {
        _path("pods", f"{each.namespace}.{each.name}", "yaml"): _indented(each.document) for each in read.snapshot.pods
    }
    published = {node.name: node.published.topology for node in read.snapshot.nodes.values() if node.published}
    others: dict[str, list[Object]] = {}
    for document in without_topologies(read.documents.others, published):
        if document["kind"] == "Namespace":
            files[_path("namespaces", identity(document)[1], "yaml")] = _json(document)
        else:
            others.setdefault(document["kind"], []).append(document)
    for kind, found in others.items():
        folder = CLAIMS if kind in KINDS else OBJECTS
        files[f"{folder}/{kind.lower()}.yaml"] = _json({"apiVersion": "v1", "kind": "List", "items": found})
    for node, topology in published.items():
        files[_path("nodes", node, "json")] = format_topology(topology, indent=1).encode() + b"\n"
    files["cluster.yaml"] = _json(_facts(read))
    return files


def _path(folder: str, name: str, ending: str) -> str:
    """Return the path of a file. Names of objects have no slash, and begin with no dot."""
    return f"{folder}/{fitted(name.replace('/', '_').lstrip('.'), _NAME_LIMIT)}.{ending}"


def _facts(read: ReadSnapshot) -> dict[str, Any]:
    facts = read.snapshot.facts
    found = {
        "hamiVersion": str(facts.hami) if facts.hami else None,
        "kubernetesVersion": str(facts.kubernetes) if facts.kubernetes else None,
        "claimedResources": None if facts.claimed is None else sorted(facts.claimed),
        "hamiDra": facts.has_hami_dra,
        "withoutHami": facts.lacks_hami,
        "planner": facts.has_planner,
    }
    return {key: value for key, value in found.items() if value not in (None, False)}


def _json(document: Any) -> bytes:
    return json.dumps(document, indent=1).encode() + b"\n"


def _indented(document: bytes) -> bytes:
    return msgspec.json.format(document, indent=1) + b"\n"


def kinds(files: Mapping[str, bytes]) -> dict[str, int]:
    """Return the number of files in each folder."""
    return dict(Counter(path.rpartition("/")[0] or path for path in files))


def write(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write the files.

    Raises:
        GpuTopologyError: the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            target = directory / path
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content)
    except OSError as error:
        raise GpuTopologyError(f"{error.filename}: cannot be written: {error.strerror}") from None


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
