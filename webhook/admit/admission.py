"""The decision about one pod, from the question whether it is ours to the finished patch."""

import msgspec

from webhook import __version__
from webhook.admit.compose import Composer
from webhook.admit.decide import reason_to_pass
from webhook.admit.edits import Annotate, Edit
from webhook.admit.permissions import check_permissions
from webhook.admit.request import PodContainer, read_containers
from webhook.admit.steps import STEPS, Step
from webhook.admit.subject import Subject, choose_carrier, choose_host_namespaces, select_containers
from webhook.config import AdmitPolicy
from webhook.model import names
from webhook.model.cluster import ClusterFacts
from webhook.model.errors import FormatError
from webhook.model.mark import Mark
from webhook.model.options import Layer, Options, Profile, parse_option, resolve_options
from webhook.model.outcome import Kind, Outcome, Reason, Refused, Warning, fit
from webhook.model.patch import Operation
from webhook.model.pod import Namespace, Pod, PodSpec


class _Plan(msgspec.Struct):
    """What the steps came to."""

    operations: list[Operation]
    steps: list[Step]
    warnings: list[Warning]


def admit(pod: Pod, namespace: Namespace, policy: AdmitPolicy, cluster: ClusterFacts) -> Outcome:
    """Decide about a pod that is being created.

    Never raises for what a user wrote: a mistake there is an outcome of kind *refuse*.
    """
    try:
        containers = read_containers(pod, policy.resources, policy.default_count)
        passed = reason_to_pass(pod, namespace, containers, policy.defaults.inject)
        if passed:
            warnings = [fit(passed.warning)] if passed.warning else []
            return Outcome(kind=Kind.SKIP, reason=passed.reason, warnings=warnings)
        return _inject(pod, namespace, policy, cluster, containers)
    except Refused as refused:
        return Outcome(kind=Kind.REFUSE, reason=refused.reason, message=refused.message)
    except FormatError as error:
        return Outcome(kind=Kind.REFUSE, reason=Reason.BAD_ANNOTATION, message=str(error))


def _inject(
    pod: Pod, namespace: Namespace, policy: AdmitPolicy, cluster: ClusterFacts, containers: list[PodContainer]
) -> Outcome:
    where = f"{namespace.name}/{pod.display_name}"
    layers = (
        Layer(f"namespace {namespace.name}", namespace.annotations),
        Layer(f"pod {where}", pod.annotations, is_pod=True),
    )
    options = resolve_options(policy.defaults, layers)
    observed = options.profile is Profile.OBSERVE
    profile = _observed_profile(namespace, policy.defaults) if observed else options.profile
    gpu_containers, left_out = select_containers(containers, options, pod, where)
    if not gpu_containers:
        return Outcome(kind=Kind.SKIP, reason=Reason.NO_CONTAINER_SELECTED)
    if options.env:
        gpu_containers = [msgspec.structs.replace(one, variables=options.env) for one in gpu_containers]
        wanting = {one.path: one for one in gpu_containers}
        containers = [wanting.get(one.path, one) for one in containers]
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
            left_out=left_out,
            carrier=choose_carrier(options.remap, cluster),
            host=choose_host_namespaces(spec, options, profile),
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
    composer = Composer(subject.pod)
    changing: list[Step] = []
    warnings: list[Warning] = []
    for step in STEPS:
        before = composer.size
        for finding in step.plan(subject):
            if isinstance(finding, Edit):
                composer.apply(finding)
            else:
                warnings.append(finding)
        if composer.size > before:
            changing.append(step)
    return _Plan(composer.operations(), changing, warnings)


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
    composer = Composer(pod)
    composer.apply(Annotate(names.INJECTED, Mark(__version__, Profile.OBSERVE).format()))
    return Outcome(
        kind=Kind.PATCH if composer.size else Kind.SKIP,
        reason=Reason.OBSERVED,
        profile=profile,
        operations=composer.operations(),
        steps=["mark"] if composer.size else [],
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
