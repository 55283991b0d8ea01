"""The decision about one pod, from the question whether it is ours to the finished patch."""

import msgspec

from webhook import __version__
from webhook.admit.container import inspect
from webhook.admit.decide import reason_to_pass
from webhook.admit.permissions import check_permissions
from webhook.admit.pod_patch import PodPatch
from webhook.admit.request import PodRequests, read_requests
from webhook.admit.steps import STEPS, Step
from webhook.admit.subject import (
    Subject,
    assign_visible_devices,
    choose_carrier,
    choose_host_namespaces,
    select_containers,
)
from webhook.config import AdmitPolicy
from webhook.model import names
from webhook.model.cluster import ClusterFacts
from webhook.model.errors import FormatError
from webhook.model.mark import Mark
from webhook.model.options import Layer, Options, Profile, parse_option, resolve_options
from webhook.model.outcome import AdmissionWarning, Kind, Outcome, Reason, Refused, fit
from webhook.model.patch import Operation
from webhook.model.pod import Namespace, Pod, PodSpec


class _Plan(msgspec.Struct):
    """What the steps came to."""

    operations: list[Operation]
    steps: list[Step]
    warnings: list[AdmissionWarning]


def admit(pod: Pod, namespace: Namespace, policy: AdmitPolicy, cluster: ClusterFacts) -> Outcome:
    """Decide about a pod that is being created.

    A user's mistake is an outcome of kind *refuse*.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    try:
        requests = read_requests(pod, policy.resources, policy.default_count)
        passed = reason_to_pass(pod, namespace, requests, policy.defaults.inject)
        if passed:
            warnings = [fit(passed.warning)] if passed.warning else []
            return Outcome(kind=Kind.SKIP, reason=passed.reason, warnings=warnings)
        return _inject(pod, namespace, policy, cluster, requests)
    except Refused as refused:
        return Outcome(kind=Kind.REFUSE, reason=refused.reason, message=refused.message)
    except FormatError as error:
        return Outcome(kind=Kind.REFUSE, reason=Reason.BAD_ANNOTATION, message=str(error))


def _inject(
    pod: Pod, namespace: Namespace, policy: AdmitPolicy, cluster: ClusterFacts, requests: PodRequests
) -> Outcome:
    where = f"{namespace.name}/{pod.display_name}"
    layers = (
        Layer(f"namespace {namespace.name}", namespace.annotations),
        Layer(f"pod {where}", pod.annotations, is_pod=True),
    )
    options = resolve_options(policy.defaults, layers)
    observed = options.profile is Profile.OBSERVE
    profile = _observed_profile(namespace, policy.defaults) if observed else options.profile
    selected = select_containers(requests.containers, options, pod, where)
    if not selected:
        return Outcome(kind=Kind.SKIP, reason=Reason.NO_CONTAINER_SELECTED)
    containers = [inspect(one, options.env if one.name in selected else ()) for one in requests.containers]
    gpu_containers = [one for one in containers if one.name in selected and one.request]
    spec = pod.spec or PodSpec()
    cluster = cluster.overruled_by(policy.versions)
    try:
        subject = Subject(
            pod=pod,
            spec=spec,
            namespace=namespace,
            policy=policy,
            cluster=cluster,
            options=options,
            profile=profile,
            containers=containers,
            gpu_containers=gpu_containers,
            left_out=[one for one in containers if one.name not in selected and one.request],
            carrier=choose_carrier(options.remap, cluster),
            host=choose_host_namespaces(spec, options, profile),
            volumes={volume.name: volume for volume in spec.volumes or ()},
            visible_device_keys=assign_visible_devices(gpu_containers) if profile.shares_gpus else {},
        )
        check_permissions(subject)
        plan = _run_steps(subject)
    except Refused as refused:
        if not observed:
            raise
        return _observe(pod, profile, [f"observe: profile {profile} would refuse it: {refused.message}"])
    if observed:
        would = [f"observe: profile {profile} would {step.purpose}" for step in plan.steps if step.name != "mark"]
        return _observe(pod, profile, would + [warning.text for warning in plan.warnings])
    return _outcome(plan, profile)


def _run_steps(subject: Subject) -> _Plan:
    patch = PodPatch(subject.pod)
    changing: list[Step] = []
    before = 0
    for step in STEPS:
        step.plan(subject, patch)
        size = len(patch.operations) + len(patch.insertions)
        if size > before:
            changing.append(step)
            before = size
    return _Plan(patch.operations + patch.insertions, changing, patch.warnings)


def _outcome(plan: _Plan, profile: Profile) -> Outcome:
    lacking = next((warning.reason for warning in plan.warnings if warning.reason), None)
    if lacking:
        kind, reason = Kind.DEGRADED, lacking
    elif plan.operations:
        kind, reason = Kind.PATCH, Reason.INJECTED
    else:
        kind, reason = Kind.SKIP, Reason.ALREADY_INJECTED
    return Outcome(
        kind=kind,
        reason=reason,
        profile=profile,
        operations=plan.operations,
        steps=[step.name for step in plan.steps],
        warnings=[fit(warning.text) for warning in plan.warnings],
    )


def _observe(pod: Pod, profile: Profile, warnings: list[str]) -> Outcome:
    """Nothing but the mark changes."""
    patch = PodPatch(pod)
    patch.annotate(names.INJECTED, Mark(__version__, Profile.OBSERVE).format())
    return Outcome(
        kind=Kind.PATCH if patch.operations else Kind.SKIP,
        reason=Reason.OBSERVED,
        profile=profile,
        operations=patch.operations,
        steps=["mark"] if patch.operations else [],
        warnings=list(map(fit, warnings)),
    )


def _observed_profile(namespace: Namespace, defaults: Options) -> Profile:
    """The profile that the pod would get if it did not say ``observe``."""
    text = namespace.annotations.get(names.PROFILE, Profile.OBSERVE)
    source = f"annotation {names.PROFILE} on namespace {namespace.name}"
    for profile in (Profile(parse_option("profile", text, source=source)), defaults.profile):
        if profile is not Profile.OBSERVE:
            return profile
    return Profile.EXCLUSIVE
