"""The known node of a pod: its topology, and cached values that are computed from it."""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from math import isinf
from typing import TYPE_CHECKING, NamedTuple

from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import HAMI, NO_INDICES, Gpu, MigMode, NodeTopology
from webhook.hardware.topology.sets import GpuSet, assess, links_doubt

if TYPE_CHECKING:
    from webhook.hardware.traffic.model import Traffic

SETS_KEPT = 256
NVLS_SINCE = 90
"""Compute capability 9.0: NCCL src/transport/nvls.cc."""
WITHOUT_NVLINK = frozenset({89, 120})
"""Compute capabilities whose products have no NVLink, by their data sheets: Ada (L4, L40S, RTX 6000 Ada), and the cards
of Blackwell (RTX PRO 6000)."""


class Origin(StrEnum):
    """The origin of a topology."""

    AGENT = "agent"
    """The agent's ConfigMap, or a file of the same content."""
    HAMI = "hami"
    """HAMi's annotations of the Node."""
    NVML = "nvml"
    """The driver of this machine, right now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeLimits:
    """The limits of a node's size, from the section ``limits`` of the configuration.

    The time to judge a set of GPUs grows with the square of its size or faster.
    """

    gpus: int
    links: int
    """Bundles of NVLinks: those of each GPU to each of its targets."""


class AllocatedGpus(NamedTuple):
    """The GPUs that a container was given."""

    gpus: tuple[Gpu, ...]
    """The GPUs in CUDA's order."""
    gpu_set: GpuSet


class KnownNode:
    """A node whose topology is known.

    Args:
        topology: The topology of the node.
        origin: The origin of the topology.
        stale: Why the topology may be out of date, in a sentence; empty if it is up to date.
    """

    def __init__(self, topology: NodeTopology, *, origin: Origin, stale: str = "") -> None:
        self.topology = topology
        self.origin = origin
        self.stale = stale
        self._by_uuid = {gpu.uuid: gpu for gpu in topology.gpus if gpu.uuid}
        self._by_minor = {gpu.minor: gpu for gpu in topology.gpus if gpu.minor is not None}
        self._reckon = lru_cache(SETS_KEPT)(self._assess)
        self.allocated = lru_cache(SETS_KEPT)(self._allocated)
        """Returns the GPUs with these UUIDs or minor numbers; raises ``LookupError`` if a GPU is missing or in MIG
        mode. It is cached because the same whole nodes and well-linked GPUs are allocated again and again."""
        self.aged = lru_cache(1)(self._aged)
        """Returns this node with a reason why it may be out of date; for an equal reason, the identical value."""

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.topology.node

    @cached_property
    def document(self) -> str:
        """The topology as compact JSON."""
        return format_topology(self.topology)

    @cached_property
    def in_cuda_order(self) -> tuple[Gpu, ...]:
        """The GPUs that a CUDA program sees if all are visible to it, in CUDA's order."""
        return tuple(gpu for gpu in _in_cuda_order(self.topology.gpus) if gpu.mig_mode is not MigMode.ENABLED)

    def ordered(self, gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
        """Returns these GPUs of the node, each once, in CUDA's order."""
        places = self._places
        chosen = {places[gpu.index]: gpu for gpu in gpus}
        return tuple([chosen[place] for place in sorted(chosen)])

    @cached_property
    def switched(self) -> frozenset[int]:
        """Indices of the GPUs with links to NVSwitches."""
        return frozenset(gpu.index for gpu in self.topology.gpus if gpu.switch_links)

    @cached_property
    def lacks_nvlink(self) -> bool:
        """Whether it is known that no GPU of the node has an NVLink, up or down."""
        gpus, unread = self.topology.gpus, self.unread
        return bool(gpus) and all(
            not gpu.nvlinks and (gpu.index not in unread or gpu.sm in WITHOUT_NVLINK) for gpu in gpus
        )

    @property
    def is_fabric_ready(self) -> bool:
        """Whether nothing says that the NVLink fabric is not configured: the state that NVLS needs is ``completed``.

        It needs no IMEX channel on one node: https://github.com/NVIDIA/TensorRT-LLM/pull/16595.
        """
        fabric = self.topology.fabric
        return fabric is None or (fabric.is_supported and not fabric.is_faulty)

    @cached_property
    def with_nvls(self) -> frozenset[int]:
        """Indices of the GPUs that support NVLink SHARP."""
        return frozenset(gpu.index for gpu in self.topology.gpus if gpu.sm >= NVLS_SINCE)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {gpu.index: place for place, gpu in enumerate(_in_cuda_order(self.topology.gpus))}

    @cached_property
    def has_mig(self) -> bool:
        """True if a GPU is in MIG mode."""
        return any(gpu.mig_mode is MigMode.ENABLED for gpu in self.topology.gpus)

    @cached_property
    def unread(self) -> frozenset[int]:
        """Indices of the GPUs whose NVLinks are not known."""
        return self.topology.unread

    def doubt(self, gpu_set: GpuSet) -> str:
        """Returns why it is not known how these GPUs are linked, in a sentence; empty if it is known."""
        return links_doubt(self.topology, gpu_set) if self.unread else ""

    @cached_property
    def without_numa(self) -> frozenset[int]:
        """Indices of the GPUs whose NUMA nodes are not known.

        HAMi's device plugin writes 0 where nvidia-smi names no NUMA node (HAMi
        pkg/device-plugin/nvidiadevice/nvinternal/plugin/register.go, parseNvidiaNumaInfo). So 0 on all GPUs counts as
        not known.
        """
        gpus = self.topology.gpus
        if self.from_hami and not any(gpu.numa_node for gpu in gpus):
            return frozenset(gpu.index for gpu in gpus)
        return frozenset(gpu.index for gpu in gpus if gpu.numa_node is None)

    def numa_doubt(self, gpu_set: GpuSet) -> str:
        """Returns why it is not known whether these GPUs are on one NUMA node, in a sentence; empty if it is known."""
        unknown = self.without_numa.intersection(gpu_set.gpus)
        if not unknown or len(gpu_set.gpus) < 2 or len(gpu_set.numa_nodes) > 1:
            return ""
        labels = " ".join(f"GPU{index}" for index in sorted(unknown))
        return f"the NUMA node of {labels} of node {self.name} is not known"

    def excess(self, limits: NodeLimits) -> str:
        """Returns which limit the node exceeds, in a sentence; empty if it exceeds none."""
        for what, setting, found, most in (
            ("GPUs", "gpus", len(self.topology.gpus), limits.gpus),
            ("bundles of NVLinks", "links", self._bundles, limits.links),
        ):
            if found > most:
                return f"node {self.name} has {found} {what}, the configuration allows {most} (limits.{setting})"
        return ""

    @cached_property
    def _bundles(self) -> int:
        return sum(len(gpu.nvlinks) for gpu in self.topology.gpus)

    @property
    def from_hami(self) -> bool:
        """True if the topology is from HAMi's annotations, which hold less than the driver knows."""
        return self.topology.source == HAMI

    @cached_property
    def numbering_problem(self) -> str:
        """The reason why CUDA's numbers of the GPUs cannot be known, in a sentence; empty if they are known.

        HAMi leaves out GPUs that it considers unhealthy or is configured to leave alone; CUDA counts them.
        """
        if not self.from_hami:
            return ""
        indices = [gpu.index for gpu in self.topology.gpus]
        if NO_INDICES in self.topology.problem or indices != list(range(len(indices))):
            listed = ", ".join(map(str, indices)) or "none"
            return f"HAMi's annotations of node {self.name} do not list all of its GPUs by number ({listed})"
        return ""

    def _aged(self, stale: str) -> "KnownNode":
        twin = copy(self)  # the copy shares the cached values
        twin.stale = stale
        return twin

    def gpu(self, uuid: str, minor: int | None) -> Gpu | None:
        """Returns the GPU with this UUID, else with this minor number; None if it is lost or was never there."""
        if uuid:
            return self._by_uuid.get(uuid)
        return None if minor is None else self._by_minor.get(minor)

    def _allocated(self, told: tuple[str | int | None, ...]) -> AllocatedGpus:
        found: list[Gpu] = []
        for name in told:
            gpu = self.gpu(name, None) if isinstance(name, str) else self.gpu("", name)
            if gpu is None or gpu.mig_mode is MigMode.ENABLED:
                raise LookupError(name)
            found.append(gpu)
        gpus = self.ordered(found)
        return AllocatedGpus(gpus, self.gpu_set([gpu.index for gpu in gpus]))

    def gpu_set(self, indices: Sequence[int]) -> GpuSet:
        """Returns the set of these GPUs, given by their NVML indices, with its links and bandwidth."""
        return self._reckon(tuple(sorted(indices)))

    @cached_property
    def _connections(self) -> Connections:
        return Connections(self.topology)

    def _assess(self, indices: tuple[int, ...]) -> GpuSet:
        return assess(self.topology, indices, self._connections)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """The sources about one node that a cluster has."""

    published: KnownNode | None = None
    """The topology of the agent's ConfigMap."""
    age: float | None = None
    """Seconds since the agent's last sign of life; infinite if there was none. None: ``published`` does not age, as a
    file does not."""
    lasts: float = 0.0
    """Seconds for which ``published`` holds, according to the agent itself."""
    annotated: KnownNode | None = None
    """The topology of HAMi's annotations."""
    traffic: "Traffic | None" = None
    """The recent traffic of its GPUs, from the agent's Lease."""
    exists: bool = True
    """Whether the node exists, as far as that is known."""


def choose_node(sources: Sources, uuids: Sequence[str], *, max_age: float, verified: bool) -> KnownNode | None:
    """Returns the topology of the most reliable source; None if no source can be relied on.

    Args:
        sources: The sources about the node.
        uuids: The known UUIDs of the GPUs in question: HAMi's annotations help only if they list them.
        max_age: Seconds after which ``published`` counts as old, if ``lasts`` is not longer.
        verified: Whether an old topology does no harm: the pod verifies it when it starts, or needs no mapping.
    """
    published, age, annotated = sources.published, sources.age, sources.annotated
    if annotated and not all(annotated.gpu(uuid, None) for uuid in uuids):
        annotated = None
    if published and (age is None or age <= max(max_age, sources.lasts)):
        if annotated and not any(published.gpu(uuid, None) for uuid in uuids):
            return annotated
        return published
    old = None
    if published and verified:
        old = published.aged(f"the agent of node {published.name} has {_silence(age or 0.0)}")
    if annotated and old and annotated.unread and not old.unread:
        return old
    return annotated or old


def _silence(age: float) -> str:
    return "never been heard of" if isinf(age) else f"not been heard of for {age / 60:.0f} minutes"


def _in_cuda_order(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Returns GPUs in the order of ``CUDA_DEVICE_ORDER=PCI_BUS_ID``, or of NVML's indices if a bus id is not known.

    Both orders are the same.
    """
    if all(gpu.pci_bus_id for gpu in gpus):
        return tuple(sorted(gpus, key=lambda gpu: gpu.pci_bus_id))
    return tuple(sorted(gpus, key=lambda gpu: gpu.index))
