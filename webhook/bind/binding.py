"""The decision about one Binding: docs/binding.md."""

from collections.abc import Iterable, Mapping, Sequence
from math import isinf
from operator import attrgetter

import msgspec

from webhook.admit.admission import profile_if_observed
from webhook.admit.request import PodRequests, read_requests
from webhook.allocation.model import Allocation, Device
from webhook.allocation.read import allocated_node, dialect_of, read_allocation
from webhook.bind.fabric import read_fabric_use
from webhook.bind.wanted import Wish, has_remap_container, injected_profile, read_wanted
from webhook.config import AdmitPolicy
from webhook.model import names
from webhook.model.binding import BIND_SENTENCES, Binding, BindOutcome, BindReason, PodEvent
from webhook.model.choices import OnViolation, Profile
from webhook.model.errors import FormatError, LimitError
from webhook.model.options import resolve_options
from webhook.model.outcome import Kind, Refused
from webhook.model.pod import NAME_LIMIT, Namespace, Pod
from webhook.model.references import referred_annotations
from webhook.printable import fitted, printable
from webhook.resolve.fabric import fabric_problem
from webhook.resolve.nccl import nccl_defaults, nvls_until_bind
from webhook.resolve.node import KnownNode, Origin, Sources, choose_node
from webhook.resolve.outputs import FOR_PEOPLE, UNKNOWN, annotations, nccl_annotations, satisfied_text
from webhook.resolve.resolve import Resolution, Unresolved, UnresolvedError, check_size, resolve

_NOT_INJECTED = BindOutcome(kind=Kind.SKIP, reason=BindReason.NOT_INJECTED)
_POD_GONE = BindOutcome(kind=Kind.SKIP, reason=BindReason.POD_GONE)
_FORBIDDEN, _CONFLICT, _INVALID, _UNAVAILABLE = 403, 409, 422, 503
ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes of all keys and values: apimachinery pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB."""
ROOM_FOR_OTHERS = 32 * 1024
_NUMA_NODE = attrgetter("numa_node")
_NOT_NAMED = "the Binding does not name its pod by metadata.uid, so nothing is said about the pod's GPUs"
_REQUIREMENT_NOT_MET, _NOT_RESOLVED, _FABRIC_NOT_USED = "RequirementNotMet", "NotResolved", "FabricNotUsed"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """An injected pod on its way to a node."""

    holder: str
    """How messages call the pod."""
    uid: str
    """Of the pod; empty in a manifest that was written by hand."""
    node: str
    """The node that the Binding names."""
    annotations: Mapping[str, str]
    """Of the pod as the API server has it, and of the Binding where that is believed."""
    wish: Wish
    is_pending: bool = True
    """Whether the pod waits for a node."""

    @property
    def is_observed(self) -> bool:
        """Whether the pod is only looked at."""
        return self.wish.is_observed


def begin(pod: Pod | None, binding: Binding, namespace: Namespace, policy: AdmitPolicy) -> BindOutcome | Case:
    """The outcome, where the pod itself decides it; else what the rest depends on.

    Args:
        pod: As it is now; ``None`` if it does not exist.
        binding: What the scheduler asks for.
        namespace: Of the pod.
        policy: The configuration.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    passed = passes(pod, binding, namespace)
    if passed or pod is None:
        return passed or _POD_GONE
    # A forged review does not know the uid. The API server takes it out of the legacy resource `bindings`.
    is_named = policy.knows_clients or binding.pod_uid == _uid(pod)
    try:
        requests = _readable_requests(pod, policy)
        if requests is None:
            return _NOT_INJECTED
        injected = injected_profile(requests.containers)
        if injected is not None and not namespace.known:
            return namespace_unknown(namespace)
        if injected is None:
            case = _begin_observed(pod, binding, namespace, requests, policy)
        else:
            case = _case(pod, binding, namespace, requests, policy, injected)
    except (FormatError, Refused) as error:
        text = str(error) if is_named else _NOT_NAMED
        return _refused(BindReason.BAD_POD, _INVALID, f"pod {namespace.name}/{pod.display_name}: {text}")
    return case if is_named or not isinstance(case, Case) else _not_named(case, policy)


def _readable_requests(pod: Pod, policy: AdmitPolicy) -> PodRequests | None:
    """What the containers ask for; ``None`` if it cannot be read. Admission refuses such a pod."""
    try:
        return read_requests(pod, policy.resources, policy.default_count)
    except Refused:
        return None


def _begin_observed(
    pod: Pod, binding: Binding, namespace: Namespace, requests: PodRequests, policy: AdmitPolicy
) -> BindOutcome | Case:
    """A pod that was not injected: it is looked at if admission would observe it, and left alone else."""
    profile = profile_if_observed(pod, namespace, policy)
    if profile is None:
        return _NOT_INJECTED
    try:
        return _case(pod, binding, namespace, requests, policy, profile, is_observed=True)
    except Refused:  # its GPUs are those of two families
        return _NOT_INJECTED


def finish(case: Case, policy: AdmitPolicy, sources: Sources, *, peers: Sequence[Device] = ()) -> BindOutcome:
    """The outcome for a pod that :func:`begin` has not decided about.

    Args:
        case: The pod.
        policy: The configuration.
        sources: What is known of the node.
        peers: What the other pods of ``case.wish.group`` have on the node.
    """
    try:
        outcome = _resolved(case, resolve_case(case, policy, sources, peers=peers))
    except UnresolvedError as error:
        outcome = _unresolved(case, BindReason(error.reason.value), str(error), policy)
    return outcome if case.is_pending and sources.exists else _untold(outcome)


def passes(pod: Pod | None, binding: Binding, namespace: Namespace) -> BindOutcome | None:
    """Why the Binding is left alone whatever the pod is made of, or ``None``."""
    if pod is None:
        return _POD_GONE
    uid = _uid(pod)
    if binding.pod_uid and uid and binding.pod_uid != uid:
        return BindOutcome(kind=Kind.SKIP, reason=BindReason.POD_RECREATED)
    if pod.spec and pod.spec.node_name:
        return BindOutcome(kind=Kind.SKIP, reason=BindReason.ALREADY_BOUND)
    return None if may_be_told(pod, namespace) else _NOT_INJECTED


def may_be_told(pod: Pod, namespace: Namespace) -> bool:
    """Whether namespace and pod want an answer to its Binding, as far as is known."""
    opted_in = namespace.injection_enabled or not namespace.known
    opted_out = pod.labels.get(names.INJECTION) == "disabled" or pod.annotations.get(names.INJECT) == "false"
    return opted_in and not opted_out


def unreadable(message: str) -> BindOutcome:
    """The answer where the pod could not be read."""
    return _refused(BindReason.POD_UNREADABLE, _UNAVAILABLE, message)


def namespace_unknown(namespace: Namespace) -> BindOutcome:
    """The answer where it is not known what the namespace requires."""
    message = f"namespace {namespace.name} is not known yet, so what it requires of its pods is not either"
    return _refused(BindReason.NAMESPACE_UNKNOWN, _UNAVAILABLE, message)


def peer_devices(pods: Iterable[Pod], uid: str, policy: AdmitPolicy) -> tuple[Device, ...]:
    """What pods of a group have, without the one of this uid; a nameless device for what cannot be read."""
    found: list[Device] = []
    holder, limits = "a pod of the group", policy.limits.allocation
    for other in pods:
        if uid and _uid(other) == uid:
            continue
        for family in {resources.family: None for resources in policy.resources}:
            try:
                found += read_allocation(other.annotations, family=family, holder=holder, limits=limits).devices
            except FormatError:
                found.append(Device())
    return tuple(found)


def _case(  # noqa: PLR0913 - a case is made of all of them
    pod: Pod,
    binding: Binding,
    namespace: Namespace,
    requests: PodRequests,
    policy: AdmitPolicy,
    profile: Profile,
    *,
    is_observed: bool = False,
) -> Case:
    """What the pod asks for.

    Raises:
        FormatError: an option does not parse.
        Refused: the GPUs are those of two families, or the option ``containers`` names others.
        MalformedPod: a field has another type than in a pod.
    """
    annotations: Mapping[str, str] = pod.annotations
    if policy.knows_clients and binding.annotations:
        annotations = {**annotations, **binding.annotations}
    options = resolve_options(policy.defaults, pod, namespace)
    wanted, family = read_wanted(pod, namespace, requests, policy, options, profile)
    wish = Wish(
        options=options,
        wanted=wanted,
        family=family,
        referred=referred_annotations(pod),
        verifies=profile.shares_gpus and has_remap_container(pod, policy, profile),
        fabric_use=read_fabric_use(pod, requests.containers),
        is_observed=is_observed,
    )
    return Case(
        holder=f"pod {namespace.name}/{pod.display_name}",
        uid=_uid(pod),
        node=fitted(binding.node, NAME_LIMIT),
        annotations=annotations,
        wish=wish,
        is_pending=pod.is_pending,
    )


def resolve_case(case: Case, policy: AdmitPolicy, sources: Sources, *, peers: Sequence[Device] = ()) -> Resolution:
    """What follows from the pod's allocation.

    Raises:
        UnresolvedError: nothing does; the text says why.
    """
    allocation = _read_allocation(case, policy)
    node = _choose(case, allocation, policy, sources)
    check_size(node, policy.limits.node)
    return resolve(case.wish.wanted, allocation, node, peers=peers)


def _read_allocation(case: Case, policy: AdmitPolicy) -> Allocation:
    family, limits = case.wish.family, policy.limits.allocation
    dialect = dialect_of(family)
    try:
        allocation = read_allocation(case.annotations, family=family, holder=case.holder, limits=limits)
    except LimitError as error:
        raise UnresolvedError(Unresolved.OVER_LIMIT, str(error)) from None
    except FormatError as error:
        raise UnresolvedError(Unresolved.BAD_ALLOCATION, str(error)) from None
    served = case.annotations.get(names.HAMI_DEVICES_TO_ALLOCATE, "") if family == "hami" else ""
    if served.strip(";") and served != case.annotations.get(dialect.key):
        # HAMi's scheduler writes one text to both (pkg/scheduler/scheduler.go, Filter), and its plugin reads this one.
        text = f"{dialect.key} and {names.HAMI_DEVICES_TO_ALLOCATE} name different GPUs: somebody changed one of them"
        raise UnresolvedError(Unresolved.BAD_ALLOCATION, text)
    meant = allocated_node(case.annotations, family=family)
    if meant != case.node and dialect.node_key and allocation.devices:
        text = f"the allocation was made for node {printable(meant or '(none)')}, but the pod goes to node {case.node}"
        raise UnresolvedError(Unresolved.STALE_ALLOCATION, text)
    return allocation


def _choose(case: Case, allocation: Allocation, policy: AdmitPolicy, sources: Sources) -> KnownNode:
    node = choose_node(
        sources,
        [device.uuid for device in allocation.devices if device.uuid],
        max_age=policy.binding.topology_max_age_seconds,
        verified=not case.wish.profile.shares_gpus or (case.wish.verifies and policy.remap.sees_gpus),
    )
    if node is None:
        raise UnresolvedError(Unresolved.NODE_UNKNOWN, _unknown_node(case.node, sources))
    return node


def _unknown_node(name: str, sources: Sources) -> str:
    if sources.published and sources.age is not None:
        old = "of unknown age" if isinf(sources.age) else f"{sources.age / 60:.0f} minutes old"
        return (
            f"the topology of node {name} is {old}, and the pod has no remap container that would verify it. "
            "Is the agent running there?"
        )
    return f"the topology of node {name} is not known. Is the agent running there?"


def _not_named(case: Case, policy: AdmitPolicy) -> BindOutcome:
    """The answer to a Binding without the uid of its pod, which schedulers know and a forger would have to guess."""
    return _untold(_unresolved(case, BindReason.POD_NOT_NAMED, _NOT_NAMED, policy))


def _untold(outcome: BindOutcome) -> BindOutcome:
    """The same without an Event: not all that it would say is known to be true."""
    return msgspec.structs.replace(outcome, event=None) if outcome.event else outcome


def _unresolved(case: Case, reason: BindReason, text: str, policy: AdmitPolicy) -> BindOutcome:
    message = f"{case.holder}: {text}"
    if case.is_observed:
        return BindOutcome(kind=Kind.SKIP, reason=BindReason.OBSERVED, profile=Profile.OBSERVE, message=message)
    event = PodEvent(_NOT_RESOLVED, _note(case, reason, text))
    if case.wish.profile.shares_gpus:
        return BindOutcome(
            kind=Kind.REFUSE, reason=reason, profile=case.wish.profile, code=_CONFLICT, message=message, event=event
        )
    if reason is BindReason.MIG_ALLOCATION and case.wish.wanted.requirements:
        outcome = BindOutcome(
            kind=Kind.PATCH, reason=reason, profile=case.wish.profile, annotations=_defaults(case, policy)
        )
        return _violated(case, outcome, (text,), told=BIND_SENTENCES[reason])
    return BindOutcome(
        kind=Kind.DEGRADED,
        reason=reason,
        profile=case.wish.profile,
        annotations=_defaults(case, policy),
        warnings=[message],
        message=message,
        event=event,
    )


def _note(case: Case, reason: BindReason, text: str) -> str:
    """What an Event says: nothing that stands in an annotation, because whoever may patch the pod may write those."""
    if reason is BindReason.NODE_UNKNOWN:
        return f"{case.holder}: {text}"
    return f"{case.holder} on node {case.node}: {BIND_SENTENCES[reason]}"


def _defaults(case: Case, policy: AdmitPolicy) -> dict[str, str]:
    """What admission writes of GPUs that are not known, for a pod that was told of others when it was created."""
    if case.annotations.get(names.LINK) is None:
        return {}
    wanted = case.wish.wanted
    nvls = nvls_until_bind(wanted.profile, host_network=wanted.host_network)
    found = nccl_annotations(nccl_defaults(policy.nccl_tables, nvls=nvls))
    found |= {names.NODE_TOPOLOGY: names.UNKNOWN_TOPOLOGY, names.VISIBLE_UUIDS: names.NO_VISIBLE_DEVICE}
    for_people = dict.fromkeys(FOR_PEOPLE, "") | {names.SATISFIED: UNKNOWN}
    return {key: value for key, value in found.items() if key in case.wish.referred} | for_people


def _resolved(case: Case, resolution: Resolution) -> BindOutcome:
    observed = case.is_observed
    between_nodes = fabric_problem(case.wish.fabric_use, resolution.node.topology)
    outcome = BindOutcome(
        kind=Kind.SKIP if observed else Kind.PATCH,
        reason=BindReason.OBSERVED if observed else BindReason.RESOLVED,
        profile=Profile.OBSERVE if observed else case.wish.profile,
        annotations={} if observed else _fitting(case, annotations(resolution, case.wish.referred)),
        warnings=[*_doubts(resolution), *filter(None, [between_nodes])],
        event=PodEvent(_FABRIC_NOT_USED, f"{case.holder} on node {case.node}: {between_nodes}")
        if between_nodes and not observed
        else None,
        link="" if resolution.doubt else resolution.worst.link.value,
        same_numa=_same_numa(resolution),
        satisfied={"true": True, "false": False}.get(satisfied_text(resolution)) if resolution.requires else None,
    )
    return _violated(case, outcome, resolution.unmet) if resolution.unmet and not observed else outcome


def _fitting(case: Case, written: dict[str, str]) -> dict[str, str]:
    """What is written, without the topology of the node if the pod's annotations have no room for it.

    The API server does not count them at a Binding, but at each later update, the status of the kubelet among them: a
    pod with too many could never be updated again.
    """
    limit, there = ANNOTATIONS_LIMIT - ROOM_FOR_OTHERS, case.annotations
    characters = len("".join((*there, *there.values(), *written, *written.values())))
    if names.NODE_TOPOLOGY not in written or 4 * characters <= limit:  # no character has more bytes in UTF-8
        return written
    if _size({**there, **written}) <= limit:
        return written
    return {key: value for key, value in written.items() if key != names.NODE_TOPOLOGY}


def _size(found: Mapping[str, str]) -> int:
    """Bytes."""
    return sum([len(text) if text.isascii() else len(text.encode()) for pair in found.items() for text in pair])


def _violated(case: Case, outcome: BindOutcome, unmet: Sequence[str], *, told: str = "") -> BindOutcome:
    """``outcome`` for GPUs that are not what the pod requires; ``told`` is what the Event says, if not all of it."""
    where = f"{case.holder} on node {case.node}"
    message = f"{where}: {'; '.join(unmet)}"
    denied = case.wish.options.on_violation is OnViolation.DENY
    return msgspec.structs.replace(
        outcome,
        kind=Kind.REFUSE if denied else Kind.DEGRADED,
        reason=BindReason.REQUIREMENT_NOT_MET,
        code=_FORBIDDEN if denied else 0,
        annotations={} if denied else outcome.annotations | {names.SATISFIED: "false"},
        warnings=outcome.warnings if denied else [*outcome.warnings, message],
        message=message,
        event=PodEvent(_REQUIREMENT_NOT_MET, f"{where}: {told}" if told else message),
        satisfied=False,
    )


def _doubts(resolution: Resolution) -> Iterable[str]:
    """Why the topology may be less than the truth."""
    node = resolution.node
    if resolution.doubt and resolution.requires:
        yield f"whether the requirements are met is not known: {resolution.doubt}"
    if node.origin is Origin.HAMI:
        yield (
            f"the topology of node {node.name} is that of HAMi's annotations: "
            "the agent has published none that is up to date"
        )
    if node.stale:
        yield node.stale


def _same_numa(resolution: Resolution) -> bool | None:
    nodes = set(map(_NUMA_NODE, resolution.gpus))
    return None if None in nodes else len(nodes) == 1


def _refused(reason: BindReason, code: int, message: str) -> BindOutcome:
    return BindOutcome(kind=Kind.REFUSE, reason=reason, code=code, message=message)


def _uid(pod: Pod) -> str:
    return (pod.metadata.uid if pod.metadata else None) or ""
