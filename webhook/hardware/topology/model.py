"""The topology of one node: ``NodeTopology`` and its parts.

Bus ids have a four-digit domain and are lower case (``0000:1b:00.0``), as in sysfs; NVML's own form is longer and upper
case. Within a topology devices have the names of ``nvidia-smi topo -m``: ``GPU0`` is the GPU with the NVML index 0,
``NIC0`` the first NIC. Outside of a topology a GPU is identified by its UUID, because indices may change when the
driver starts again.
"""

from dataclasses import dataclass
from enum import StrEnum

NVSWITCH = "nvswitch"
"""Target of links that end at any NVSwitch. The switch does not matter, and virtual machines hide it."""
UNKNOWN = "unknown"
"""Target of links that are down and whose other end is unknown."""
HAMI = "hami"
"""Source of topologies that are read from HAMi's annotations, which hold less than the driver knows."""
NO_INDICES = "HAMi registered GPUs without indices; they are numbered in the order of its annotation."
"""A problem of topologies from HAMi's annotations."""


class MigMode(StrEnum):
    """The MIG mode of a GPU: whether it is divided into instances. Between instances there is no NVLink."""

    DISABLED = "disabled"
    ENABLED = "enabled"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, kw_only=True, slots=True)
class NvLink:
    """The links of one GPU to one peer, bonded."""

    target: str
    """Label of the peer GPU such as ``GPU3``, ``nvswitch`` or ``unknown``."""
    count: int
    """Number of links, up or not."""
    active: int
    """Number of links that are up; only these carry data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class C2c:
    """NVLink-C2C, the connection of a GPU to the CPU of its superchip."""

    links: int
    bandwidth_mbps: int
    """MB/s of each link and direction."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pcie:
    """The highest generation and width of a PCIe link. Its present state depends on what the device is doing."""

    generation: int
    width: int
    """Lanes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One GPU that NVML can reach."""

    index: int
    """NVML index on the host."""
    uuid: str = ""
    pci_bus_id: str = ""
    """Empty, like the UUID, if the source does not have it."""
    name: str = ""
    minor: int | None = None
    """N of ``/dev/nvidiaN``."""
    compute_capability: str = ""
    """Compute capability such as ``9.0``; empty if unknown."""
    memory_mib: int = 0
    numa_node: int | None = None
    """NUMA node of the nearest CPUs."""
    own_numa_node: int | None = None
    """NUMA node of its own memory, on superchips."""
    cpu_affinity: str = ""
    """CPU list such as ``0-47,96-143``."""
    mig_mode: MigMode = MigMode.UNSUPPORTED
    nvlinks: tuple[NvLink, ...] = ()
    links_problem: str = ""
    """Why its NVLinks cannot be read, in the words of NVML; empty if they can be. If they cannot, ``nvlinks`` has the
    links that its peers report."""
    c2c: C2c | None = None
    pcie: Pcie | None = None
    parent: str = ""
    """Bus id of the PCIe switch above; empty directly below a root port, or if unknown."""
    root: str = ""
    """Host bridge at the top of its PCIe path, such as ``0000:15``; empty if unknown."""
    distance: tuple[tuple[str, str], ...] = ()
    """PCIe paths to other devices, by their labels in the matrix, if the tree is unknown: ``("GPU1", "PIX")``."""
    measured: tuple[tuple[str, int], ...] = ()
    """Measured MB/s of copies to other GPUs, by their labels, for copies that were as fast as expected."""
    slower: tuple[tuple[str, int], ...] = ()
    """Measured MB/s of copies that were slower than expected. They replace the computed figures."""

    @property
    def label(self) -> str:
        """The name of the GPU in the matrix, as in ``nvidia-smi topo -m``."""
        return f"GPU{self.index}"

    @property
    def sm(self) -> int:
        """Compute capability as NCCL writes it, 90 for ``9.0``; 0 if unknown."""
        major, _, minor = self.compute_capability.partition(".")
        return int(major) * 10 + int(minor) if major.isdigit() and minor.isdigit() else 0

    @property
    def active_links(self) -> int:
        """Number of links that are up, to any target."""
        return sum(link.active for link in self.nvlinks)

    @property
    def switch_links(self) -> int:
        """Number of active links to NVSwitches."""
        return self.links_to(NVSWITCH)

    def links_to(self, target: str) -> int:
        """Returns the number of active links to a target, a label or ``nvswitch``; 0 in MIG mode."""
        if self.mig_mode is MigMode.ENABLED:
            return 0
        return sum(link.active for link in self.nvlinks if link.target == target)


@dataclass(frozen=True, kw_only=True, slots=True)
class LostGpu:
    """A GPU that the driver lists but cannot reach."""

    index: int
    problem: str
    """The error of NVML."""
    uuid: str = ""
    pci_bus_id: str = ""

    @property
    def label(self) -> str:
        """The name of the GPU, in the form of ``Gpu.label``."""
        return f"GPU{self.index}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PciSwitch:
    """The upstream port of a PCIe switch."""

    pci_bus_id: str
    parent: str = ""
    """Bus id of the switch above; empty directly below a root port."""
    root: str = ""
    numa_node: int | None = None
    pcie: Pcie | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cpu:
    """One NUMA node with CPUs."""

    numa_node: int
    affinity: str = ""
    """CPU list such as ``0-47,96-143``."""
    arch: str = "x86_64"
    """``x86_64``, ``arm64`` or ``ppc64``, as NCCL calls them."""
    vendor: str = ""
    """Vendor from CPUID, such as ``GenuineIntel`` or ``AuthenticAMD``."""
    family: int = 0
    model: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Nic:
    """A network interface that can do RDMA."""

    name: str
    """Name of the RDMA device, such as ``mlx5_0``."""
    pci_bus_id: str = ""
    numa_node: int | None = None
    link_layer: str = ""
    """``InfiniBand`` or ``Ethernet`` (RoCE)."""
    speed_gbps: int = 0
    """Gbit/s; 0 if unknown."""
    pcie: Pcie | None = None
    parent: str = ""
    root: str = ""
    distance: tuple[tuple[str, str], ...] = ()
    """PCIe paths to other devices by their labels in the matrix: ``("GPU0", "PIX")``, ``("NIC1", "NODE")``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fabric:
    """The state of the NVLink fabric, which the fabric manager configures."""

    state: str
    """``completed``, ``in-progress``, ``not-started`` or ``unsupported``."""
    status: str = ""
    """``success`` or the error of NVML."""
    cluster_uuid: str = ""
    clique_id: int = 0
    ailments: tuple[str, ...] = ()
    """Faults in NVML's health mask of the fabric, such as ``degraded bandwidth``. Links may be up all the same."""

    @property
    def is_supported(self) -> bool:
        """Whether the GPUs are of a kind that has a fabric."""
        return self.state != "unsupported"

    @property
    def is_settled(self) -> bool:
        """Whether the state of the fabric is final."""
        return self.state in ("completed", "unsupported")

    @property
    def is_faulty(self) -> bool:
        """Whether GPUs that need the fabric have no NVLink, temporarily or permanently."""
        return not self.is_settled or self.status not in ("", "success")

    @property
    def is_well(self) -> bool:
        """Whether the fabric has neither a fault nor an ailment."""
        return not self.is_faulty and not self.ailments


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeTopology:
    """The topology of one node."""

    node: str
    source: str
    """``nvml``, ``nvidia-smi`` or ``hami``."""
    driver_version: str = ""
    cuda_version: str = ""
    problem: str = ""
    """Why the topology is empty or incomplete, in a sentence; else empty."""
    gpus: tuple[Gpu, ...] = ()
    """In the order of their indices."""
    lost: tuple[LostGpu, ...] = ()
    nvswitches: tuple[str, ...] = ()
    """Bus ids of the NVSwitches that the links name; empty where a virtual machine hides them."""
    fabric: Fabric | None = None
    switches: tuple[PciSwitch, ...] = ()
    cpus: tuple[Cpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    """In the order of their labels in the matrix, NIC0 first."""
    measured_at: str = ""
    """When the last known measurement began, RFC 3339; empty if there is none."""

    @property
    def nic_labels(self) -> tuple[str, ...]:
        """The names of the NICs in the matrix, in their order."""
        return tuple(f"NIC{position}" for position in range(len(self.nics)))

    @property
    def unread(self) -> frozenset[int]:
        """Indices of the GPUs whose NVLinks are not known: they may have NVLinks although none are listed."""
        if self.source == HAMI and self.problem and not any(gpu.nvlinks for gpu in self.gpus):
            return frozenset(gpu.index for gpu in self.gpus)
        return frozenset(gpu.index for gpu in self.gpus if gpu.links_problem)

    def gpu(self, uuid: str) -> Gpu | None:
        """Returns the GPU with that UUID; None if there is none."""
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)
