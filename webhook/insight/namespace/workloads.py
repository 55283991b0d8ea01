"""The workloads of a namespace, each with what the webhook does with its new pods now and what it would do."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from webhook.cluster.snapshot.model import KnownPod, Snapshot
from webhook.cluster.snapshot.template_pods import TemplatePod
from webhook.decisions.admit.admission import admit
from webhook.decisions.options import is_output
from webhook.insight.analyze.pods import owner_of
from webhook.insight.explain.evidence import policy_for
from webhook.insight.namespace.plan import OPTED_IN
from webhook.objects.manifest.pods import decode_pod, to_json
from webhook.objects.pod import Namespace, Pod, decode_stored_pod
from webhook.words import names
from webhook.words.choices import Profile
from webhook.words.outcome import SENTENCES, Kind, Outcome, Reason
from webhook.words.printable import fitted, printable

_NOT_TOLD = (Reason.NO_GPU_REQUEST, Reason.MIRROR_POD)
_OF_SCHEDULERS = frozenset(
    {
        *names.HAMI_CHOICE,
        *(names.HAMI_MIG_ALLOCATIONS, names.VOLCANO_DEVICES_ALLOCATED, names.VOLCANO_ALLOCATED_NODE),
        names.KOORDINATOR_DEVICES_ALLOCATED,
    }
)
_LABELS = (names.PLACEMENT, names.GROUP)
_VOLUMES = frozenset({names.FILES_VOLUME, names.SHARED_MEMORY_VOLUME})
_VARIABLES = frozenset({names.ENV_DISABLE_CONTROL, names.ENV_NCCL_TOPO_FILE})
_OF_NODE_PEERS = frozenset({names.ENV_NCCL_HOSTID, names.ENV_NCCL_CUMEM_ENABLE, names.ENV_NVIDIA_VISIBLE_DEVICES})
"""Further variables that admission sets, to values that a user may write too, in this profile alone."""
_OF_ADMISSION = ("hostIPC", "hostPID", "shareProcessNamespace", "nodeName", "schedulingGates")


class Workload(NamedTuple):
    """What makes pods: a template, or pods that no known template makes."""

    label: str
    """Kind and name, such as ``Deployment train``."""
    pod: Pod
    """A new pod of it."""


class Group(NamedTuple):
    """Workloads of which the webhook says the same."""

    labels: tuple[str, ...]
    now: str
    """What it does with their new pods."""
    then: str
    """What it would do with them after the change."""
    warnings: tuple[str, ...]
    """Its warnings after the change."""
    lacks_inject: bool
    """Whether they would be injected if the namespace had ``inject``."""


def of_templates(templates: Iterable[TemplatePod]) -> Iterator[Workload]:
    """Yields the workloads of templates.

    Raises:
        ManifestError: a template has a field of another type than in a pod.
    """
    for made in templates:
        pod = decode_pod(to_json(made.document, made.source), made.source)
        yield Workload(printable(f"{made.template.owner.kind} {made.known.name}"), pod)


def of_pods(pods: Iterable[KnownPod], namespace: str, covered: Collection[str]) -> Iterator[Workload]:
    """Yields the pods of a namespace that no workload of ``covered``, named by kind and name, has made."""
    for known in pods:
        owner = owner_of(known.pod)
        if known.namespace == namespace and owner not in covered:
            yield Workload(owner or printable(f"Pod {known.name}"), as_new(known.document))


def groups(workloads: Iterable[Workload], now: Namespace, then: Namespace, snapshot: Snapshot) -> list[Group]:
    """Returns the outcomes for the workloads that ask for GPUs, like ones together.

    Args:
        workloads: The workloads.
        now: The namespace as it is.
        then: The namespace as it is to be.
        snapshot: The cluster.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    found: dict[tuple[str, str, tuple[str, ...], bool], dict[str, None]] = {}
    opted_in = Namespace(then.name, {**then.labels, **OPTED_IN}, then.annotations)
    for label, pod in sorted(workloads, key=lambda workload: workload.label):
        if _outcome(pod, opted_in, snapshot).reason in _NOT_TOLD:  # it says so only where a namespace has opted in
            continue
        before, after = _outcome(pod, now, snapshot), _outcome(pod, then, snapshot)
        key = (_verdict(before), _verdict(after), tuple(after.warnings), after.reason is Reason.NOT_REQUESTED)
        found.setdefault(key, {})[label] = None
    return [Group(tuple(labels), *key) for key, labels in found.items()]


def _outcome(pod: Pod, namespace: Namespace, snapshot: Snapshot) -> Outcome:
    policy = policy_for(pod, snapshot.policy, is_configured=snapshot.setting.is_configured)
    specs = snapshot.claims.of(pod, namespace.name).specs(pod) if policy.claims.enabled else {}
    return admit(pod, namespace, policy, snapshot.facts, nodes=snapshot.sources, claim_specs=specs, trace=True)


def _verdict(outcome: Outcome) -> str:
    if not outcome.allowed:
        return f"refused: {fitted(outcome.message)}"
    if outcome.reason is Reason.OBSERVED:
        return f"observed: the warnings say what profile {outcome.profile} would do"
    if not outcome.profile:
        return f"left as they are: {SENTENCES[outcome.reason]}"
    lacking = f", with a loss: {SENTENCES[outcome.reason]}" if outcome.kind is Kind.DEGRADED else ""
    return f"injected with profile {outcome.profile}{lacking}"


def as_new(document: bytes) -> Pod:
    """Returns the pod of a stored document without what was written to it since it was created, as a new one.

    What admission replaced or completed, such as requests for whole cards, is not known any more and stays.

    Raises:
        msgspec.DecodeError: a field has another type than in a pod.
    """
    pod: dict[str, Any] = msgspec.json.decode(document)
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = metadata.get("annotations", {})
    metadata["annotations"] = {key: value for key, value in annotations.items() if not _was_written(key)}
    if names.INJECTED in annotations:
        labels = metadata.get("labels", {})
        metadata["labels"] = {key: value for key, value in labels.items() if key not in _LABELS}
        _strip(spec, was_node_peers=annotations[names.INJECTED].endswith(f" {Profile.NODE_PEERS}"))
    spec.pop("nodeName", None)
    return decode_stored_pod(msgspec.json.encode(pod))


def _was_written(key: str) -> bool:
    return is_output(key) or key in _OF_SCHEDULERS


def _strip(spec: dict[str, Any], *, was_node_peers: bool) -> None:
    """Removes what admission adds to the spec of a pod."""
    added = _VARIABLES | _OF_NODE_PEERS if was_node_peers else _VARIABLES
    for field in _OF_ADMISSION:
        spec.pop(field, None)
    spec["volumes"] = _without(spec.get("volumes"), _VOLUMES)
    for field in ("initContainers", "containers"):
        spec[field] = [dict(_stripped(each, added)) for each in _without(spec.get(field), {names.REMAP_CONTAINER})]


def _stripped(container: Mapping[str, Any], added: frozenset[str]) -> Iterator[tuple[str, Any]]:
    for key, value in container.items():
        if key == "volumeMounts":
            yield key, _without(value, _VOLUMES)
        elif key == "env":
            yield key, [each for each in value if not _is_added(each, added)]
        else:
            yield key, value


def _is_added(variable: Mapping[str, Any], added: frozenset[str]) -> bool:
    """Returns whether admission adds such a variable."""
    path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
    name = variable["name"]
    return name in added or name.startswith(names.REMAP_ENV_PREFIX) or names.PREFIX in path


def _without(found: list[dict[str, Any]] | None, unwanted: Collection[str]) -> list[dict[str, Any]]:
    return [each for each in found or () if each.get("name") not in unwanted]
