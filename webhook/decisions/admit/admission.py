"""The decision about one pod: it is skipped, observed, refused or patched."""

from collections.abc import Iterable, Iterator, Mapping

from webhook import __version__
from webhook.decisions.admit.allocated_pods import Nodes, unknown_nodes
from webhook.decisions.admit.budget import Budget
from webhook.decisions.admit.claims import refuse_promise_of_claims
from webhook.decisions.admit.gate import hold, is_touched, let_pass
from webhook.decisions.admit.outputs import brought_outputs, disown
from webhook.decisions.admit.permissions import check_permissions
from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.preparation import PodToInject, pod_to_inject, prepare
from webhook.decisions.admit.steps import STEPS, Step
from webhook.decisions.admit.subject import Subject
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.fastest_pair import Fastest, unknown_pair
from webhook.decisions.options import resolve_options
from webhook.decisions.request.claims import claim_view
from webhook.decisions.request.exchange import signs
from webhook.decisions.request.observe_profile import observed_profile
from webhook.decisions.request.peer_advice import (
    IN_EXCLUSIVE,
    WITHOUT_PROFILE,
    exchange_warnings,
    fitting_profile,
    tells_peers,
)
from webhook.decisions.request.placement import PodToPlace, not_waiting, unplaced_as_it_is
from webhook.decisions.request.resources import PodRequests, read_requests
from webhook.decisions.request.skip_reasons import Skip, early_skip_reason, skip_reason, unserved_reason
from webhook.decisions.request.unkept_options import unkept_by, unkept_options
from webhook.decisions.stray_keys import stray_keys
from webhook.objects.claims import ClaimSpec
from webhook.objects.pod import Namespace, Pod, PodSpec
from webhook.objects.references import referred_annotations
from webhook.words import names
from webhook.words.catalogue.entry import Message, join_all
from webhook.words.catalogue.opting import BAD_OPTION, OUTPUTS_REMOVED, POD_OVER_LIMIT, WOULD_DO, WOULD_REFUSE
from webhook.words.catalogue.placement import BANDWIDTH_OUT_OF_REACH, LEFT_ALONE, ONLY_OBSERVED
from webhook.words.choices import Peers, Profile, Slices
from webhook.words.errors import FormatError, LimitError
from webhook.words.mark import Mark
from webhook.words.outcome import Kind, Outcome, Reason, Refused, fit, fit_all, refusal

_AS_THEY_ARE = (Reason.VGPU_SLICE, Reason.NOT_REQUESTED)
"""The reasons for which pods with slices or a single card are not injected."""
_PEERS = frozenset(
    {
        *("disable-control", "visibility", "claims", "host-namespaces", "isolation", "node-identity"),
        *("shared-memory", "nccl"),
    }
)
_OF_PEERS = tuple(step for step in STEPS if step.name in _PEERS)
"""The steps that do something else with peers, and may refuse it."""
_NO_SPECS: Mapping[str, ClaimSpec | None] = {}


def admit(  # noqa: PLR0913 - the pod, and all that is known beside it
    pod: Pod,
    namespace: Namespace,
    policy: AdmitPolicy,
    cluster: ClusterFacts,
    *,
    nodes: Nodes = unknown_nodes,
    claim_specs: Mapping[str, ClaimSpec | None] = _NO_SPECS,
    fastest: Fastest = unknown_pair,
    trace: bool = False,
) -> Outcome:
    """Decides about a pod that is being created.

    A user's mistake is an outcome of kind *refuse*.

    Args:
        pod: The pod.
        namespace: Its namespace.
        policy: The configuration.
        cluster: The detected facts about the cluster.
        nodes: The sources about nodes, for pods that have their GPUs already.
        claim_specs: The specs of its ResourceClaims or their templates, by entries of ``spec.resourceClaims``; ``None``
            where one cannot be read.
        fastest: The fastest pair of GPUs that is known; asked for only if the pod requires a bandwidth.
        trace: Whether the outcome names the steps that changed something.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    try:
        skip = early_skip_reason(pod, namespace)
        if skip:
            return _skip(skip, pod, namespace, policy)
        facts = cluster.overruled_by(policy.versions)
        claims = claim_view(pod, claim_specs, policy, facts)
        requests = read_requests(pod, policy.resources, policy.default_count, claims)
        skip = skip_reason(pod, namespace, requests, policy) or unserved_reason(pod, requests, policy, facts)
        if skip:
            if skip.reason is Reason.RESOURCE_CLAIMS:
                refuse_promise_of_claims(pod, namespace, policy)
            found = _exchanges(skip, pod, namespace, requests, policy, facts)
            is_held = _waits_as_it_is(skip, pod, namespace, requests, policy, facts)
            return _skip(skip, pod, namespace, policy, found, is_held=is_held)
        to_inject = pod_to_inject(pod, namespace, requests, policy, cluster, nodes)
        if to_inject is None:
            return _skip(Skip(Reason.NO_CONTAINER_SELECTED), pod, namespace, policy)
        is_observed = to_inject.options.profile is Profile.OBSERVE
        return _observe(to_inject) if is_observed else _inject(to_inject, fastest, trace)
    except Refused as refused:
        return refusal(refused.reason, refused.message)
    except LimitError as error:
        return refusal(Reason.OVER_LIMIT, POD_OVER_LIMIT.say(problem=error).advice)
    except FormatError as error:
        return refusal(Reason.BAD_ANNOTATION, BAD_OPTION.say(problem=error).advice)


def _exchanges(
    skip: Skip, pod: Pod, namespace: Namespace, requests: PodRequests, policy: AdmitPolicy, facts: ClusterFacts
) -> Iterator[Message]:
    """Yields the warnings about signs that a pod with one whole card in each container has peers."""
    if skip.reason is Reason.NOT_REQUESTED and tells_peers(pod, namespace, policy.defaults):
        asking = (container for container in requests.containers if container.request)
        apps = [container.spec for container in asking if container.path.startswith("/spec/containers/")]
        found = signs(pod.spec or PodSpec(), apps)
        if found:
            try:
                to_inject = pod_to_inject(pod, namespace, requests, policy, facts)
            except (Refused, FormatError):
                to_inject = None
            refusals = _refusals_in(fitting_profile(len(apps)), to_inject)
            yield from exchange_warnings(
                found, namespace, containers=len(apps), where=WITHOUT_PROFILE, refusals=refusals
            )


def _warn_of_exchange(pod: PodToInject, subject: Subject, patch: PodPatch) -> None:
    """Warns of signs that the pod exchanges GPU memory with peers, to which its profile gives no way."""
    if subject.profile is not Profile.EXCLUSIVE or subject.options.peers is not Peers.AUTO:
        return
    apps = [container.spec for container in subject.gpu_containers if not container.is_init]
    found = signs(subject.spec, apps)
    if found:
        refusals = _refusals_in(fitting_profile(len(apps)), pod)
        for message in exchange_warnings(
            found, subject.namespace, containers=len(apps), where=IN_EXCLUSIVE, refusals=refusals
        ):
            patch.warn(message)


def _refusals_in(profile: Profile, pod: PodToInject | None) -> list[Message]:
    """Returns why a profile would refuse the pod, missing permissions left out."""
    if pod is None:
        return []
    try:
        subject = prepare(pod, profile)
        patch = new_patch(subject)
        for step in _OF_PEERS:
            run_step(step, subject, patch)
    except Refused as refused:
        return [refused.found]
    except (FormatError, LimitError):
        return []
    return list(dict.fromkeys(refused.found for refused in patch.refusals))


def _waits_as_it_is(
    skip: Skip, pod: Pod, namespace: Namespace, requests: PodRequests, policy: AdmitPolicy, facts: ClusterFacts
) -> bool:
    """Returns whether the planner chooses the slices, or the one card, of a pod that is not injected.

    An option that does not parse keeps no such pod from its scheduler.
    """
    if policy.placement.slices is not Slices.ON or skip.reason not in _AS_THEY_ARE or not_waiting(policy, facts):
        return False
    try:
        options = resolve_options(policy.defaults, pod, namespace)
    except FormatError:
        return False
    to_place = PodToPlace(
        pod=pod,
        options=options,
        profile=Profile.OBSERVE,
        requests=requests,
        namespace=namespace,
        policy=policy,
        cluster=facts,
    )
    return unplaced_as_it_is(to_place) is None


def _skip(
    skip: Skip,
    pod: Pod,
    namespace: Namespace,
    policy: AdmitPolicy,
    found: Iterable[Message] = (),
    *,
    is_held: bool = False,
) -> Outcome:
    """Returns the outcome for a pod that is not injected, with warnings of what was ``found`` in it.

    In a namespace that has opted in, output annotations of the pod are removed or reset, and a label without our gate
    is removed. With ``is_held`` the pod waits for the planner.

    Raises:
        Refused: the pod has a requirement that would not be kept, and denies that.
    """
    warnings = [fit(skip.warning)] if skip.warning else []
    warnings += fit_all(list(map(str, unkept_by(pod, namespace, policy, skip.reason))))
    if skip.reason in _AS_THEY_ARE:
        warnings += fit_all([str(message) for message in (*stray_keys(pod), *found)])
    if not namespace.injection_enabled or not ((outputs := brought_outputs(pod)) or is_touched(pod) or is_held):
        return Outcome(kind=Kind.SKIP, reason=skip.reason, warnings=warnings)
    patch = PodPatch(pod, Budget(policy.limits, f"pod {namespace.name}/{pod.display_name}"))
    disown(outputs, referred_annotations(pod), patch, policy)
    if patch.operations:
        warnings.append(str(OUTPUTS_REMOVED.say(count=len(patch.operations))))
    if is_held:
        hold(pod, patch)
    else:
        let_pass(pod, patch, LEFT_ALONE.say())
    warnings += fit_all([warning.text for warning in patch.warnings])
    kind = Kind.PATCH if patch.operations else Kind.SKIP
    return Outcome(kind=kind, reason=skip.reason, operations=patch.operations, warnings=warnings)


def _inject(pod: PodToInject, fastest: Fastest, trace: bool) -> Outcome:
    """Applies the profile of the pod."""
    subject = prepare(pod, pod.options.profile)
    patch = new_patch(subject)
    steps = _run_steps(subject, patch, trace)
    _warn_of_exchange(pod, subject, patch)
    _warn_of_bandwidth(subject, patch, fastest)
    return _outcome(patch, subject.profile, steps)


def _warn_of_bandwidth(subject: Subject, patch: PodPatch, fastest: Fastest) -> None:
    """Warns of a bandwidth that no known pair of GPUs has. One GPU has no pair."""
    least = subject.options.min_bandwidth
    if least is None or (not subject.profile.shares_gpus and subject.largest_request < 2):
        return
    best = fastest()
    if best is not None and best.bandwidth < least:
        sheet = f", {best.datasheet:g} in its datasheet" if best.datasheet else ""
        patch.warn(BANDWIDTH_OUT_OF_REACH.say(least=f"{least:g}", best=f"{best.bandwidth:g}", sheet=sheet))


def new_patch(subject: Subject) -> PodPatch:
    """Returns an empty patch with the limits of the configuration."""
    return PodPatch(subject.pod, Budget(subject.policy.limits, f"pod {subject.name}"))


def _run_steps(subject: Subject, patch: PodPatch, trace: bool) -> list[Step]:
    """Runs every step. With ``trace``, returns those that changed something, which costs as much as some steps.

    Raises:
        Refused: the pod is refused, for all reasons that there are.
    """
    try:
        check_permissions(subject)
    except Refused as refused:
        patch.refusals.append(refused)
    changing = []
    for step in STEPS:
        before = patch.size if trace else 0
        run_step(step, subject, patch)
        if trace and patch.size > before:
            changing.append(step)
    if patch.refusals:
        raise Refused(patch.refusals[0].reason, join_all([refused.found for refused in patch.refusals]))
    return changing


def run_step(step: Step, subject: Subject, patch: PodPatch) -> None:
    """Runs a step. Where it refuses the pod, the patch has the reason, and the step ends."""
    try:
        step.plan(subject, patch)
    except Refused as refused:
        patch.refusals.append(refused)
    except LimitError:
        if not patch.refusals:  # a pod that is refused anyway gets no such patch
            raise


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


def _observe(pod: PodToInject) -> Outcome:
    """Changes only annotations and labels of ours, and warns of what the profile below ``observe`` would do."""
    profile = observed_profile(pod.namespace, pod.policy.defaults)
    try:
        subject = prepare(pod, profile)
        tried = new_patch(subject)
        steps = _run_steps(subject, tried, trace=True)
        _warn_of_exchange(pod, subject, tried)
        warnings = [str(WOULD_DO.say(profile=profile, purpose=step.purpose)) for step in steps if step.name != "mark"]
        warnings += [warning.text for warning in tried.warnings]
    except (Refused, LimitError) as refused:
        warnings = [str(WOULD_REFUSE.say(profile=profile, refusal=refused))]
    patch = PodPatch(pod.pod, Budget(pod.policy.limits, pod.holder))
    patch.annotate(names.INJECTED, Mark(__version__, Profile.OBSERVE).format())
    others = [key for key in brought_outputs(pod.pod) if key != names.INJECTED]
    if others:
        disown(others, referred_annotations(pod.pod), patch, pod.policy)
    let_pass(pod.pod, patch, ONLY_OBSERVED.say())
    unkept = unkept_options(pod.pod, pod.namespace, pod.policy)
    if unkept:
        warnings += map(str, unkept.messages(ONLY_OBSERVED.say()))
    warnings += [warning.text for warning in patch.warnings]
    return Outcome(
        kind=Kind.PATCH if patch.operations else Kind.SKIP,
        reason=Reason.OBSERVED,
        profile=profile,
        operations=patch.operations,
        steps=["mark"] if patch.operations else [],
        warnings=fit_all(warnings),
    )
