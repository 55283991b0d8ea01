"""A manifest of any workload kind, put through the admission core as if the API server had sent its pods."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import jsonpatch
import msgspec

from webhook.admit.admission import admit
from webhook.admit.allocated import Nodes, unknown_nodes
from webhook.config import AdmitPolicy
from webhook.manifest.claims import NO_OBJECTS, ClaimObjects, claim_objects
from webhook.manifest.manifest import Manifest
from webhook.manifest.pods import decode_pod, to_json
from webhook.manifest.templates import Template, find_objects, find_templates
from webhook.model import names
from webhook.model.cluster import ClusterFacts
from webhook.model.outcome import SENTENCES, Kind, Outcome
from webhook.model.patch import Operation
from webhook.model.pod import Namespace, Pod
from webhook.model.review import encode_patch
from webhook.state.directory import DirectoryState
from webhook.workload.advice import SAYS_HOW_TO_ASK, how_to_ask, misplaced_options, pods_made_elsewhere
from webhook.workload.versions import depends_on_versions

_TRIED = 64
"""Of how many pods it is tried what depends on versions: they are alike, and each costs 15 decisions."""


class Injected(msgspec.Struct, frozen=True):
    """One pod template and what became of it."""

    document: int
    """Position of its document in the manifest."""
    label: str
    """How messages call it: ``Deployment prefill (/spec/template)``."""
    namespace: str
    template: Template
    """Where it stands."""
    pod: bytes
    """The pod before, as the JSON that the API server would send."""
    outcome: Outcome
    version_dependent: frozenset[str]
    """What of the outcome depends on versions that are not known."""

    @property
    def patch(self) -> bytes:
        """The patch of the pod as the server sends it, empty if there is none."""
        return encode_patch(self.outcome.operations) if self.outcome.operations else b""

    @property
    def operations(self) -> list[Operation]:
        """The patch, with pointers from the document."""
        path = self.template.path
        return [msgspec.structs.replace(operation, path=path + operation.path) for operation in self.outcome.operations]

    def notes(self) -> Iterator[str]:
        """What became of the pod, and what its author has to know, one line each."""
        outcome = self.outcome
        if not outcome.allowed:
            yield f"refused: {self.label}: {outcome.message}"
        elif outcome.kind is Kind.SKIP:
            yield f"skipped: {self.label}: {SENTENCES[outcome.reason]}{how_to_ask(outcome.reason, self.template)}"
        warnings = [warning for warning in outcome.warnings if warning != SAYS_HOW_TO_ASK]
        for warning in (*warnings, *misplaced_options(self.template)):
            yield f"warning: {self.label}: {warning}"


class Injection(msgspec.Struct, frozen=True):
    """A whole manifest and what became of its pods."""

    documents: int
    """How many documents it has; empty ones do not count."""
    templates: list[Injected]
    text: str
    """The manifest afterwards. Documents in which nothing changes are byte for byte as they were."""
    is_json: bool
    """Whether it is a stream of JSON documents."""
    elsewhere: list[str]
    """Notes about objects whose pods others make."""

    @property
    def refused(self) -> bool:
        """Whether some pod would not be allowed."""
        return any(not template.outcome.allowed for template in self.templates)

    @property
    def version_dependent(self) -> frozenset[str]:
        """What of it depends on versions that are not known."""
        return frozenset[str]().union(*(template.version_dependent for template in self.templates))

    def patches(self) -> list[list[Operation]]:
        """The patch of each document, empty where nothing changes."""
        patches: list[list[Operation]] = [[] for _ in range(self.documents)]
        for template in self.templates:
            patches[template.document].extend(template.operations)
        return patches

    def notes(self) -> Iterator[str]:
        """What became of the pods, one line each, where that is not simply an injection."""
        for template in self.templates:
            yield from template.notes()
        yield from self.elsewhere


def inject_manifest(
    text: str,
    source: str,
    policy: AdmitPolicy,
    state: DirectoryState | None,
    *,
    default_namespace: str = "default",
    claims: ClaimObjects = NO_OBJECTS,
) -> Injection:
    """Decide about each pod template of ``text`` and apply the patches to it.

    Args:
        text: YAML or JSON documents.
        source: What messages call them.
        policy: The configuration.
        state: Namespaces and versions; without it every namespace counts as opted in, with no permissions.
        default_namespace: For documents that name none.
        claims: What is known of resource claims beside those of ``text``.

    Raises:
        ManifestError: ``text`` is not YAML, or a pod template has a field of another type than in a pod.
        FormatError: ``text`` has a ResourceClaim or a template that cannot be read, and the configuration has claims
            looked at.
    """
    manifest = Manifest(text, source)
    documents = manifest.documents
    templates = [(index, found) for index, document in enumerate(documents) for found in find_templates(document.value)]
    if policy.claims.enabled:
        own = claim_objects(((document.value, source) for document in documents), default_namespace)
        claims = claims.joined(own)
    injected = [
        _inject(
            index, template, source, policy, state, default_namespace, claims=claims, tries_versions=number < _TRIED
        )
        for number, (index, template) in enumerate(templates)
    ]
    changes: dict[int, list[Injected]] = {}
    for template in injected:
        if template.outcome.operations:
            changes.setdefault(template.document, []).append(template)
    after = manifest.text({index: partial(_apply, several) for index, several in changes.items()})
    objects = [found for document in documents for found in find_objects(document.value)]
    elsewhere = [note for found in objects for note in pods_made_elsewhere(found)]
    return Injection(len(documents), injected, after, manifest.is_json, elsewhere)


def apply_in_place(document: Any, operations: list[Operation]) -> Any:
    """Apply a patch to ``document`` itself, which keeps comments and order of what it does not touch."""
    return jsonpatch.apply_patch(document, json.loads(encode_patch(operations)), in_place=True)


def read_pod(pod_json: bytes, template: Template, source: str) -> Pod:
    """The pod that the API server would be asked to create from a template; ``source`` is what messages call it.

    Raises:
        ManifestError: a field that we read has another type than in a pod.
    """
    pod = decode_pod(pod_json, source)
    if pod.metadata is None or pod.metadata.name:
        return pod
    metadata = msgspec.structs.replace(pod.metadata, generate_name=f"{template.owner.name}-")
    return msgspec.structs.replace(pod, metadata=metadata)


def _apply(injected: list[Injected], document: Any) -> None:
    for template in injected:
        node = document
        for key in template.template.keys:
            node = node[key]
        apply_in_place(node, template.outcome.operations)


def _inject(  # noqa: PLR0913 - where a pod stands, and what a decision is made of
    index: int,
    template: Template,
    source: str,
    policy: AdmitPolicy,
    state: DirectoryState | None,
    default_namespace: str,
    *,
    claims: ClaimObjects,
    tries_versions: bool,
) -> Injected:
    label = _label(template)
    pod_json = to_json(template.value, f"{source}: {label}")
    pod = read_pod(pod_json, template, f"{source}: {label}")
    name = template.owner.namespace or default_namespace
    namespace = state.namespace(name) if state else Namespace(name, {names.INJECTION: "enabled"})
    nodes: Nodes = state.node if state else unknown_nodes
    cluster = state.cluster() if state else ClusterFacts()
    specs = claims.specs(pod, name) if policy.claims.enabled else {}
    outcome = admit(pod, namespace, policy, cluster, nodes=nodes, claim_specs=specs, trace=True)
    dependent = frozenset[str]()
    if tries_versions:
        dependent = depends_on_versions(pod, namespace, policy, cluster, outcome, specs)
    return Injected(index, label, name, template, pod_json, outcome, dependent)


def _label(template: Template) -> str:
    owner = template.owner
    place = f" ({template.path})" if template.keys else ""
    return f"{owner.kind} {owner.name}{place}"
