"""Pods that have their GPUs already when they are created: restored pods, and pods that were allocated before.

The annotations of bind are then known, and admission writes them at once, by the same function.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.allocation.reader import allocated_node, read_allocation
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.request.demand import gpu_container
from webhook.decisions.resolve.demand import GpuContainer, GpuDemand
from webhook.decisions.resolve.node import Sources, choose_node
from webhook.decisions.resolve.outputs import all_annotations
from webhook.decisions.resolve.resolve import UnresolvedError, check_size, resolve
from webhook.objects.pod import Namespace, Pod, PodSpec
from webhook.words import names
from webhook.words.choices import Profile
from webhook.words.errors import FormatError, LimitError

Nodes = Callable[[str], Sources]
"""A function from the name of a node to what is known of the node."""


def unknown_nodes(_name: str) -> Sources:
    """Returns no source for any node."""
    return Sources()


def has_allocation(pod: Pod) -> bool:
    """Returns whether a scheduler has chosen a node for the pod."""
    annotations = pod.annotations
    return names.HAMI_ALLOCATED_NODE in annotations or names.VOLCANO_ALLOCATED_NODE in annotations


def allocated_annotations(
    pod: Pod, namespace: Namespace, demand: GpuDemand, nodes: Nodes, policy: AdmitPolicy
) -> Mapping[str, str]:
    """Returns the annotations that bind would write; none where bind could not, or must not yet.

    The allocation is an annotation, which the creator of the pod may have invented. The list of UUIDs would show a pod
    cards by that annotation alone, so it needs the permission to see every GPU of a node. Without the permission
    ``pod-peers`` gets no annotation, because the profile needs the list.

    Raises:
        LimitError: the allocation holds more than the configuration allows.
    """
    trusted = namespace.allows(names.ALLOW_NODE_GPUS)
    if demand.profile is Profile.POD_PEERS and not trusted:
        return {}
    node = allocated_node(pod.annotations, family=demand.family)
    assigned = (pod.spec or PodSpec()).node_name
    if node is None or assigned not in (None, "", node):
        return {}
    try:
        holder, limits = f"pod {namespace.name}/{pod.display_name}", policy.limits
        allocation = read_allocation(pod.annotations, family=demand.family, holder=holder, limits=limits.allocation)
        uuids = [device.uuid for device in allocation.devices if device.uuid]
        max_age = policy.binding.topology_max_age_seconds
        known = choose_node(nodes(node), uuids, max_age=max_age, verified=not demand.profile.shares_gpus)
        if known is None:
            return {}
        check_size(known, limits.node)
        found = all_annotations(resolve(demand, allocation, known))
        return {key: value for key, value in found.items() if trusted or key != names.VISIBLE_UUIDS}
    except LimitError:
        raise
    except (FormatError, UnresolvedError):
        return {}  # bind will say it


def gpu_containers(
    containers: Sequence[PodContainer], selected: Collection[str], visible_keys: Mapping[str, str]
) -> tuple[GpuContainer, ...]:
    """Returns the containers that ask for GPUs, in the form in which an allocation is resolved."""
    return tuple(
        gpu_container(
            container.spec,
            container.request.count,
            visible_key=visible_keys.get(container.name, ""),
            selected=container.name in selected,
        )
        for container in containers
        if container.request
    )
