"""The workloads of a namespace, each with what the webhook does with its pods now and what it would do."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from webhook.cluster.snapshot.model import KnownPod, Snapshot
from webhook.cluster.snapshot.template_pods import TemplatePod
from webhook.decisions.admit.admission import admit
from webhook.decisions.configuration import AdmitPolicy
from webhook.insight.analyze.pods import owner_of
from webhook.insight.explain.evidence import policy_for
from webhook.insight.namespace.meaning import ON
from webhook.insight.namespace.new_pod import as_new
from webhook.objects.claims import ClaimSpec
from webhook.objects.manifest.pods import decode_pod, to_json
from webhook.objects.manifest.templates import misplaced_options
from webhook.objects.pod import Namespace, Pod
from webhook.words import names
from webhook.words.catalogue.entry import Message
from webhook.words.outcome import Outcome, Reason
from webhook.words.printable import printable

_NOT_TOLD = (Reason.NO_GPU_REQUEST, Reason.MIRROR_POD)


class Workload(NamedTuple):
    """What makes pods: a template, or pods that no known template makes."""

    label: str
    """Kind and name, such as ``Deployment train``."""
    pod: Pod
    """A new pod of it."""
    is_running: bool
    """Whether the pod is one that runs, as far as it is known what it had before admission, and no template."""
    misplaced: tuple[Message, ...] = ()
    """What is to be told of options on the workload that its template lacks."""


class Trial(NamedTuple):
    """A workload with the outcome of admission for a new pod of it."""

    workload: Workload
    pods: int
    """The number of pods in the cluster that are judged alike; 0 for a template."""
    now: Outcome
    then: Outcome

    @property
    def is_alike(self) -> bool:
        """Whether the change makes no difference to it."""
        return self.now == self.then

    @property
    def is_newly_refused(self) -> bool:
        """Whether its new pods are refused only afterwards."""
        return self.now.allowed and not self.then.allowed


def of_templates(templates: Iterable[TemplatePod]) -> Iterator[Workload]:
    """Yields the workloads of templates.

    Raises:
        ManifestError: a template has a field of another type than in a pod.
    """
    for made in templates:
        pod = decode_pod(to_json(made.document, made.source), made.source)
        label, misplaced = printable(f"{made.template.owner.kind} {made.known.name}"), misplaced_options(made.template)
        yield Workload(label, pod, is_running=False, misplaced=tuple(misplaced))


def of_pods(pods: Iterable[KnownPod], namespace: str, covered: Collection[str]) -> Iterator[Workload]:
    """Yields the pods of a namespace that no workload of ``covered``, named by kind and name, has made."""
    for known in pods:
        owner = owner_of(known.pod)
        if known.namespace == namespace and owner not in covered:
            yield Workload(owner or printable(f"Pod {known.name}"), as_new(known.document), is_running=True)


def trials(workloads: Iterable[Workload], now: Namespace, then: Namespace, snapshot: Snapshot) -> list[Trial]:
    """Returns the outcomes for the workloads that ask for GPUs. Pods of one owner that are judged alike are one.

    Args:
        workloads: The workloads.
        now: The namespace as it is.
        then: The namespace as it is to be.
        snapshot: The cluster.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    found: dict[tuple[str, ...], Trial] = {}
    for number, workload in enumerate(workloads):
        if not _is_told(workload, then, snapshot):
            continue
        before, after = _outcome(workload, now, snapshot), _outcome(workload, then, snapshot)
        own = (before.kind, before.reason, after.kind, after.reason, before.profile, after.profile)
        key = (workload.label, *own) if workload.is_running else (workload.label, str(number))
        pods = found[key].pods if key in found else 0
        first = found[key].workload if key in found else workload
        found[key] = Trial(first, pods + workload.is_running, before, after)
    return sorted(found.values(), key=lambda trial: trial.workload.label)


def _is_told(workload: Workload, then: Namespace, snapshot: Snapshot) -> bool:
    """Returns whether a workload asks for GPUs. Only in a namespace that has opted in does admission say so."""
    opted_in = Namespace(then.name, {**then.labels, names.INJECTION: ON[names.INJECTION]}, then.annotations)
    return _outcome(workload, opted_in, snapshot).reason not in _NOT_TOLD


def inputs(pod: Pod, namespace: str, snapshot: Snapshot) -> tuple[AdmitPolicy, Mapping[str, ClaimSpec | None]]:
    """Returns the configuration for a pod, and the specs of its resource claims.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    policy = policy_for(pod, snapshot.policy, is_configured=snapshot.setting.is_configured)
    return policy, snapshot.claims.of(pod, namespace).specs(pod) if policy.claims.enabled else {}


def _outcome(workload: Workload, namespace: Namespace, snapshot: Snapshot) -> Outcome:
    policy, specs = inputs(workload.pod, namespace.name, snapshot)
    facts, nodes = snapshot.facts, snapshot.sources
    return admit(workload.pod, namespace, policy, facts, nodes=nodes, claim_specs=specs, trace=True)
