"""The outcomes of a Binding: annotations, warnings, Event and refusal."""

from collections.abc import Iterable, Mapping
from operator import attrgetter

import msgspec

from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.decisions.allocation.claim import format_claimed
from webhook.decisions.allocation.model import Allocation, Device
from webhook.decisions.bind.pod_to_bind import PodToBind
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.resolve.fabric import fabric_problem
from webhook.decisions.resolve.nccl import nccl_defaults, nvls_until_bind
from webhook.decisions.resolve.node import Origin
from webhook.decisions.resolve.outputs import FOR_PEOPLE, UNKNOWN, annotations, nccl_annotations, satisfied_text
from webhook.decisions.resolve.resolve import Resolution, Unresolved, UnresolvedError
from webhook.objects.binding import BIND_ENTRIES, BindOutcome, BindReason, PodEvent
from webhook.words import names
from webhook.words.catalogue.claims import CLAIM_IS_SHARED, UNMET_BY_CLAIM
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.links import (
    ALLOCATION_UNREADABLE,
    REQUIREMENTS_NOT_JUDGED,
    TOPOLOGY_OF_HAMI,
    TOPOLOGY_OLD,
    UNMET,
)
from webhook.words.catalogue.opting import NOT_PREPARED_BUT_JUDGED
from webhook.words.choices import OnViolation, Profile
from webhook.words.errors import FormatError
from webhook.words.outcome import Kind

FORBIDDEN, CONFLICT, INVALID, UNAVAILABLE = 403, 409, 422, 503
ANNOTATIONS_LIMIT = 256 * 1024
"""In bytes of all keys and values: apimachinery pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB."""
ROOM_FOR_OTHERS = 32 * 1024
_NUMA_NODE = attrgetter("numa_node")
_REQUIREMENT_NOT_MET, _NOT_RESOLVED, _FABRIC_NOT_USED = "RequirementNotMet", "NotResolved", "FabricNotUsed"
_SIDECAR_NOT_FIRST, _NO_PARTITION = "SidecarNotFirst", "NoPartition"


def resolved(pod: PodToBind, resolution: Resolution) -> BindOutcome:
    """Returns the outcome for a pod whose GPUs are resolved.

    Raises:
        UnresolvedError: what the pod has to be told of its GPUs cannot be written.
    """
    if not pod.is_prepared:
        return _judged(pod, resolution)
    observed = pod.is_observed
    warnings, event = list(map(str, _doubts(resolution))), None
    if pod.profile is Profile.EXCLUSIVE and pod.given.shared_with:
        warnings.append(str(CLAIM_IS_SHARED.say(count=pod.given.shared_with)))
    if pod.misread:
        warnings.append(str(pod.misread))
        event = PodEvent(_SIDECAR_NOT_FIRST, pod.misread.about(f"{pod.holder} on node {pod.node}"))
    between_nodes = fabric_problem(pod.fabric_use, resolution.node.topology)
    if between_nodes:
        warnings.append(str(between_nodes))
        event = PodEvent(_FABRIC_NOT_USED, between_nodes.about(f"{pod.holder} on node {pod.node}"))
    if pod.given.no_partition:
        warnings.append(str(pod.given.no_partition))
        event = PodEvent(_NO_PARTITION, pod.given.no_partition.about(f"{pod.holder} on node {pod.node}"))
    outcome = BindOutcome(
        kind=Kind.SKIP if observed else Kind.PATCH,
        reason=BindReason.OBSERVED if observed else BindReason.RESOLVED,
        profile=Profile.OBSERVE if observed else pod.profile,
        annotations={}
        if observed
        else _fitting(pod, _claimed(pod, resolution) | annotations(resolution, pod.referred)),
        warnings=warnings,
        event=None if observed else event,
        link="" if resolution.doubt else resolution.worst.link.value,
        same_numa=_same_numa(resolution),
        satisfied=_satisfied(resolution),
    )
    if not resolution.unmet or observed:
        return outcome
    return _unmet(pod, outcome, resolution)


def _judged(pod: PodToBind, resolution: Resolution) -> BindOutcome:
    """Returns the outcome for a pod that admission left alone, and that requires something of its GPUs itself."""
    outcome = BindOutcome(
        kind=Kind.SKIP,
        reason=BindReason.NOT_INJECTED,
        warnings=[NOT_PREPARED_BUT_JUDGED.say().about(pod.holder), *map(str, _doubts(resolution))],
        link="" if resolution.doubt else resolution.worst.link.value,
        same_numa=_same_numa(resolution),
        satisfied=_satisfied(resolution),
    )
    return _unmet(pod, outcome, resolution) if resolution.unmet else outcome


def _satisfied(resolution: Resolution) -> bool | None:
    return {"true": True, "false": False}.get(satisfied_text(resolution)) if resolution.requires else None


def _unmet(pod: PodToBind, outcome: BindOutcome, resolution: Resolution) -> BindOutcome:
    # A claim keeps its devices, so that each new attempt would end in the same way.
    entry = UNMET_BY_CLAIM if pod.given.keeps_devices else UNMET
    return _violated(pod, outcome, entry.say(unmet="; ".join(resolution.unmet)))


def _claimed(pod: PodToBind, resolution: Resolution) -> dict[str, str]:
    """Returns the annotation with the GPUs that claims gave to each container, for the program in the pod.

    Raises:
        UnresolvedError: the annotation has no place for them, such as for 16 GPUs in each of 128 containers.
    """
    if pod.demand.family != CLAIM and names.CLAIMED_GPUS not in pod.referred:
        return {}
    given = [(given.container.name, given.gpus) for given in resolution.containers]
    allocation = Allocation(
        segments=tuple([tuple([Device(uuid=gpu.uuid) for gpu in gpus]) for _, gpus in given]),
        containers=tuple([name for name, _ in given]),
    )
    try:
        return {names.CLAIMED_GPUS: format_claimed(allocation)}
    except FormatError as error:
        raise UnresolvedError(Unresolved.BAD_ALLOCATION, ALLOCATION_UNREADABLE.say(problem=error)) from None


def unresolved(pod: PodToBind, reason: BindReason, why: Message, policy: AdmitPolicy) -> BindOutcome:
    """Returns the outcome for a pod whose GPUs are not resolved, for this reason; ``why`` has the details."""
    message = why.about(pod.holder)
    if pod.is_observed:
        return BindOutcome(kind=Kind.SKIP, reason=BindReason.OBSERVED, profile=Profile.OBSERVE, message=message)
    if not pod.is_prepared:
        return _not_judged(pod, reason, why)
    event = PodEvent(_NOT_RESOLVED, _note(pod, reason, why))
    if pod.profile.shares_gpus:
        return BindOutcome(
            kind=Kind.REFUSE, reason=reason, profile=pod.profile, code=CONFLICT, message=message, event=event
        )
    if reason is BindReason.MIG_ALLOCATION and pod.demand.requirements.of_links:
        outcome = BindOutcome(kind=Kind.PATCH, reason=reason, profile=pod.profile, annotations=_defaults(pod, policy))
        return _violated(pod, outcome, why, event_message=BIND_ENTRIES[reason].say())
    return BindOutcome(
        kind=Kind.DEGRADED,
        reason=reason,
        profile=pod.profile,
        annotations=_defaults(pod, policy),
        warnings=[message],
        message=message,
        event=event,
    )


def _not_judged(pod: PodToBind, reason: BindReason, why: Message) -> BindOutcome:
    """Returns the outcome for a pod that admission left alone, and whose GPUs are not resolved."""
    if reason is BindReason.MIG_ALLOCATION and pod.demand.requirements.of_links:
        outcome = BindOutcome(kind=Kind.SKIP, reason=reason)
        return _violated(pod, outcome, why, event_message=BIND_ENTRIES[reason].say())
    said = REQUIREMENTS_NOT_JUDGED.say(doubt=why.text).about(pod.holder)
    return BindOutcome(kind=Kind.SKIP, reason=BindReason.NOT_INJECTED, warnings=[said], message=said)


def refused(reason: BindReason, code: int, message: str) -> BindOutcome:
    """Returns the outcome for a Binding that is refused with this HTTP status."""
    return BindOutcome(kind=Kind.REFUSE, reason=reason, code=code, message=message)


def without_event(outcome: BindOutcome) -> BindOutcome:
    """Returns ``outcome`` without its Event, whose text is not known to be true."""
    return msgspec.structs.replace(outcome, event=None) if outcome.event else outcome


def _note(pod: PodToBind, reason: BindReason, why: Message) -> str:
    """Returns the text of an Event. It quotes no annotation, because all who may patch the pod may write those."""
    if reason is BindReason.NODE_UNKNOWN:
        return why.about(pod.holder)
    return BIND_ENTRIES[reason].say().about(f"{pod.holder} on node {pod.node}")


def _defaults(pod: PodToBind, policy: AdmitPolicy) -> dict[str, str]:
    """Returns the annotations for GPUs that are not known, for a pod that admission told of other GPUs.

    Their values are those that admission writes while nothing is known.
    """
    if pod.annotations.get(names.LINK) is None:
        return {}
    nvls = nvls_until_bind(pod.profile, host_network=pod.demand.host_network)
    found = nccl_annotations(nccl_defaults(policy.nccl_tables, nvls=nvls))
    found |= {names.NODE_TOPOLOGY: names.UNKNOWN_TOPOLOGY, names.VISIBLE_UUIDS: names.NO_VISIBLE_DEVICE}
    for_people = dict.fromkeys(FOR_PEOPLE, "") | {names.SATISFIED: UNKNOWN}
    return {key: value for key, value in found.items() if key in pod.referred} | for_people


def _fitting(pod: PodToBind, written: dict[str, str]) -> dict[str, str]:
    """Returns the annotations to write, without the node's topology if the pod's annotations have no room for it.

    The API server does not check the size of annotations at a Binding, but at each later update, also at the kubelet's
    updates of the status: a pod with too many could never be updated again.
    """
    limit, there = ANNOTATIONS_LIMIT - ROOM_FOR_OTHERS, pod.annotations
    characters = len("".join((*there, *there.values(), *written, *written.values())))
    if names.NODE_TOPOLOGY not in written or 4 * characters <= limit:  # no character has more bytes in UTF-8
        return written
    if _size({**there, **written}) <= limit:
        return written
    return {key: value for key, value in written.items() if key != names.NODE_TOPOLOGY}


def _size(found: Mapping[str, str]) -> int:
    """Returns the bytes of all keys and values."""
    return sum([len(text) if text.isascii() else len(text.encode()) for pair in found.items() for text in pair])


def _violated(
    pod: PodToBind, outcome: BindOutcome, why: Message, *, event_message: Message | None = None
) -> BindOutcome:
    """Returns ``outcome`` changed for GPUs that do not meet the pod's requirements.

    The Event says ``event_message``, if there is one, in place of ``why``.
    """
    where = f"{pod.holder} on node {pod.node}"
    message = why.about(where)
    denied = pod.demand.on_violation is OnViolation.DENY
    return msgspec.structs.replace(
        outcome,
        kind=Kind.REFUSE if denied else Kind.DEGRADED,
        reason=BindReason.REQUIREMENT_NOT_MET,
        code=FORBIDDEN if denied else 0,
        annotations=outcome.annotations | {names.SATISFIED: "false"} if pod.is_prepared and not denied else {},
        warnings=outcome.warnings if denied else [*outcome.warnings, message],
        message=message,
        event=PodEvent(_REQUIREMENT_NOT_MET, (event_message or why).about(where)),
        satisfied=False,
    )


def _doubts(resolution: Resolution) -> Iterable[Message]:
    """Yields the reasons why the topology may be incomplete or out of date."""
    node = resolution.node
    if resolution.undecided:
        yield REQUIREMENTS_NOT_JUDGED.say(doubt=resolution.undecided)
    if node.origin is Origin.HAMI:
        yield TOPOLOGY_OF_HAMI.say(node=node.name)
    if node.stale:
        yield TOPOLOGY_OLD.say(stale=node.stale)


def _same_numa(resolution: Resolution) -> bool | None:
    nodes = set(map(_NUMA_NODE, resolution.gpus))
    return None if None in nodes else len(nodes) == 1
