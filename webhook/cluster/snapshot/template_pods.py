"""The pods that the templates of workloads in manifests would make."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from webhook.cluster.redaction.objects import kept
from webhook.cluster.redaction.parts import part, parts
from webhook.cluster.snapshot.model import KnownPod, known_pod
from webhook.decisions.request.ranks import JOBSET_NAME, TRAINING_JOB
from webhook.objects.manifest.pods import decode_pod, to_json
from webhook.objects.manifest.templates import ManifestObject, Template
from webhook.words import names
from webhook.words.errors import ManifestError
from webhook.words.printable import printable

_KUBEFLOW = frozenset({"PyTorchJob", "MPIJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob"})
"""The kinds of the training operator; their pods have its label: kubeflow/training-operator
pkg/apis/kubeflow.org/v1/common_types.go."""


class FoundTemplate(NamedTuple):
    """A template of pods, and its file."""

    template: Template
    source: str
    namespace: str
    """The namespace of the pods."""


class TemplatePod(NamedTuple):
    """The pod that a template would make."""

    known: KnownPod
    document: Mapping[str, Any]
    """The whole pod, as its controller would send it."""
    template: Template
    source: str
    """The file of the template."""

    @property
    def workload(self) -> str:
        """The workload in words, such as ``Job team-a/train``."""
        owner = self.template.owner
        return printable(f"{owner.kind} {self.known.namespace}/{owner.name}")

    def is_of(self, kind: str, name: str) -> bool:
        """Return whether the template is of the workload of this kind, in small letters, and this name."""
        owner = self.template.owner
        return (owner.kind.lower(), owner.name) == (kind, name)


def template_pods(found: Iterable[FoundTemplate]) -> Iterator[TemplatePod]:
    """Yield the pods of templates. Those of a workload with several templates are named after their roles too.

    Raises:
        ManifestError: a template has a field of another type than in a pod.
    """
    every = list(found)
    number = Counter(id(each.template.owner) for each in every)
    for each in every:
        owner, part = each.template.owner, each.template.part
        name = f"{owner.name}-{part}" if part and number[id(owner)] > 1 else owner.name
        document = _document(each, name)
        yield TemplatePod(pod_of(document), document, each.template, each.source)


def pod_of(document: Mapping[str, Any]) -> KnownPod:
    """Return a pod of its whole document.

    Raises:
        ManifestError: a field has another type than in a pod.
    """
    reduced = kept(document)
    if reduced is None:
        raise TypeError("a pod is kept")
    return known_pod(reduced)


def ranks(workload: Any) -> int:
    """Return the number of pods that work together in a workload of a kind for training; 1 for other kinds."""
    kind, spec = workload.get("kind"), part(workload, "spec")
    if kind in _KUBEFLOW:
        roles = next((part(spec, key) for key in spec if str(key).endswith("ReplicaSpecs")), {})
        return sum(_count(part(roles, role), "replicas") for role in roles if role != "Launcher")
    if kind == "JobSet":
        jobs = parts(spec, "replicatedJobs")
        return sum(_count(job, "replicas") * _count(part(part(job, "template"), "spec"), "parallelism") for job in jobs)
    return _count(part(spec, "leaderWorkerTemplate"), "size") if kind == "LeaderWorkerSet" else 1


def _count(holder: Mapping[str, Any], key: str) -> int:
    number = holder.get(key)
    return number if isinstance(number, int) else 1


def _added_by_controller(owner: ManifestObject, size: int) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the labels and annotations that the controller of a training job puts on all its pods."""
    if owner.kind == "LeaderWorkerSet":
        return {names.LWS_GROUP: owner.name}, {names.LWS_SIZE: str(size)}
    return {JOBSET_NAME if owner.kind == "JobSet" else TRAINING_JOB: owner.name}, {}


def _document(found: FoundTemplate, name: str) -> dict[str, Any]:
    template = found.template
    metadata = template.value.get("metadata") or {}
    where = f"{found.source}: {template.owner.kind} {template.owner.name} ({template.path})"
    if not isinstance(metadata, Mapping):
        raise ManifestError(f"{where}: metadata: expected a mapping")
    named = {**metadata, "name": name, "namespace": found.namespace}
    size = ranks(template.owner.value)
    if size > 1:
        labels, annotations = _added_by_controller(template.owner, size)
        named["labels"] = {**part(metadata, "labels"), **labels}
        named["annotations"] = {**part(metadata, "annotations"), **annotations}
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": template.pod["spec"]}
    decode_pod(to_json(document, where), where)
    return document
