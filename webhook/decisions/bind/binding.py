"""The decision about one Binding: docs/injection.md, sections 6 to 11."""

from collections.abc import Sequence

from webhook.decisions.allocation.model import Device
from webhook.decisions.bind.injection import injected_profile
from webhook.decisions.bind.outcomes import INVALID, UNAVAILABLE, refused, resolved, unresolved, without_event
from webhook.decisions.bind.pod_to_bind import PodToBind, pod_to_bind, uid_of
from webhook.decisions.bind.resolution import resolve_pod
from webhook.decisions.claims.allocations import NOTHING_GIVEN, GivenGpus
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import resolve_options
from webhook.decisions.request.observe_profile import profile_if_observed
from webhook.decisions.request.resources import read_requests
from webhook.decisions.request.unkept_options import LINK_REQUIREMENTS, unkept_options
from webhook.decisions.resolve.node import Sources
from webhook.decisions.resolve.resolve import UnresolvedError
from webhook.objects.binding import Binding, BindOutcome, BindReason
from webhook.objects.pod import NAME_LIMIT, Namespace, Pod
from webhook.words import names
from webhook.words.catalogue.opting import BAD_POD_OPTION, BINDING_NAMESPACE_NOT_KNOWN_YET, POD_NOT_NAMED
from webhook.words.choices import Profile
from webhook.words.errors import FormatError
from webhook.words.outcome import Kind, Refused
from webhook.words.printable import fitted

_NOT_INJECTED = BindOutcome(kind=Kind.SKIP, reason=BindReason.NOT_INJECTED)
_POD_GONE = BindOutcome(kind=Kind.SKIP, reason=BindReason.POD_GONE)
_NOT_NAMED = POD_NOT_NAMED.say()


def begin(
    pod: Pod | None, binding: Binding, namespace: Namespace, policy: AdmitPolicy, given: GivenGpus = NOTHING_GIVEN
) -> BindOutcome | PodToBind:
    """Returns the outcome of a Binding if the pod itself decides it; else the pod for :func:`finish`.

    Args:
        pod: The pod as it is now; ``None`` if it does not exist.
        binding: The Binding that the scheduler asks for.
        namespace: The namespace of the pod.
        policy: The configuration.
        given: The GPUs that claims gave to the pod.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    if pod is None:
        return _POD_GONE
    skipped = skip_outcome(pod, binding, namespace)
    if skipped:
        return skipped
    # The author of a forged review does not know the uid. The legacy resource `bindings` comes without it.
    is_named = policy.knows_clients or binding.pod_uid == uid_of(pod)
    try:
        found = _read_pod(pod, binding, namespace, policy, given)
    except (FormatError, Refused) as error:
        why = BAD_POD_OPTION.say(problem=error) if is_named else _NOT_NAMED
        return refused(BindReason.BAD_POD, INVALID, why.about(f"pod {namespace.name}/{pod.display_name}"))
    if is_named or isinstance(found, BindOutcome):
        return found
    # Schedulers know the uid, and the author of a forged review would have to guess it.
    return without_event(unresolved(found, BindReason.POD_NOT_NAMED, _NOT_NAMED, policy))


def finish(pod: PodToBind, policy: AdmitPolicy, sources: Sources, *, peers: Sequence[Device] = ()) -> BindOutcome:
    """Returns the outcome for a pod that :func:`begin` has not decided about.

    Args:
        pod: The pod.
        policy: The configuration.
        sources: The sources about the node.
        peers: The devices of the other pods of ``pod.group`` on the node.
    """
    try:
        outcome = resolved(pod, resolve_pod(pod, policy, sources, peers=peers))
    except UnresolvedError as error:
        outcome = unresolved(pod, BindReason(error.reason.value), error.message, policy)
    return outcome if pod.is_pending and sources.exists else without_event(outcome)


def skip_outcome(pod: Pod, binding: Binding, namespace: Namespace) -> BindOutcome | None:
    """Returns the outcome for a Binding that is left alone whatever the pod's containers are; else ``None``."""
    uid = uid_of(pod)
    if binding.pod_uid and uid and binding.pod_uid != uid:
        return BindOutcome(kind=Kind.SKIP, reason=BindReason.POD_RECREATED)
    if pod.spec and pod.spec.node_name:
        return BindOutcome(kind=Kind.SKIP, reason=BindReason.ALREADY_BOUND)
    return None if may_be_opted_in(pod, namespace) else _NOT_INJECTED


def may_be_opted_in(pod: Pod, namespace: Namespace) -> bool:
    """Returns whether namespace and pod have opted in, as far as is known. Bindings of other pods are left alone."""
    opted_in = namespace.injection_enabled or not namespace.known
    opted_out = pod.labels.get(names.INJECTION) == "disabled" or pod.annotations.get(names.INJECT) == "false"
    return opted_in and not opted_out


def unreadable(message: str) -> BindOutcome:
    """Returns the outcome for a pod that could not be read."""
    return refused(BindReason.POD_UNREADABLE, UNAVAILABLE, message)


def namespace_unknown(namespace: Namespace) -> BindOutcome:
    """Returns the outcome for a namespace whose requirements are not known yet."""
    message = BINDING_NAMESPACE_NOT_KNOWN_YET.say(namespace=namespace.name)
    return refused(BindReason.NAMESPACE_UNKNOWN, UNAVAILABLE, str(message))


def _read_pod(
    pod: Pod, binding: Binding, namespace: Namespace, policy: AdmitPolicy, given: GivenGpus
) -> BindOutcome | PodToBind:
    """Returns the outcome for a pod of which nothing is to be judged; else the pod for :func:`finish`.

    Raises:
        FormatError: an option does not parse.
        Refused: the GPUs are those of two families, or the option ``containers`` names others.
        MalformedPod: a field has another type than in a pod.
    """
    try:
        requests = read_requests(pod, policy.resources, policy.default_count, given.view(policy.claims))
    except Refused:  # admission refuses such a pod, so it was not injected
        return _NOT_INJECTED
    profile = injected_profile(requests.containers)
    is_observed = profile is None
    if profile is None:
        profile = profile_if_observed(pod, namespace, requests, policy)
    elif not namespace.known:
        return namespace_unknown(namespace)
    is_prepared = profile is not None
    if not is_prepared and not _requires_links(pod, namespace, policy):
        return _NOT_INJECTED
    try:
        return pod_to_bind(
            pod,
            namespace,
            requests,
            resolve_options(policy.defaults, pod, namespace),
            policy,
            profile or Profile.EXCLUSIVE,
            node=fitted(binding.node, NAME_LIMIT),
            bound_annotations=binding.annotations if policy.knows_clients else None,
            is_observed=is_observed and is_prepared,
            is_prepared=is_prepared,
            given=given,
        )
    except (FormatError, Refused):  # its GPUs are those of two families
        if is_observed:
            return _NOT_INJECTED
        raise


def _requires_links(pod: Pod, namespace: Namespace, policy: AdmitPolicy) -> bool:
    """Returns whether a pod that was not injected says itself what its GPUs have to be."""
    found = unkept_options(pod, namespace, policy) if namespace.known else None
    return found is not None and any(name in found.requirements for name in LINK_REQUIREMENTS)
