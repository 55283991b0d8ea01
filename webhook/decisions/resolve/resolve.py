"""The resolution of an allocation: from the GPUs that a pod was given to all that it needs to know about them."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from webhook.decisions.allocation.assignment import assign
from webhook.decisions.allocation.model import Allocation, Device
from webhook.decisions.resolve.demand import GpuContainer, GpuDemand
from webhook.decisions.resolve.nccl import nccl_file_values, nccl_values
from webhook.decisions.resolve.node import AllocatedGpus, KnownNode, NodeLimits
from webhook.decisions.resolve.requirements import NOTHING_REQUIRED, judge
from webhook.hardware.topology.model import Gpu, MigMode
from webhook.hardware.topology.sets import GpuSet
from webhook.words import names
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.links import (
    ALLOCATION_UNREADABLE,
    GPU_IN_MIG_MODE,
    GPU_NOT_LISTED,
    GPU_UNREACHABLE,
    MIG_INSTANCE,
    NO_ALLOCATION,
    NODE_TOO_LARGE,
    NONE_TO_SELECTED,
    NUMBERS_BESIDE_MIG,
    NUMBERS_NOT_KNOWN,
)
from webhook.words.errors import FormatError, GpuTopologyError

_MIG = attrgetter("mig")


class Unresolved(StrEnum):
    """The reason why nothing can be said about a pod's GPUs."""

    NO_ALLOCATION = "no-allocation"
    STALE_ALLOCATION = "stale-allocation"
    BAD_ALLOCATION = "bad-allocation"
    MIG_ALLOCATION = "mig-allocation"
    SHARED_DEVICE = "shared-device"
    NODE_UNKNOWN = "node-unknown"
    GPU_UNKNOWN = "gpu-unknown"
    OVER_LIMIT = "over-limit"


class UnresolvedError(GpuTopologyError):
    """Nothing can be said about the pod's GPUs; the message says why and what to do."""

    def __init__(self, reason: Unresolved, message: Message) -> None:
        self.reason, self.message = reason, message
        super().__init__(message.text)


class ContainerGpus(NamedTuple):
    """The GPUs of one container."""

    container: GpuContainer
    gpus: tuple[Gpu, ...]
    """The GPUs in CUDA's order."""
    cuda_indices: tuple[int, ...]
    """CUDA's indices of its GPUs among all that it sees, in the same order; empty where it sees only its own."""

    @property
    def cuda_visible_devices(self) -> str:
        """The value of ``CUDA_VISIBLE_DEVICES``; empty where the container needs none."""
        return ",".join(map(str, self.cuda_indices))


class Resolution(NamedTuple):
    """The resolution of an allocation: all that follows from it."""

    node: KnownNode
    containers: tuple[ContainerGpus, ...]
    """The containers to which the profile applies, in order."""
    gpus: tuple[Gpu, ...]
    """All GPUs of these containers, in CUDA's order."""
    sets: tuple[GpuSet, ...]
    """The sets that requirements are about; one for all containers in the peer profiles."""
    nccl: tuple[tuple[str, str], ...]
    """NCCL variables with their values."""
    nccl_file: tuple[tuple[str, str], ...]
    """NCCL variables that NCCL reads from its configuration file."""
    unmet: tuple[str, ...]
    """A sentence for each requirement that is not met."""
    requires: bool
    """Whether there are requirements at all."""
    undecided: str
    """Why it is not known whether the other requirements are met, in a sentence; empty if it is known."""
    doubt: str
    """Why it is not known how GPUs are linked, in a sentence; empty if it is known."""

    @property
    def worst(self) -> GpuSet:
        """The set with the slowest pair; a set of one GPU only if no set has more."""
        if len(self.sets) == 1:
            return self.sets[0]
        return min(self.sets, key=lambda gpu_set: (gpu_set.weakest is None, gpu_set.bandwidth))

    @property
    def visible_uuids(self) -> str:
        """The UUIDs of the GPUs that stay the pod's, as ``NVIDIA_VISIBLE_DEVICES`` lists them; ``none`` without any."""
        kept = {gpu.uuid for given in self.containers if given.container.keeps_gpus for gpu in given.gpus}
        return ",".join([gpu.uuid for gpu in self.gpus if gpu.uuid in kept]) or names.NO_VISIBLE_DEVICE


def check_size(node: KnownNode, limits: NodeLimits) -> None:
    """Raises UnresolvedError if the node is larger than the limits."""
    excess = node.excess(limits)
    if excess:
        raise UnresolvedError(Unresolved.OVER_LIMIT, NODE_TOO_LARGE.say(problem=excess))


def resolve(demand: GpuDemand, allocation: Allocation, node: KnownNode, *, peers: Sequence[Device] = ()) -> Resolution:
    """Returns the resolution of a pod's allocation.

    Args:
        demand: The demand of the pod.
        allocation: The GPUs that the scheduler gave to the pod.
        node: The node of the GPUs.
        peers: The devices of other pods of its group on the node.

    Raises:
        UnresolvedError: the allocation does not fit the pod, holds MIG instances, or names GPUs that the node lacks.
    """
    dealt = _deal(demand, allocation)
    selected = [(container, _allocated_gpus(devices, node)) for container, devices in dealt if container.selected]
    if not selected:
        raise UnresolvedError(Unresolved.NO_ALLOCATION, NONE_TO_SELECTED.say())
    shares, node_wide = demand.profile.shares_gpus, demand.sees_node
    if len(selected) == 1:
        every = selected[0][1].gpus
    else:
        every = node.ordered([gpu for _, given in selected for gpu in given.gpus])
    numbers = _numbers(_visible(every, node, node_wide)) if demand.sees_others else {}
    # CUDA counts all GPUs of the node in a privileged container, whatever its list says.
    unlimited = demand.sees_others and not node_wide and any(container.sees_node for container, _ in selected)
    of_node = _numbers(_visible(every, node, node_wide=True)) if unlimited else numbers
    containers = tuple(
        [
            ContainerGpus(container, given.gpus, _counted(given.gpus, of_node if container.sees_node else numbers))
            for container, given in selected
        ]
    )
    others = [node.gpu(device.uuid, device.minor) for device in peers] if node_wide else []
    together = node.ordered([*every, *filter(None, others)]) if others else every
    sets = (_gpu_set(together, node),) if shares else tuple([given.gpu_set for _, given in selected])
    missing = "which GPUs another pod of the group has is not known" if None in others else ""
    judged = judge(demand.requirements, sets, node, missing) if demand.requirements else NOTHING_REQUIRED
    # A pod of ``node-peers`` shares the GPUs of the node with other pods, perhaps later ones.
    decisive = (_gpu_set(node.in_cuda_order, node),) if node_wide else sets
    return Resolution(
        node=node,
        containers=containers,
        gpus=every,
        sets=sets,
        nccl=nccl_values(decisive, node, demand),
        nccl_file=nccl_file_values(decisive, node, demand.nccl),
        unmet=judged.unmet,
        requires=bool(demand.requirements),
        undecided=judged.doubt,
        doubt=next(filter(None, map(node.doubt, sets)), missing),
    )


def _deal(demand: GpuDemand, allocation: Allocation) -> list[tuple[GpuContainer, tuple[Device, ...]]]:
    if not any(allocation.segments):
        raise UnresolvedError(Unresolved.NO_ALLOCATION, NO_ALLOCATION.say())
    try:
        dealt = assign(allocation, demand.containers)
    except FormatError as error:
        raise UnresolvedError(Unresolved.BAD_ALLOCATION, ALLOCATION_UNREADABLE.say(problem=error)) from None
    for _, devices in dealt:
        if instance := next(filter(_MIG, devices), None):
            message = MIG_INSTANCE.say(gpu=instance.uuid, instance=instance.mig)
            raise UnresolvedError(Unresolved.MIG_ALLOCATION, message)
    return dealt


def _allocated_gpus(devices: Sequence[Device], node: KnownNode) -> AllocatedGpus:
    try:
        return node.allocated(tuple([device.uuid or device.minor for device in devices]))
    except LookupError:
        raise next(filter(None, (_not_allocatable(device, node) for device in devices))) from None


def _not_allocatable(device: Device, node: KnownNode) -> UnresolvedError | None:
    """Returns why a container cannot have this GPU of the node; ``None`` if it can."""
    gpu = node.gpu(device.uuid, device.minor)
    if gpu is None:
        return UnresolvedError(Unresolved.GPU_UNKNOWN, _unknown(device, node))
    if gpu.mig_mode is MigMode.ENABLED:
        message = GPU_IN_MIG_MODE.say(gpu=f"{gpu.label} {gpu.uuid}", node=node.name)
        return UnresolvedError(Unresolved.MIG_ALLOCATION, message)
    return None


def _unknown(device: Device, node: KnownNode) -> Message:
    named = device.uuid or f"the GPU with minor number {device.minor}"
    lost = next((gpu for gpu in node.topology.lost if device.uuid and gpu.uuid == device.uuid), None)
    if lost:
        return GPU_UNREACHABLE.say(gpu=named, node=node.name, label=lost.label, problem=lost.problem)
    # Not which ones it lists: whoever may write an allocation can name any node, and a GPU that does not exist.
    return GPU_NOT_LISTED.say(gpu=named, node=node.name, count=len(node.topology.gpus))


def _visible(every: tuple[Gpu, ...], node: KnownNode, node_wide: bool) -> tuple[Gpu, ...]:
    """Returns the GPUs that a sharing container sees, in CUDA's order: all of the node or all of the pod."""
    if node.numbering_problem and (node_wide or len(every) > 1):
        raise UnresolvedError(Unresolved.NODE_UNKNOWN, NUMBERS_NOT_KNOWN.say(problem=node.numbering_problem))
    if not node_wide:
        return every
    if node.has_mig:
        # CUDA counts MIG instances and whole GPUs in a way that no documentation promises.
        raise UnresolvedError(Unresolved.MIG_ALLOCATION, NUMBERS_BESIDE_MIG.say(node=node.name))
    return node.in_cuda_order


def _numbers(visible: Sequence[Gpu]) -> dict[int, int]:
    """Returns CUDA's numbers of GPUs, by their indices."""
    return {gpu.index: number for number, gpu in enumerate(visible)}


def _counted(gpus: Sequence[Gpu], numbers: Mapping[int, int]) -> tuple[int, ...]:
    return tuple([numbers[gpu.index] for gpu in gpus]) if numbers else ()


def _gpu_set(gpus: Sequence[Gpu], node: KnownNode) -> GpuSet:
    return node.gpu_set([gpu.index for gpu in gpus])
