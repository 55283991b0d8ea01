"""The injection of a manifest of any workload kind, as if the API server had sent its pods."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

import jsonpatch
import msgspec

from webhook.cli.workload.advice import SAYS_HOW_TO_ASK, how_to_ask, pods_made_elsewhere
from webhook.cli.workload.versions import depends_on_versions
from webhook.cluster.files.claim_manifests import NO_OBJECTS, claim_objects
from webhook.decisions.admit.admission import admit
from webhook.decisions.admit.allocated_pods import Nodes, unknown_nodes
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.resolve.node import Sources
from webhook.objects.claims import ClaimSpec
from webhook.objects.manifest.manifest import Manifest
from webhook.objects.manifest.pods import decode_pod, to_json
from webhook.objects.manifest.templates import Template, find_objects, find_templates, misplaced_options
from webhook.objects.pod import Namespace, Pod
from webhook.objects.review import encode_patch
from webhook.words import names
from webhook.words.names import DEFAULT_NAMESPACE
from webhook.words.outcome import SENTENCES, Kind, Outcome
from webhook.words.patch import Operation

_TRIED = 64
"""The number of pods whose dependence on versions is tried: pods are alike, and each costs 15 decisions."""


class Injected(msgspec.Struct, frozen=True):
    """One pod template with its outcome."""

    document: int
    """The position of its document in the manifest."""
    label: str
    """The name in messages: ``Deployment prefill (/spec/template)``."""
    namespace: str
    template: Template
    """The template with its place in the document."""
    pod: bytes
    """The pod before, as the JSON that the API server would send."""
    outcome: Outcome
    version_dependent: frozenset[str]
    """The parts of the outcome that depend on unknown versions."""

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
        """Yield the outcome of the pod, and facts for its author, one line each."""
        outcome = self.outcome
        if not outcome.allowed:
            yield f"refused: {self.label}: {outcome.message}"
        elif outcome.kind is Kind.SKIP:
            yield f"skipped: {self.label}: {SENTENCES[outcome.reason]}{how_to_ask(outcome.reason, self.template)}"
        warnings = [warning for warning in outcome.warnings if warning != SAYS_HOW_TO_ASK]
        misplaced = [message.advice for message in misplaced_options(self.template)]
        for warning in (*warnings, *misplaced):
            yield f"warning: {self.label}: {warning}"


class Injection(msgspec.Struct, frozen=True):
    """A whole manifest with the outcomes of its pods."""

    documents: int
    """The number of its documents, without empty ones."""
    templates: list[Injected]
    text: str
    """The manifest afterwards. Unchanged documents are byte for byte as before."""
    before: str
    """The manifest before, in the layout of ``text``, so that both differ by changes alone."""
    is_json: bool
    """True if it is a stream of JSON documents."""
    elsewhere: list[str]
    """Notes about objects whose pods other controllers make."""

    @property
    def refused(self) -> bool:
        """True if some pod would not be allowed."""
        return any(not template.outcome.allowed for template in self.templates)

    @property
    def version_dependent(self) -> frozenset[str]:
        """The parts of the outcomes that depend on unknown versions."""
        return frozenset[str]().union(*(template.version_dependent for template in self.templates))

    def patches(self) -> list[list[Operation]]:
        """Return the patch of each document; empty if nothing changes."""
        patches: list[list[Operation]] = [[] for _ in range(self.documents)]
        for template in self.templates:
            patches[template.document].extend(template.operations)
        return patches

    def notes(self) -> Iterator[str]:
        """Yield the outcomes of the pods that are more than a plain injection, one line each."""
        for template in self.templates:
            yield from template.notes()
        yield from self.elsewhere


class Surroundings(Protocol):
    """The known facts about the cluster to which a manifest goes."""

    def namespace(self, name: str) -> Namespace:
        """Return the namespace; one with ``known`` unset if there is none."""

    def cluster(self) -> ClusterFacts:
        """Return the versions of HAMi and Kubernetes, as far as they are known."""

    def node(self, name: str) -> Sources:
        """Return the known facts about the GPUs of a node; empty if there are none."""


class ClaimSpecs(Protocol):
    """The known facts about the resource claims of pods."""

    def specs(self, pod: Pod, namespace: str) -> Mapping[str, ClaimSpec | None]:
        """Return the requests of a pod's claims, by entries of ``spec.resourceClaims``; ``None`` if not known."""


def inject_manifest(
    text: str,
    source: str,
    policy: AdmitPolicy,
    state: Surroundings | None,
    *,
    default_namespace: str = DEFAULT_NAMESPACE,
) -> Injection:
    """Inject a text as :func:`inject` does.

    Raises:
        ManifestError: ``text`` is not YAML, or a pod template has a field of another type than in a pod.
        FormatError: as for :func:`inject`.
    """
    return inject(Manifest(text, source), policy, state, default_namespace=default_namespace)


def inject(
    manifest: Manifest,
    policy: AdmitPolicy,
    state: Surroundings | None,
    *,
    default_namespace: str = DEFAULT_NAMESPACE,
    claims: ClaimSpecs = NO_OBJECTS,
) -> Injection:
    """Decide about each pod template of a manifest and apply the patches to it.

    Args:
        manifest: YAML or JSON documents.
        policy: The configuration.
        state: Namespaces and versions; without it every namespace counts as opted in, with no permissions.
        default_namespace: The namespace of documents that name none.
        claims: The known resource claims beside those of the manifest.

    Raises:
        ManifestError: a pod template has a field of another type than in a pod.
        FormatError: a ResourceClaim or a template cannot be read, and the configuration enables claims.
    """
    documents, source = manifest.documents, manifest.source
    templates = [(index, found) for index, document in enumerate(documents) for found in find_templates(document)]
    own = NO_OBJECTS
    if policy.claims.enabled:
        own = claim_objects(((document, source) for document in documents), default_namespace)
    both = FirstOf(own, claims)
    injected = [
        _inject(index, template, source, policy, state, default_namespace, claims=both, tries_versions=number < _TRIED)
        for number, (index, template) in enumerate(templates)
    ]
    changes: dict[int, list[Injected]] = {}
    for template in injected:
        if template.outcome.operations:
            changes.setdefault(template.document, []).append(template)
    before, after = manifest.changed({index: partial(_apply, several) for index, several in changes.items()})
    objects = [found for document in documents for found in find_objects(document)]
    elsewhere = [note for found in objects for note in pods_made_elsewhere(found)]
    return Injection(len(documents), injected, after, before, manifest.is_json, elsewhere)


class FirstOf(NamedTuple):
    """The :class:`ClaimSpecs` of a manifest, and others behind it."""

    own: ClaimSpecs
    others: ClaimSpecs

    def specs(self, pod: Pod, namespace: str) -> Mapping[str, ClaimSpec | None]:
        """Return the requests, first from the manifest. The others are only read if it leaves something open."""
        own = self.own.specs(pod, namespace)
        if None not in own.values():
            return own
        return {**self.others.specs(pod, namespace), **{entry: spec for entry, spec in own.items() if spec}}


def apply_in_place(document: Any, operations: list[Operation]) -> Any:
    """Apply a patch to ``document`` itself, which keeps the comments and order of unchanged parts."""
    return jsonpatch.apply_patch(document, json.loads(encode_patch(operations)), in_place=True)


def read_pod(pod_json: bytes, template: Template, source: str) -> Pod:
    """Return the pod that the API server would create from a template; messages call it ``source``.

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


def _inject(  # noqa: PLR0913 - the place of a pod, and the inputs of a decision
    index: int,
    template: Template,
    source: str,
    policy: AdmitPolicy,
    state: Surroundings | None,
    default_namespace: str,
    *,
    claims: ClaimSpecs,
    tries_versions: bool,
) -> Injected:
    label = _label(template)
    pod_json = to_json(template.pod, f"{source}: {label}")
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
