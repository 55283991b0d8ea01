"""A manifest of any workload kind, put through the admission core as if the API server had sent its pods."""

import json
from collections.abc import Iterator
from typing import Any

import jsonpatch
import msgspec

from webhook.admit.admission import admit
from webhook.admit.allocated import unknown_nodes
from webhook.config import AdmitPolicy
from webhook.manifest.documents import Manifest
from webhook.manifest.pods import decode_pod, to_json
from webhook.manifest.templates import Template, find_templates
from webhook.model import names
from webhook.model.cluster import ClusterFacts
from webhook.model.outcome import SENTENCES, Kind, Outcome
from webhook.model.patch import Operation
from webhook.model.pod import Namespace, Pod
from webhook.model.review import encode_patch
from webhook.state.directory import DirectoryState


class Injected(msgspec.Struct, frozen=True):
    """One pod template and what became of it."""

    document: int
    """Position of its document in the manifest."""
    label: str
    """How messages call it: ``Deployment prefill (/spec/template)``."""
    namespace: str
    path: str
    """JSON pointer from the document to the pod template; empty for a Pod."""
    pod: bytes
    """The pod before, as the JSON that the API server would send."""
    outcome: Outcome

    @property
    def patch(self) -> bytes:
        """The patch of the pod as the server sends it, empty if there is none."""
        return encode_patch(self.outcome.operations) if self.outcome.operations else b""

    @property
    def operations(self) -> list[Operation]:
        """The patch, with pointers from the document."""
        return [
            msgspec.structs.replace(operation, path=self.path + operation.path) for operation in self.outcome.operations
        ]


class Injection(msgspec.Struct, frozen=True):
    """A whole manifest and what became of its pods."""

    documents: int
    """How many documents it has."""
    templates: list[Injected]
    text: str
    """The manifest afterwards; the original text where nothing changed."""

    @property
    def refused(self) -> bool:
        """Whether some pod would not be allowed."""
        return any(not template.outcome.allowed for template in self.templates)

    def patches(self) -> list[list[Operation]]:
        """The patch of each document, empty where nothing changes."""
        patches: list[list[Operation]] = [[] for _ in range(self.documents)]
        for template in self.templates:
            patches[template.document].extend(template.operations)
        return patches

    def notes(self) -> Iterator[str]:
        """What became of the pods, one line each, where that is not simply an injection."""
        if not self.templates:
            yield "note: there is no pod template in it"
        for template in self.templates:
            if not template.outcome.allowed:
                yield f"refused: {template.label}: {template.outcome.message}"
            elif template.outcome.kind is Kind.SKIP:
                yield f"skipped: {template.label}: {SENTENCES[template.outcome.reason]}"
            for warning in template.outcome.warnings:
                yield f"warning: {template.label}: {warning}"


def inject_manifest(
    text: str, source: str, policy: AdmitPolicy, state: DirectoryState | None, *, default_namespace: str = "default"
) -> Injection:
    """Decide about each pod template of ``text`` and apply the patches to it.

    Args:
        text: YAML or JSON documents.
        source: What messages call them.
        policy: The configuration.
        state: Namespaces and versions; without it every namespace counts as opted in, with no permissions.
        default_namespace: For documents that name none.

    Raises:
        ManifestError: ``text`` is not YAML, or a pod template has a field of another type than in a pod.
    """
    manifest = Manifest(text, source)
    found = [
        _inject(index, document, template, policy, state, default_namespace)
        for index, document in enumerate(manifest.documents)
        for template in find_templates(document)
    ]
    for injected in found:
        apply_in_place(manifest.documents[injected.document], injected.operations)
    changed = any(injected.operations for injected in found)
    return Injection(len(manifest.documents), found, manifest.text() if changed else text)


def apply_in_place(document: Any, operations: list[Operation]) -> Any:
    """Apply a patch to ``document`` itself, which keeps comments and order of what it does not touch."""
    return jsonpatch.apply_patch(document, json.loads(encode_patch(operations)), in_place=True)


def read_pod(pod_json: bytes, document: Any, template: Template) -> Pod:
    """The pod that the API server would be asked to create from a template.

    Raises:
        ManifestError: a field that we read has another type than in a pod.
    """
    pod = decode_pod(pod_json, _label(document, template))
    if pod.metadata is None or pod.metadata.name:
        return pod
    metadata = msgspec.structs.replace(pod.metadata, generate_name=f"{_name(document)}-")
    return msgspec.structs.replace(pod, metadata=metadata)


def namespace_of(document: Any, default: str) -> str:
    """The namespace that a document names, else ``default``."""
    return str(_metadata(document).get("namespace") or default)


def _inject(
    index: int,
    document: Any,
    template: Template,
    policy: AdmitPolicy,
    state: DirectoryState | None,
    default_namespace: str,
) -> Injected:
    pod_json = to_json(template.value, _label(document, template))
    pod = read_pod(pod_json, document, template)
    name = namespace_of(document, default_namespace)
    namespace = state.namespace(name) if state else Namespace(name, {names.INJECTION: "enabled"})
    nodes = state.node if state else unknown_nodes
    outcome = admit(pod, namespace, policy, state.cluster() if state else ClusterFacts(), nodes=nodes, trace=True)
    return Injected(index, _label(document, template), name, template.path, pod_json, outcome)


def _metadata(document: Any) -> dict[str, Any]:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _name(document: Any) -> str:
    metadata = _metadata(document)
    return str(metadata.get("name") or metadata.get("generateName") or "pod").rstrip("-")


def _label(document: Any, template: Template) -> str:
    kind = document.get("kind", "object") if isinstance(document, dict) else "object"
    place = f" ({template.path})" if template.path else ""
    return f"{kind} {_name(document)}{place}"
