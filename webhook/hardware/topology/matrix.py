"""The matrix of a node, in the words and in the layout of ``nvidia-smi topo -m``.

Both cells of a pair have the same word, as ``nvidia-smi`` prints it. Where links are down at one end only, the ends
count differently; then it is the lesser count.
"""

from dataclasses import dataclass
from itertools import combinations

from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.model import Gpu, Nic, NodeTopology

SELF = "X"
UNKNOWN = "N/A"
"""Stands where the source does not tell; ``nvidia-smi`` writes it too."""
NIC_LEGEND = "NIC Legend:"
AFFINITY_COLUMNS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")

_LEGEND = """\
Legend:

  X    = the device itself
  SYS  = PCIe, between NUMA nodes
  NODE = PCIe, between host bridges of one NUMA node
  PHB  = PCIe, through the host bridge
  PXB  = PCIe, through several switches
  PIX  = PCIe, through one switch
  NV#  = NVLink, so many links
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One device and its paths to all devices."""

    label: str
    words: tuple[str, ...]
    """One for each column: ``X``, ``NV18``, ``PIX``, ``PXB``, ``PHB``, ``NODE``, ``SYS``; ``N/A`` if unknown."""
    affinity: tuple[str, ...] = ()
    """CPU list, NUMA node, and the NUMA node that the GPU itself is; a NIC has none of them."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """GPUs first, then NICs, in rows and columns alike."""

    rows: tuple[Row, ...]
    nics: tuple[tuple[str, str], ...]
    """Label and name of each NIC, such as ``("NIC0", "mlx5_0")``."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(row.label for row in self.rows)


def matrix(topology: NodeTopology) -> Matrix:
    """The matrix of the GPUs that can be reached, and of the NICs; it reads the same by rows and by columns."""
    words = _words(topology)
    labels = [*(gpu.label for gpu in topology.gpus), *topology.nic_labels]
    affinities = {gpu.label: _affinity(gpu, topology) for gpu in topology.gpus}
    rows = tuple(
        Row(label, tuple(words.get((label, other), SELF) for other in labels), affinities.get(label, ()))
        for label in labels
    )
    return Matrix(rows, tuple(zip(topology.nic_labels, (nic.name for nic in topology.nics), strict=True)))


def format_matrix(found: Matrix) -> str:
    """The matrix as ``nvidia-smi topo -m`` prints it, the same words separated by the same tabs, and a legend."""
    lines = ["\t".join(("", *found.labels, *AFFINITY_COLUMNS))]
    for row in found.rows:
        words = [f" {word} " if word == SELF else word for word in row.words]
        cpus, numa, own = row.affinity or ("", "", "")
        lines.append("\t".join((row.label, *words, cpus, numa, "", own)))
    lines += ["", _LEGEND]
    if found.nics:
        lines += [NIC_LEGEND, "", *(f"  {label}: {name}" for label, name in found.nics), ""]
    return "\n".join(lines)


def _words(topology: NodeTopology) -> dict[tuple[str, str], str]:
    """The word of each pair of different devices, by their labels."""
    connections = Connections(topology)
    tree = connections.tree
    devices: list[Gpu | Nic] = [*topology.gpus, *topology.nics]
    words = {}
    for one, other in combinations(devices, 2):
        ends = (tree.label(one), tree.label(other))
        words[ends] = words[ends[::-1]] = tree.path(one, other).value if _is_known(one, other, *ends) else UNKNOWN
    for gpu, peer in combinations(topology.gpus, 2):
        ways = (connections.direct(gpu.index, peer.index), connections.direct(peer.index, gpu.index))
        fewest = min(ways, key=lambda way: way.links)
        if fewest.links:
            words[gpu.label, peer.label] = words[peer.label, gpu.label] = fewest.word
    return words


def _is_known(device: Gpu | Nic, other: Gpu | Nic, label: str, other_label: str) -> bool:
    """Whether anything tells the path: the PCIe tree, the source, or at least both NUMA nodes."""
    return bool(
        (device.root and other.root)
        or other_label in dict(device.distance)
        or label in dict(other.distance)
        or (device.numa_node is not None and other.numa_node is not None)
    )


def _affinity(gpu: Gpu, topology: NodeTopology) -> tuple[str, str, str]:
    """Its three last columns; those of the CPUs are blank where nothing is known of them, as under WSL."""
    of_node = (cpu.affinity for cpu in topology.cpus if cpu.numa_node == gpu.numa_node)
    cpus = gpu.cpu_affinity or next(of_node, "")
    known = bool(cpus) or gpu.numa_node is not None
    return cpus or UNKNOWN * known, _number(gpu.numa_node) if known else "", _number(gpu.own_numa_node)


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)
