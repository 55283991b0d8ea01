"""The resolution of the GPUs that the scheduler has allocated to a pod."""

from collections.abc import Iterable, Sequence
from math import isinf

from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.decisions.allocation.model import Allocation, Device
from webhook.decisions.allocation.reader import allocated_node, dialect_of, read_allocation
from webhook.decisions.bind.pod_to_bind import PodToBind, uid_of
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.resolve.node import KnownNode, Sources, choose_node
from webhook.decisions.resolve.resolve import Resolution, Unresolved, UnresolvedError, check_size, resolve
from webhook.objects.pod import Pod
from webhook.words import names
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.links import (
    ALLOCATION_TOO_LARGE,
    ALLOCATION_UNREADABLE,
    OTHER_NODE,
    TOPOLOGY_NOT_KNOWN,
    TOPOLOGY_TOO_OLD,
    TWO_ALLOCATIONS,
)
from webhook.words.errors import FormatError, LimitError
from webhook.words.printable import printable


def resolve_pod(pod: PodToBind, policy: AdmitPolicy, sources: Sources, *, peers: Sequence[Device] = ()) -> Resolution:
    """Returns the resolution of the pod's allocation.

    Raises:
        UnresolvedError: the allocation cannot be resolved; the text says why.
    """
    allocation = _read_allocation(pod, policy)
    node = _choose_node(pod, allocation, policy, sources)
    check_size(node, policy.limits.node)
    return resolve(pod.demand, allocation, node, peers=peers)


def peer_devices(pods: Iterable[Pod], uid: str, policy: AdmitPolicy) -> tuple[Device, ...]:
    """Returns the devices of the pods of a group, without the pod of this uid.

    For an allocation that cannot be read there is a device without a name.
    """
    found: list[Device] = []
    holder, limits = "a pod of the group", policy.limits.allocation
    families = dict.fromkeys(resources.family for resources in policy.resources)
    for other in pods:
        if uid and uid_of(other) == uid:
            continue
        for family in families:
            try:
                found += read_allocation(other.annotations, family=family, holder=holder, limits=limits).devices
            except FormatError:
                found.append(Device())
    return tuple(found)


def _read_allocation(pod: PodToBind, policy: AdmitPolicy) -> Allocation:
    if pod.demand.family == CLAIM:
        # The annotation ``claimed-gpus`` is not read: bind writes it itself.
        if pod.given.problem:
            raise pod.given.problem
        return pod.given.allocation
    family, limits = pod.demand.family, policy.limits.allocation
    dialect = dialect_of(family)
    try:
        allocation = read_allocation(pod.annotations, family=family, holder=pod.holder, limits=limits)
    except LimitError as error:
        raise UnresolvedError(Unresolved.OVER_LIMIT, ALLOCATION_TOO_LARGE.say(problem=error)) from None
    except FormatError as error:
        raise UnresolvedError(Unresolved.BAD_ALLOCATION, ALLOCATION_UNREADABLE.say(problem=error)) from None
    served = pod.annotations.get(names.HAMI_DEVICES_TO_ALLOCATE, "") if family == "hami" else ""
    if served.strip(";") and served != pod.annotations.get(dialect.key):
        # HAMi's scheduler writes one text to both (pkg/scheduler/scheduler.go, Filter), and its plugin reads this one.
        message = TWO_ALLOCATIONS.say(key=dialect.key, other=names.HAMI_DEVICES_TO_ALLOCATE)
        raise UnresolvedError(Unresolved.BAD_ALLOCATION, message)
    meant = allocated_node(pod.annotations, family=family)
    if meant != pod.node and dialect.node_key and allocation.devices:
        message = OTHER_NODE.say(meant=printable(meant or "(none)"), node=pod.node)
        raise UnresolvedError(Unresolved.STALE_ALLOCATION, message)
    return allocation


def _choose_node(pod: PodToBind, allocation: Allocation, policy: AdmitPolicy, sources: Sources) -> KnownNode:
    node = choose_node(
        sources,
        [device.uuid for device in allocation.devices if device.uuid],
        max_age=policy.binding.topology_max_age_seconds,
        verified=not pod.profile.shares_gpus or (pod.verifies and policy.remap.sees_gpus),
    )
    if node is None:
        raise UnresolvedError(Unresolved.NODE_UNKNOWN, _unknown_node(pod.node, sources))
    return node


def _unknown_node(name: str, sources: Sources) -> Message:
    if sources.published and sources.age is not None:
        old = "of unknown age" if isinf(sources.age) else f"{sources.age / 60:.0f} minutes old"
        return TOPOLOGY_TOO_OLD.say(node=name, age=old)
    return TOPOLOGY_NOT_KNOWN.say(node=name)
