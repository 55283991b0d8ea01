"""Facts about a machine as NVML and sysfs report them, before anything is concluded from them.

All bus ids are in the form of sysfs, ``0000:1b:00.0``; a domain may have more than four digits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from webhook.hardware.topology.model import Fabric


class Remote(StrEnum):
    """The kind of device at the other end of an NVLink, as NVML reports it."""

    GPU = "gpu"
    SWITCH = "switch"
    CPU = "cpu"
    """The CPU of an IBM POWER machine."""
    UNKNOWN = "unknown"


class ValueType(StrEnum):
    """The C type of a field's value in NVML. Its width says at what value a counter begins again at 0."""

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
    """The answer of NVML for one field of a GPU."""

    field: int
    scope: int = 0
    """The number of the link, for fields of NVLinks."""
    value: int | float | None = None
    """None after an error, and for a type that these bindings do not know."""
    type: ValueType | None = None
    error: int = 0
    """``nvmlReturn_t`` of this field; 0 for success."""
    timestamp_us: int = 0
    """When NVML read the value, in microseconds since 1970."""

    @property
    def unsigned(self) -> int | None:
        """The value as a whole number from 0 on, such as a count; None if the value is missing or of another kind.

        An entry that the driver did not write looks like success with the double 0.0, which is no count.
        """
        return self.value if isinstance(self.value, int) and self.value >= 0 else None


class Direction(StrEnum):
    """The direction of traffic, as the card sees it."""

    TX = "tx"
    """Sent."""
    RX = "rx"
    """Received."""


@dataclass(frozen=True, slots=True)
class ByteCounter:
    """The present value of a byte counter of the driver."""

    bytes: int
    begins_anew_at: int
    """The bytes at which the counter's type overflows and the counter begins again at 0: 2**32, 2**42 or more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CardCounters:
    """The traffic of one GPU since its driver was loaded. Counters that the GPU does not have are absent."""

    index: int
    uuid: str
    nvlink: Mapping[tuple[Direction, int], ByteCounter] = field(default_factory=dict)
    """Payload, by direction and the number of the link, in the form that moved."""
    nvlink_forms: tuple[Mapping[tuple[Direction, int], ByteCounter], ...] = ()
    """The same in each form in which drivers count it; a form that this driver lacks is empty."""
    nvlink_read_us: int = 0
    """When NVML read the oldest of these counters, in microseconds since 1970; 0 if it does not say."""
    pcie: Mapping[Direction, ByteCounter] = field(default_factory=dict)
    """Where the driver counts in 32 bits, a counter may overflow more than once between two readings: 2**32 bytes are
    less than a tenth of a second of PCIe 5."""
    utilization: float | None = None
    """Share of the driver's last sample period, 1/6 s to 1 s, in which a kernel ran, from 0 to 1: nvml.h."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CardUsage:
    """The use of one GPU, as NVML reports it; None where NVML has no answer."""

    uuid: str
    processes: int | None = None
    """Processes with a CUDA or graphics context, in any container."""
    used_bytes: int | None = None
    """Used memory; without what the driver reserves for itself, where the driver reports that separately."""
    is_reserved_counted: bool = False
    """Whether the used memory includes what the driver reserves for itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkFacts:
    """One NVLink of a GPU."""

    up: bool
    remote: Remote = Remote.UNKNOWN
    remote_bus_id: str = ""
    """Empty if NVML does not report it, as in a virtual machine that does not see the switch."""

    @property
    def is_silent(self) -> bool:
        """Whether NVML only answers for this link: the link is not up and NVML does not say where it leads."""
        return not self.up and self.remote is Remote.UNKNOWN and not self.remote_bus_id


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuFacts:
    """One GPU that NVML can reach. Values that NVML does not report are empty or None."""

    index: int
    uuid: str = ""
    bus_id: str = ""
    name: str = ""
    minor: int | None = None
    capability: tuple[int, int] | None = None
    memory_bytes: int = 0
    numa_node: int | None = None
    """The NUMA node of the GPU's own memory, on superchips; not that of the CPUs near it."""
    cpu_words: tuple[int, ...] = ()
    """CPU mask in words of 64 bits, the least significant first."""
    mig_enabled: bool | None = None
    """None: no MIG on this GPU."""
    pcie_generation: int = 0
    pcie_width: int = 0
    links: tuple[LinkFacts, ...] = ()
    """In the order of their numbers. NVML may answer for more links than the GPU has: see ``link_count``."""
    link_count: int | None = None
    """Links of the GPU, up or down, as the driver reports them; None if it does not."""
    links_problem: str = ""
    """The error of NVML because of which the links could not be read; empty if they can be."""
    c2c_mbps: tuple[int, ...] = ()
    """MB/s of each NVLink-C2C that is up."""
    fabric: Fabric | None = None
    """The state of the NVLink fabric, as this GPU reports it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LostFacts:
    """A GPU that NVML counts but cannot reach."""

    index: int
    said: str
    """The error of NVML."""
    uuid: str = ""
    bus_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairFacts:
    """Facts of NVML about two GPUs, by their indices, ``one < other``."""

    one: int
    other: int
    refusal: str = ""
    """Why the GPUs may not read each other's memory, such as ``chipset not supported``; empty if they may, or if NVML
    does not say."""
    pcie: str = ""
    """The PCIe path between them, in the words of ``nvidia-smi topo -m``; empty if NVML does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NvmlFacts:
    """Facts of NVML about one machine."""

    driver_version: str = ""
    cuda_version: str = ""
    problem: str = ""
    """Why there are no GPUs, and what to do about it; empty if there are some."""
    gpus: tuple[GpuFacts, ...] = ()
    lost: tuple[LostFacts, ...] = ()
    pairs: tuple[PairFacts, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PciFacts:
    """Facts of sysfs about one PCI device."""

    bus_id: str
    device_class: str = ""
    """PCI class, such as ``0x030200``, a GPU without a display."""
    parent: str = ""
    """Upstream port of the switch above; empty directly below a root port."""
    root: str = ""
    """Host bridge at the top, such as ``0000:15``."""
    numa_node: int | None = None
    cpus: str = ""
    """CPU list such as ``0-47,96-143``."""
    generation: int = 0
    """The highest PCIe generation that its link supports; 0 if unknown."""
    width: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuFacts:
    """The type of the first CPU, which is that of all CPUs."""

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
    """Facts of sysfs and ``/proc/cpuinfo`` about one machine."""

    root: str = "/"
    """The directory below which both were read."""
    pci: Mapping[str, PciFacts] = field(default_factory=dict)
    """The requested devices, the NICs, and the switches above all of these, by bus id."""
    numa_nodes: Mapping[int, str] = field(default_factory=dict)
    """The CPU list of each NUMA node, by its number; empty for a node that has only memory."""
    cpu: CpuFacts = CpuFacts()
    nics: tuple[NicFacts, ...] = ()
    """Sorted by name; digits within names are compared as numbers."""
