"""The documents of manifests and of state directories."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from webhook.analyze.kept import SNAPSHOT, identity
from webhook.cli.manifests import ManifestFile
from webhook.cli.snapshot.documents import Documents
from webhook.manifest.documents import read_yaml
from webhook.manifest.manifest import Manifest
from webhook.manifest.pods import to_json
from webhook.manifest.templates import find_objects
from webhook.model.cluster import ClusterFacts
from webhook.model.nesting import decode
from webhook.state.directory import load_directory
from webhook.state.nodes import load_nodes
from webhook.topology.model import NodeTopology

CLAIMS = "claims"
"""Folder of a state directory with what is known of claims, which other commands read too."""
OBJECTS = "objects"
"""Folder of a state directory with what is known of a cluster beside its pods, namespaces and topologies."""


@dataclass(frozen=True, slots=True)
class FromFiles:
    """What files say."""

    documents: Documents = field(default_factory=Documents)
    sources: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """The file of each object, by kind, namespace and name."""
    facts: ClusterFacts = field(default_factory=ClusterFacts)
    topologies: Mapping[str, NodeTopology] = field(default_factory=dict)


def read_manifests(files: Iterable[ManifestFile], state: Path | None) -> FromFiles:
    """What manifests and a state directory say together.

    Raises:
        GpuTopologyError: a file cannot be read.
    """
    found = _read_state(state) if state else FromFiles()
    for file in files:
        for documents in _parts(file):
            _add(found, documents, file.source)
    return found


class _List(msgspec.Struct):
    kind: str
    items: list[msgspec.Raw]


_LIST = msgspec.json.Decoder(_List)


def _parts(file: ManifestFile) -> Iterator[Sequence[Any]]:
    """The documents of a file; those of a list in JSON, which may be very long, one by one."""
    listed = _as_list(file.text) if file.text.startswith("{") else None
    if listed is None:
        documents = [document.value for document in Manifest(file.text, file.source).documents]
        yield [msgspec.json.decode(to_json(document, file.source)) for document in documents]
        return
    for item in listed.items:
        yield [{"kind": listed.kind, "items": [msgspec.json.decode(item)]}]


def _as_list(text: str) -> _List | None:
    try:
        found = decode(_LIST, text)
    except msgspec.DecodeError:
        return None
    return found if found.kind.endswith("List") else None


def _read_state(state: Path) -> FromFiles:
    found = FromFiles(facts=load_directory(state).cluster())
    for folder in ("namespaces", "pods", CLAIMS, OBJECTS):
        for path in sorted((state / folder).glob("*.yaml")):
            for documents in _parts_of_state(path):
                _add(found, documents, str(path), were_kept=folder == OBJECTS)
    if not any(each["kind"] == SNAPSHOT for each in found.documents.others):  # which has them as ConfigMaps
        return replace(found, topologies=load_nodes(state))
    return found


def _parts_of_state(path: Path) -> Iterator[Sequence[Any]]:
    """The documents of a file; those of a list in JSON, as ``state save`` writes them, one by one."""
    listed = _as_list(_json_text(path))
    for item in listed.items if listed else ():
        yield [{"kind": "List", "items": [msgspec.json.decode(item)]}]
    if listed is None:  # YAML has dates, which are texts in Kubernetes
        yield [msgspec.json.decode(to_json(each, str(path))) for each in read_yaml(path)]


def _json_text(path: Path) -> str:
    """The text of a file that may be JSON; empty for others, and for what cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    return text if text.startswith("{") else ""


def _add(found: FromFiles, documents: Sequence[Any], source: str, *, were_kept: bool = False) -> None:
    for document in found.documents.add(_objects(documents), were_kept=were_kept):
        found.sources.setdefault((document["kind"], *identity(document)), source)


def _objects(documents: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """Each object, those of lists written out. The items of a typed list have no kind of their own."""
    for document in documents:
        for each in find_objects(document):
            if isinstance(each.value, Mapping):
                yield {"apiVersion": "v1", **each.value, "kind": each.kind}
