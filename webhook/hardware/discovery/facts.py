"""Facts about a machine as NVML and sysfs tell them, before anything is concluded from them.

All bus ids are in the form of sysfs, ``0000:1b:00.0``; a domain may have more than four digits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from webhook.hardware.topology.model import Fabric


class Remote(StrEnum):
    """What NVML says is at the other end of an NVLink."""

    GPU = "gpu"
    SWITCH = "switch"
    CPU = "cpu"
    """Of an IBM POWER machine."""
    UNKNOWN = "unknown"


class ValueType(StrEnum):
    """The C type in which NVML gives the value of a field: how wide it is, and so where a counter begins anew."""

    DOUBLE = "double"
    UNSIGNED_INT = "unsigned int"
    UNSIGNED_LONG = "unsigned long"
    """64 bits on Linux."""
    UNSIGNED_LONG_LONG = "unsigned long long"
    SIGNED_LONG_LONG = "signed long long"
    SIGNED_INT = "signed int"
    UNSIGNED_SHORT = "unsigned short"


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldValue:
    """What NVML answers for one field of a GPU."""

    field: int
    scope: int = 0
    """Of fields of NVLinks the number of the link."""
    value: int | float | None = None
    """None with an error, and for a type that these bindings do not know."""
    type: ValueType | None = None
    error: int = 0
    """``nvmlReturn_t`` of this field; 0 for success."""
    timestamp_us: int = 0
    """When NVML read the value, in microseconds since 1970."""

    @property
    def unsigned(self) -> int | None:
        """The value as a whole number from 0 on, such as a count; None if there is none or it is no such number.

        An entry that a driver left as it was looks like success with the double 0.0, which is no count.
        """
        return self.value if isinstance(self.value, int) and self.value >= 0 else None


class Direction(StrEnum):
    """As the card sees it."""

    TX = "tx"
    """Sent."""
    RX = "rx"
    """Received."""


@dataclass(frozen=True, slots=True)
class ByteCounter:
    """A counter of the driver, as it stands."""

    bytes: int
    begins_anew_at: int
    """The bytes after which its type has no room and it begins at 0: 2**32, 2**42 or more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CardCounters:
    """What one GPU says of its traffic since its driver was loaded. What it does not say is absent."""

    index: int
    uuid: str
    nvlink: Mapping[tuple[Direction, int], ByteCounter] = field(default_factory=dict)
    """Payload, by direction and the number of the link."""
    pcie: Mapping[Direction, ByteCounter] = field(default_factory=dict)
    """May begin anew more than once between two readings where the driver counts in 32 bits: 2**32 bytes are less than
    a tenth of a second of PCIe 5."""
    utilization: float | None = None
    """Share of the driver's last sample period, 1/6 s to 1 s, in which a kernel ran, from 0 to 1: nvml.h."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CardUsage:
    """What NVML says of the use of one GPU; None is what it does not say."""

    uuid: str
    processes: int | None = None
    """With a context of CUDA or of graphics, in any container."""
    used_bytes: int | None = None
    """Of its memory; without what the driver keeps for itself, where the driver tells that apart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkFacts:
    """One NVLink of a GPU."""

    up: bool
    remote: Remote = Remote.UNKNOWN
    remote_bus_id: str = ""
    """Empty if NVML does not tell, as in a virtual machine that does not see the switch."""

    @property
    def is_silent(self) -> bool:
        """Whether all that is known of it is that NVML answers: it is not up and does not say where it leads."""
        return not self.up and self.remote is Remote.UNKNOWN and not self.remote_bus_id


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuFacts:
    """One GPU that NVML can reach. What NVML does not tell is empty or None."""

    index: int
    uuid: str = ""
    bus_id: str = ""
    name: str = ""
    minor: int | None = None
    capability: tuple[int, int] | None = None
    memory_bytes: int = 0
    numa_node: int | None = None
    """That the GPU's own memory is, on superchips; not that of the CPUs near it."""
    cpu_words: tuple[int, ...] = ()
    """CPU mask in words of 64 bits, the least significant first."""
    mig_enabled: bool | None = None
    """None: no MIG on this GPU."""
    pcie_generation: int = 0
    pcie_width: int = 0
    links: tuple[LinkFacts, ...] = ()
    """By their numbers. NVML may answer for more than there are: see ``link_count``."""
    link_count: int | None = None
    """How many the GPU has, up or down, says the driver; None if it does not."""
    links_problem: str = ""
    """The error of NVML for which nothing is known of its links; empty if they can be read."""
    c2c_mbps: tuple[int, ...] = ()
    """MB/s of each NVLink-C2C that is up."""
    fabric: Fabric | None = None
    """What this GPU knows of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LostFacts:
    """A GPU that NVML counts and cannot reach."""

    index: int
    said: str
    """The error of NVML."""
    uuid: str = ""
    bus_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairFacts:
    """What NVML says of two GPUs, by their indices, ``one < other``."""

    one: int
    other: int
    refusal: str = ""
    """Why neither may read the other's memory, ``chipset not supported``; empty if they may, or NVML does not tell."""
    pcie: str = ""
    """How PCIe joins them, in the words of ``nvidia-smi topo -m``; empty if NVML does not tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NvmlFacts:
    """What NVML says."""

    driver_version: str = ""
    cuda_version: str = ""
    problem: str = ""
    """Why there are no GPUs, and what to do about it."""
    gpus: tuple[GpuFacts, ...] = ()
    lost: tuple[LostFacts, ...] = ()
    pairs: tuple[PairFacts, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PciFacts:
    """What sysfs says of one PCI device."""

    bus_id: str
    device_class: str = ""
    """Such as ``0x030200``, a GPU without a display."""
    parent: str = ""
    """Upstream port of the switch above; empty directly below a root port."""
    root: str = ""
    """Host bridge at the top, such as ``0000:15``."""
    numa_node: int | None = None
    cpus: str = ""
    """CPU list such as ``0-47,96-143``."""
    generation: int = 0
    """The most that its link can do; 0 if unknown."""
    width: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuFacts:
    """The type of the first CPU, which is that of all."""

    arch: str = "x86_64"
    """``x86_64``, ``arm64`` or ``ppc64``, as NCCL calls them."""
    vendor: str = ""
    family: int = 0
    model: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class NicFacts:
    """One RDMA device."""

    name: str
    bus_id: str
    link_layer: str = ""
    """``InfiniBand`` or ``Ethernet``."""
    speed_gbps: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SysfsFacts:
    """What sysfs and ``/proc/cpuinfo`` say."""

    root: str = "/"
    """The directory below which they were read."""
    pci: Mapping[str, PciFacts] = field(default_factory=dict)
    """By bus id: the devices asked for, the NICs, and the switches above all of these."""
    numa_nodes: Mapping[int, str] = field(default_factory=dict)
    """Their CPU lists, by their numbers; empty for a node that has only memory."""
    cpu: CpuFacts = CpuFacts()
    nics: tuple[NicFacts, ...] = ()
    """By their names, numbers in them as numbers."""
