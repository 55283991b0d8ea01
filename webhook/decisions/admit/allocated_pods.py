"""Pods that have their GPUs already when they are created: restored ones, and those that were allocated before.

What bind would write is then known, and written at once, by the same function.
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
"""What is known of a node, by its name."""


def unknown_nodes(_name: str) -> Sources:
    """Nothing is known of any node."""
    return Sources()


def has_allocation(pod: Pod) -> bool:
    """Whether a scheduler has chosen a node for the pod."""
    annotations = pod.annotations
    return names.HAMI_ALLOCATED_NODE in annotations or names.VOLCANO_ALLOCATED_NODE in annotations


def allocated_annotations(
    pod: Pod, namespace: Namespace, demand: GpuDemand, nodes: Nodes, policy: AdmitPolicy
) -> Mapping[str, str]:
    """The annotations that bind would write; none where it could not, or must not yet.

    The allocation is an annotation, so whoever creates the pod may have invented it. What shows a pod cards by that
    word alone, the list of UUIDs, needs the permission to see every GPU of a node; ``pod-peers`` is nothing without it.

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
    """The containers that ask for GPUs, as those see them who resolve an allocation."""
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
