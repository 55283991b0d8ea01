"""The decision about one pod, from the question whether it is ours to the finished patch."""

from collections.abc import Mapping
from typing import Any

import msgspec

from webhook import __version__
from webhook.admit.allocated import (
    Nodes,
    allocated_annotations,
    gpu_containers,
    has_allocation,
    unknown_nodes,
    wanted_of,
)
from webhook.admit.budget import Budget, check_counts, check_variables, count_variables
from webhook.admit.container import PodContainer, inspect
from webhook.admit.decide import Passed, passes, passes_unseen
from webhook.admit.outputs import brought_outputs, disown
from webhook.admit.permissions import check_permissions
from webhook.admit.pod_patch import PodPatch
from webhook.admit.request import ContainerRequest, family_of, read_requests
from webhook.admit.steps import STEPS, Step
from webhook.admit.subject import (
    HostNamespaces,
    Subject,
    assign_visible_devices,
    choose_carrier,
    choose_files_volume,
    choose_host_namespaces,
    reads_file,
    select_containers,
)
from webhook.config import AdmitPolicy
from webhook.model import names
from webhook.model.choices import Carrier, Profile
from webhook.model.cluster import ClusterFacts
from webhook.model.errors import FormatError, LimitError
from webhook.model.mark import Mark
from webhook.model.options import Options, parse_option, resolve_options
from webhook.model.outcome import SENTENCES, Kind, Outcome, Reason, Refused, fit, fit_all, refusal
from webhook.model.pod import Namespace, Pod, PodSpec
from webhook.model.references import referred_annotations
from webhook.resolve.wanted import GpuContainer


def admit(
    pod: Pod,
    namespace: Namespace,
    policy: AdmitPolicy,
    cluster: ClusterFacts,
    *,
    nodes: Nodes = unknown_nodes,
    trace: bool = False,
) -> Outcome:
    """Decide about a pod that is being created.

    A user's mistake is an outcome of kind *refuse*.

    Args:
        pod: The pod.
        namespace: Its namespace.
        policy: The configuration.
        cluster: What is known of the cluster.
        nodes: What is known of nodes, for pods that have their GPUs already.
        trace: Whether the outcome should name the steps that changed something.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    try:
        passed = passes_unseen(pod, namespace)
        if passed:
            return _leave_alone(passed, pod, namespace, policy)
        requests = read_requests(pod, policy.resources, policy.default_count)
        passed = passes(pod, namespace, requests, policy.defaults.inject)
        if passed:
            return _leave_alone(passed, pod, namespace, policy)
        options = resolve_options(policy.defaults, pod, namespace)
        facts = cluster.overruled_by(policy.versions)
        case = _Case(pod, namespace, policy, facts, requests.containers, options, nodes)
        return _apply(case, trace)
    except Refused as refused:
        return refusal(refused.reason, refused.message)
    except LimitError as error:
        return refusal(Reason.OVER_LIMIT, str(error))
    except FormatError as error:
        return refusal(Reason.BAD_ANNOTATION, str(error))


class _Case(msgspec.Struct, gc=False):
    """A pod that is ours, before its profile is applied."""

    pod: Pod
    namespace: Namespace
    policy: AdmitPolicy
    cluster: ClusterFacts
    containers: list[ContainerRequest]
    options: Options
    nodes: Nodes

    @property
    def holder(self) -> str:
        """How messages call the pod."""
        return f"pod {self.namespace.name}/{self.pod.display_name}"


def _leave_alone(passed: Passed, pod: Pod, namespace: Namespace, policy: AdmitPolicy) -> Outcome:
    """Nothing is written; what the pod brought that only we write goes, where the namespace has opted in."""
    warnings = [fit(passed.warning)] if passed.warning else []
    outputs = brought_outputs(pod) if namespace.injection_enabled else []
    if not outputs:
        return Outcome(kind=Kind.SKIP, reason=passed.reason, warnings=warnings)
    patch = PodPatch(pod, Budget(policy.limits, f"pod {namespace.name}/{pod.display_name}"))
    disown(outputs, referred_annotations(pod), patch, policy)
    if not patch.operations:
        return Outcome(kind=Kind.SKIP, reason=passed.reason, warnings=warnings)
    warnings.append(f"gpu-topology: {len(patch.operations)} annotations that only the webhook writes were taken off")
    return Outcome(kind=Kind.PATCH, reason=passed.reason, operations=patch.operations, warnings=warnings)


def _apply(case: _Case, trace: bool) -> Outcome:
    """The profile, applied or only observed."""
    selected = select_containers(case.containers, case.options, case.pod, case.namespace)
    if not selected:
        return _leave_alone(Passed(Reason.NO_CONTAINER_SELECTED), case.pod, case.namespace, case.policy)
    if case.options.profile is Profile.OBSERVE:
        return _observe(case, selected)
    subject = _subject(case, selected, case.options.profile)
    patch = new_patch(subject)
    steps = _run_steps(subject, patch, trace)
    return _outcome(patch, case.options.profile, steps)


def new_patch(subject: Subject) -> PodPatch:
    """An empty patch, for which the limits of the configuration hold."""
    variables = count_variables(subject.containers, subject.remap_container)
    return PodPatch(subject.pod, Budget(subject.policy.limits, f"pod {subject.name}", variables))


def prepare(pod: Pod, namespace: Namespace, policy: AdmitPolicy, cluster: ClusterFacts, profile: Profile) -> Subject:
    """All that is decided about a pod before the first step, whether or not it is ours.

    Args:
        pod: The pod.
        namespace: Its namespace.
        policy: The configuration.
        cluster: What is known of the cluster; what ``policy`` says of it counts more.
        profile: Any but ``observe``.

    Raises:
        Refused: none of its containers asks for GPUs, or an option cannot be met.
        FormatError: an option does not parse.
        LimitError: the pod has more of something than the configuration allows.
        MalformedPod: a field has another type than in a pod.
    """
    requests = read_requests(pod, policy.resources, policy.default_count)
    options = resolve_options(policy.defaults, pod, namespace)
    facts = cluster.overruled_by(policy.versions)
    selected = select_containers(requests.containers, options, pod, namespace)
    if not selected:
        raise Refused(Reason.NO_CONTAINER_SELECTED, SENTENCES[Reason.NO_CONTAINER_SELECTED])
    case = _Case(pod, namespace, policy, facts, requests.containers, options, unknown_nodes)
    return _subject(case, selected, profile)


def _subject(case: _Case, selected: set[str], profile: Profile) -> Subject:
    options, family = case.options, family_of(case.containers)
    check_counts(case.containers, options, case.policy.limits, case.holder)
    spec = case.pod.spec or PodSpec()
    containers = [
        inspect(one, options.env) if one.name in selected else inspect(one, left_out=True) for one in case.containers
    ]
    asking = [one for one in containers if one.request and one.name in selected]
    carrier = choose_carrier(options.remap, case.cluster)
    remap_container, remap_document = _find_remap_container(containers, spec, carrier)
    check_variables(count_variables(containers, remap_container), case.policy.limits, case.holder)
    volumes = {volume.name: volume for volume in spec.volumes or ()}
    files_volume = choose_files_volume(volumes, carrier, containers, remap_container)
    host = choose_host_namespaces(spec, options, profile)
    may_read = bool(files_volume) and reads_file(case.policy, case.cluster, case.namespace, containers, remap_container)
    keys = assign_visible_devices(asking) if profile.shares_gpus else {}
    return Subject(
        pod=case.pod,
        spec=spec,
        namespace=case.namespace,
        policy=case.policy,
        cluster=case.cluster,
        options=options,
        profile=profile,
        containers=containers,
        gpu_containers=asking,
        left_out=[one for one in containers if one.is_left_out],
        carrier=carrier,
        host=host,
        volumes=volumes,
        visible_device_keys=keys,
        files_volume=files_volume,
        reads_file=may_read,
        allocated=_allocated(case, family, gpu_containers(containers, selected, keys), profile, host),
        family=family,
        remap_container=remap_container,
        remap_document=remap_document,
    )


def _allocated(
    case: _Case, family: str, containers: tuple[GpuContainer, ...], profile: Profile, host: HostNamespaces
) -> Mapping[str, str]:
    if not has_allocation(case.pod):
        return {}
    wanted = wanted_of(containers, case.policy, case.options, profile, host_network=host.network)
    return allocated_annotations(case.pod, case.namespace, family, wanted, case.nodes, case.policy)


def _find_remap_container(
    containers: list[PodContainer], spec: PodSpec, carrier: Carrier
) -> tuple[PodContainer | None, dict[str, Any]]:
    """The first init container with our name and our command, where there is to be one, and all its fields."""
    if carrier is Carrier.BINDING:
        return None, {}
    for index, one in enumerate(containers):  # init containers come first, so their positions are those of the list
        if one.is_init and one.name.startswith(names.REMAP_CONTAINER):
            document = spec.init_container_document(index)
            if document.get("command") == list(names.REMAP_COMMAND):
                _refuse_gpus(one)
                return one, document
    return None, {}


def _refuse_gpus(remap_container: PodContainer) -> None:
    """Ours never asks for GPUs: what follows from such a request would not hold once it is brought to our form."""
    if remap_container.request:
        raise Refused(
            Reason.CONTRADICTS_PROFILE,
            f"init container {remap_container.name} is the remap container, which asks for no GPU, but it has a GPU "
            "request. Remove the container from the pod: admission adds its own",
        )


def _run_steps(subject: Subject, patch: PodPatch, trace: bool) -> list[Step]:
    """Run every step; with ``trace``, say which ones changed something (finding out costs as much as some steps)."""
    check_permissions(subject)
    if not trace:
        for step in STEPS:
            step.plan(subject, patch)
        return []
    changing = []
    for step in STEPS:
        before = patch.size
        step.plan(subject, patch)
        if patch.size > before:
            changing.append(step)
    return changing


def _outcome(patch: PodPatch, profile: Profile, steps: list[Step]) -> Outcome:
    lacking = [warning.reason for warning in patch.warnings if warning.reason]
    operations = patch.operations + patch.insertions
    if lacking:
        kind, reason = Kind.DEGRADED, lacking[0]
    elif operations:
        kind, reason = Kind.PATCH, Reason.INJECTED
    else:
        kind, reason = Kind.SKIP, Reason.ALREADY_INJECTED
    return Outcome(
        kind=kind,
        reason=reason,
        profile=profile,
        operations=operations,
        steps=[step.name for step in steps],
        warnings=fit_all([warning.text for warning in patch.warnings]),
    )


def _observe(case: _Case, selected: set[str]) -> Outcome:
    """Change nothing but annotations of ours, and say what the profile below ``observe`` would do."""
    profile = observed_profile(case.namespace, case.policy.defaults)
    try:
        subject = _subject(case, selected, profile)
        tried = new_patch(subject)
        steps = _run_steps(subject, tried, trace=True)
        warnings = [f"observe: profile {profile} would {step.purpose}" for step in steps if step.name != "mark"]
        warnings += [warning.text for warning in tried.warnings]
    except (Refused, LimitError) as refused:
        warnings = [f"observe: profile {profile} would refuse it: {refused}"]
    patch = PodPatch(case.pod, Budget(case.policy.limits, case.holder))
    patch.annotate(names.INJECTED, Mark(__version__, Profile.OBSERVE).format())
    others = [key for key in brought_outputs(case.pod) if key != names.INJECTED]
    if others:
        disown(others, referred_annotations(case.pod), patch, case.policy)
    return Outcome(
        kind=Kind.PATCH if patch.operations else Kind.SKIP,
        reason=Reason.OBSERVED,
        profile=profile,
        operations=patch.operations,
        steps=["mark"] if patch.operations else [],
        warnings=fit_all(warnings),
    )


def profile_if_observed(pod: Pod, namespace: Namespace, policy: AdmitPolicy) -> Profile | None:
    """The profile that admission would compare the pod with, were it created now; ``None`` if it would not observe it.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    try:
        if passes_unseen(pod, namespace):
            return None
        requests = read_requests(pod, policy.resources, policy.default_count)
        if passes(pod, namespace, requests, policy.defaults.inject):
            return None
        options = resolve_options(policy.defaults, pod, namespace)
        selected = select_containers(requests.containers, options, pod, namespace)
        is_observed = bool(selected) and options.profile is Profile.OBSERVE
        return observed_profile(namespace, policy.defaults) if is_observed else None
    except (FormatError, Refused):
        return None


def observed_profile(namespace: Namespace, defaults: Options) -> Profile:
    """The profile that the pod would get if it did not say ``observe``."""
    text = namespace.annotations.get(names.PROFILE, Profile.OBSERVE)
    source = f"annotation {names.PROFILE} on namespace {namespace.name}"
    for profile in (Profile(parse_option("profile", text, source=source)), defaults.profile):
        if profile is not Profile.OBSERVE:
            return profile
    return Profile.EXCLUSIVE
