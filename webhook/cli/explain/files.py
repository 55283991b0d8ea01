"""A pod from files: manifests, and a state directory."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webhook.claims.known import KnownClaims
from webhook.cli.explain.known import Known, read_pod
from webhook.cli.inputs import read_claims
from webhook.cli.manifests import ManifestFile
from webhook.config import ClaimSettings
from webhook.explain.evidence import Reading
from webhook.explain.standing import NO_SIGNS, PlannerSigns
from webhook.manifest.claims import claim_objects
from webhook.manifest.documents import read_yaml
from webhook.manifest.manifest import Manifest
from webhook.manifest.pods import to_json
from webhook.manifest.templates import find_objects
from webhook.model import names
from webhook.model.cluster import ClusterFacts
from webhook.model.errors import FormatError, ManifestError, shorten
from webhook.model.pod import Namespace, Pod
from webhook.printable import printable
from webhook.resolve.node import Sources
from webhook.state.directory import DirectoryState, load_directory

_Found = list[tuple[bytes, Pod]]
_Documents = Sequence[tuple[Any, str]]
"""Each with the file in which it stands."""
_LISTED = 8


def known_from_files(wanted: tuple[str, str] | None, files: Sequence[ManifestFile] | None, state: Path | None) -> Known:
    """The pod in manifests or in ``pods/*.yaml`` of a state directory.

    Args:
        wanted: Namespace and name; may be missing where the manifests hold one pod.
        files: The manifests.
        state: The state directory.

    Raises:
        GpuTopologyError: a file cannot be read, or the pod is not there.
    """
    directory = load_directory(state) if state else None
    listed = _pods_of_state(state) if state else []
    documents = [
        (found.value, file.source) for file in files or () for found in Manifest(file.text, file.source).documents
    ]
    if files is None:
        document, pod = _choose(listed, wanted, f"{state}/pods")
    else:
        given = _pods_of_files(files, documents)
        document, pod = _choose(given, wanted, _sources(files))
        listed = [*given, *listed]
    return Known(
        document=document,
        pod=pod,
        namespace=_namespace(directory, _key(pod)[0]),
        cluster=directory.cluster() if directory else ClusterFacts(),
        group=lambda group: (_group([other for _, other in listed], pod, group), ""),
        node=lambda node: _node(directory, state, node),
        claims=lambda settings, _: _claims(pod, documents, state, settings),
        planner=_planner(directory, state),
    )


def _claims(pod: Pod, documents: _Documents, state: Path | None, settings: ClaimSettings) -> KnownClaims:
    """What the state directory and the files with the pod say about its claims."""
    found = read_claims(state, settings).joined(claim_objects(documents, names.DEFAULT_NAMESPACE))
    return found.known(pod, _key(pod)[0], settings)


def _node(directory: DirectoryState | None, state: Path | None, node: str) -> tuple[Sources, Reading]:
    if directory is None or state is None:
        return Sources(), Reading()
    shown = printable(str(state))
    show = f"--state {shlex.quote(shown)} --node {shlex.quote(printable(node))}"
    return directory.node(node), Reading(node_teller=f"state directory {shown}", show=show)


def _planner(directory: DirectoryState | None, state: Path | None) -> PlannerSigns:
    if directory is None:
        return NO_SIGNS
    is_alive = directory.cluster().has_planner
    said = "names one" if is_alive else "names none"
    return PlannerSigns(is_alive=is_alive, said=f"cluster.yaml of state directory {printable(str(state))} {said}")


def _namespace(directory: DirectoryState | None, name: str) -> Namespace:
    return directory.namespace(name) if directory else Namespace(name, known=False)


def _sources(files: Sequence[ManifestFile]) -> str:
    return files[0].source if len(files) == 1 else f"{files[0].source} and {len(files) - 1} more files"


def _pods_of_files(files: Sequence[ManifestFile], documents: _Documents) -> _Found:
    """Each Pod of some files. What else is among them, as in ``kubectl get all``, is passed over.

    Raises:
        ManifestError: there is something, but no Pod, or a field has another type than in a pod.
    """
    pods = [found for document, source in documents for found in _pods(document, source)]
    if documents and not pods:
        every = [found.value for document, _ in documents for found in find_objects(document)]
        if every:
            remedy = "Give the Pods themselves: kubectl get pods -l KEY=VALUE -o yaml"
            raise ManifestError(f"{_sources(files)}: expected Pods, found {_kind(every[0])}. {remedy}")
    return pods


def _pods_of_state(state: Path) -> _Found:
    paths = sorted((state / "pods").glob("*.yaml"))
    return [found for path in paths for document in read_yaml(path) for found in _pods(document, str(path))]


def _pods(document: Any, source: str) -> _Found:
    """Each Pod of a document, a List written out.

    Raises:
        ManifestError: a field has another type than in a pod.
    """
    texts = [to_json(found.value, source) for found in find_objects(document) if found.kind == "Pod"]
    return [(text, read_pod(text, source)) for text in texts]


def _kind(document: Any) -> str:
    """What a document is, in words."""
    if isinstance(document, dict):
        kind = document.get("kind")
        return shorten(kind) if isinstance(kind, str) else "an object without a kind"
    if isinstance(document, list):
        return "a list"
    return "nothing" if document is None else "a text" if isinstance(document, str) else "a single value"


def _key(pod: Pod) -> tuple[str, str]:
    metadata = pod.metadata
    return (metadata.namespace or "" if metadata else "", pod.display_name)


def _choose(pods: _Found, wanted: tuple[str, str] | None, source: str) -> tuple[bytes, Pod]:
    matching = [found for found in pods if wanted in (None, _key(found[1]))]
    if len(matching) == 1:
        return matching[0]
    there = ["/".join(_key(pod)) for _, pod in (matching or pods)]
    listed = ", ".join(there[:_LISTED]) + (f" and {len(there) - _LISTED} more" if len(there) > _LISTED else "")
    if wanted and not matching:
        namespaces = {namespace for namespace, _ in map(_key, (pod for _, pod in pods))}
        missing = f"pod {'/'.join(wanted)}" if wanted[0] in namespaces or not pods else f"pod of namespace {wanted[0]}"
        raise ManifestError(f"{source}: there is no {missing}" + (f"; the pods there are {listed}" if listed else ""))
    raise FormatError(
        source,
        expected=f"the pod {'/'.join(wanted)}, once" if wanted else "one Pod",
        found=listed or "no Pod",
        fix="" if wanted else "Name one: NAMESPACE/POD",
    )


def _group(pods: list[Pod], pod: Pod, group: str) -> tuple[Pod, ...]:
    """The others of a group: admission gives each of them the label."""
    return tuple(
        other
        for other in pods
        if other is not pod
        and _key(other)[0] == _key(pod)[0]
        and _key(other) != _key(pod)
        and group in (other.labels.get(names.GROUP), other.annotations.get(names.GROUP))
    )
