"""The documents of manifests and of state directories."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from webhook.cluster.files.manifests import ManifestFile
from webhook.cluster.files.state import DirectoryState, json_value, load_nodes, read_folder
from webhook.cluster.redaction.objects import SNAPSHOT, identity
from webhook.cluster.snapshot.directory import CLAIMS, OBJECTS, with_topologies, without_agent
from webhook.cluster.snapshot.documents import Documents
from webhook.cluster.snapshot.model import KnownPod, ToldOfWorkload
from webhook.cluster.snapshot.template_pods import FoundTemplate
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.claims import CLAIM, TEMPLATE
from webhook.objects.manifest.manifest import Manifest
from webhook.objects.manifest.pods import decode_pod, to_json
from webhook.objects.manifest.templates import (
    ManifestObject,
    find_bare_containers,
    find_objects,
    find_templates,
    misplaced_options,
)
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.opting import PODS_NOT_KNOWN
from webhook.words.errors import GpuTopologyError, shorten
from webhook.words.listing import listed
from webhook.words.nesting import decode
from webhook.words.patch import pointer
from webhook.words.printable import fitted

_OF_PODS = ("Pod", CLAIM, TEMPLATE)
"""The kinds that are in the namespace of a pod."""
_PLACES = 4
"""Places without a pod template that a message names."""


@dataclass(frozen=True, slots=True)
class FromFiles:
    """The content of files."""

    documents: Documents = field(default_factory=Documents)
    sources: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """The file of each object, by kind, namespace and name."""
    facts: ClusterFacts = field(default_factory=ClusterFacts)
    topologies: Mapping[str, NodeTopology] = field(default_factory=dict)
    given: list[KnownPod] = field(default_factory=list)
    """The pods of manifests."""
    others: list[str] = field(default_factory=list)
    """The further content of manifests, in words."""
    templates: list[FoundTemplate] = field(default_factory=list)
    """The templates of pods in manifests."""
    workloads: list[ToldOfWorkload] = field(default_factory=list)
    """What manifests show of workloads that their pods do not."""


def read_manifests(
    files: Iterable[ManifestFile], state: Path | None, *, are_strict: bool = False, default_namespace: str = ""
) -> FromFiles:
    """Read manifests together with a state directory.

    Args:
        files: The manifests.
        state: The state directory.
        are_strict: True if a field of another type in a pod of the manifests is always an error, used or not.
        default_namespace: The namespace of pods, of their claims, and of workloads that name none; empty to leave it
            open, and the templates of workloads unread.

    Raises:
        GpuTopologyError: a file cannot be read.
    """
    found = FromFiles()
    for file in files:
        for documents in _parts(file):
            if are_strict:
                _check_pods(documents, file.source)
            if default_namespace:
                _name_namespace(documents, default_namespace)
                found.templates.extend(_templates(documents, file.source, default_namespace))
            _look_at_workloads(found, documents, file.source)
            _add(found, documents, file.source)
            found.others.extend(_words(each) for each in _values(documents) if not _is_pod(each))
    found.given.extend(found.documents.pods)
    return found if state is None else _over_state(found, _read_state(state))


def _over_state(found: FromFiles, state: FromFiles) -> FromFiles:
    """Merge both. An object in both is taken from the manifests."""
    return replace(
        found,
        documents=state.documents.under(found.documents),
        sources=state.sources | found.sources,
        facts=state.facts,
        topologies=state.topologies,
    )


def _values(documents: Sequence[Any]) -> Iterator[Any]:
    return (found.value for document in documents for found in find_objects(document))


def _check_pods(documents: Sequence[Any], source: str) -> None:
    """Raises ManifestError if a field of a pod has another type than in a pod."""
    for document in documents:
        for found in find_objects(document):
            if found.kind == "Pod":
                decode_pod(to_json(found.value, source), source)


def _name_namespace(documents: Sequence[Any], namespace: str) -> None:
    """Write a namespace into the pods and claims that name none."""
    for document in documents:
        for found in find_objects(document):
            if found.kind in _OF_PODS and found.metadata and not found.namespace:
                found.value["metadata"]["namespace"] = namespace


def _templates(documents: Sequence[Any], source: str, namespace: str) -> Iterator[FoundTemplate]:
    """Yield the templates of workloads."""
    for document in documents:
        for template in find_templates(document):
            if not template.is_pod:
                yield FoundTemplate(template, source, template.owner.namespace or namespace)


def _look_at_workloads(found: FromFiles, documents: Sequence[Any], source: str) -> None:
    """Note the options that pods of workloads do not get, of one place once, and workloads whose pods are not known."""
    for document in documents:
        for owner, templates in groupby(find_templates(document), key=lambda template: template.owner):
            told = {
                message.text: message
                for template in templates
                for message in misplaced_options(template, in_object=True)
            }
            for message in told.values():
                _note_workload(found, owner, message, source)
        for owner in find_objects(document):
            if places := [pointer(*keys) for keys in find_bare_containers(owner)]:
                _note_workload(found, owner, PODS_NOT_KNOWN.say(places=listed(places, _PLACES)), source)


def _note_workload(found: FromFiles, owner: ManifestObject, message: Message, source: str) -> None:
    kind, name, namespace = (fitted(text) for text in (owner.kind, owner.name, owner.namespace))
    found.workloads.append(ToldOfWorkload(kind, namespace, name, message))
    found.sources.setdefault((kind, namespace, name), source)


def _is_pod(document: Any) -> bool:
    return isinstance(document, Mapping) and document.get("kind") in ("Pod", "PodList")


def _words(document: Any) -> str:
    """Describe a document in words."""
    if isinstance(document, Mapping):
        kind = document.get("kind")
        return shorten(kind) if isinstance(kind, str) else "an object without a kind"
    if isinstance(document, list):
        return "a list"
    return "nothing" if document is None else "a text" if isinstance(document, str) else "a single value"


class _List(msgspec.Struct):
    kind: str
    items: list[msgspec.Raw]


_LIST = msgspec.json.Decoder(_List)


def _parts(file: ManifestFile) -> Iterator[Sequence[Any]]:
    """Yield the documents of a file. The items of a list in JSON, which may be very long, come one by one."""
    listed = _as_list(file.text) if file.text.startswith("{") else None
    if listed is None:
        yield [json_value(document, file.source) for document in Manifest(file.text, file.source).documents]
        return
    for item in listed.items:
        yield [{"kind": listed.kind, "items": [msgspec.json.decode(item)]}]


def _as_list(text: str) -> _List | None:
    try:
        found = decode(_LIST, text)
    except msgspec.DecodeError:
        return None
    return found if found.kind.endswith("List") else None


_PARTS = ("namespaces", "nodes", "pods", CLAIMS, OBJECTS, "cluster.yaml")
"""The parts of a state directory, of which each may be missing."""


def _read_state(state: Path) -> FromFiles:
    if not any((state / part).exists() for part in _PARTS):
        said = f"expected a state directory with one of {', '.join(_PARTS)}, found none of them"
        raise GpuTopologyError(f"{state}: {said}")
    found = FromFiles(facts=DirectoryState(state).cluster())
    for folder in ("namespaces", "pods", CLAIMS, OBJECTS):
        for path, document in read_folder(state, folder):
            _add(found, [document], str(path), were_kept=folder == OBJECTS)
    topologies, others = load_nodes(state), found.documents.others
    if any(each["kind"] == SNAPSHOT for each in others):
        found.documents.others = with_topologies(others, topologies)
        topologies = without_agent(others, topologies)
    return replace(found, topologies=topologies)


def _add(found: FromFiles, documents: Sequence[Any], source: str, *, were_kept: bool = False) -> None:
    for document in found.documents.add(_objects(documents), were_kept=were_kept):
        found.sources.setdefault((document["kind"], *identity(document)), source)


def _objects(documents: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield each object, and those of lists singly. The items of a typed list have no kind of their own."""
    for document in documents:
        for each in find_objects(document):
            if isinstance(each.value, Mapping):
                yield {"apiVersion": "v1", **each.value, "kind": each.kind}
