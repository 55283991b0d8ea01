"""The matrix of a node, in the words and the layout of ``nvidia-smi topo -m``.

Both cells of a pair have the same word, as ``nvidia-smi`` prints it. If the ends report different numbers of links,
because links are down at one end only, both cells have the lesser number.
"""

from dataclasses import dataclass
from itertools import combinations

from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.model import Gpu, Nic, NodeTopology

SELF = "X"
UNKNOWN = "N/A"
"""The word for an unknown value, as ``nvidia-smi`` writes it."""
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
    """One word for each column: ``X``, ``NV18``, ``PIX``, ``PXB``, ``PHB``, ``NODE``, ``SYS``; ``N/A`` if unknown."""
    affinity: tuple[str, ...] = ()
    """CPU list, NUMA node, and NUMA node of the GPU's own memory; empty for a NIC."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """The paths between all devices of a node. Rows and columns list GPUs first, then NICs."""

    rows: tuple[Row, ...]
    nics: tuple[tuple[str, str], ...]
    """Label and name of each NIC, such as ``("NIC0", "mlx5_0")``."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the columns."""
        return tuple(row.label for row in self.rows)


def matrix(topology: NodeTopology) -> Matrix:
    """Returns the symmetric matrix of the NICs and of the GPUs that can be reached."""
    words = _words(topology)
    labels = [*(gpu.label for gpu in topology.gpus), *topology.nic_labels]
    affinities = {gpu.label: _affinity(gpu, topology) for gpu in topology.gpus}
    rows = tuple(
        Row(label, tuple(words.get((label, other), SELF) for other in labels), affinities.get(label, ()))
        for label in labels
    )
    return Matrix(rows, tuple(zip(topology.nic_labels, (nic.name for nic in topology.nics), strict=True)))


def format_matrix(found: Matrix) -> str:
    """Formats the matrix as ``nvidia-smi topo -m`` prints it, with the same words and tabs, and a legend."""
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
    """Returns the word of each pair of different devices, by their labels."""
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
    """Returns whether the path is known from the PCIe tree, from the source, or at least from both NUMA nodes."""
    return bool(
        (device.root and other.root)
        or other_label in dict(device.distance)
        or label in dict(other.distance)
        or (device.numa_node is not None and other.numa_node is not None)
    )


def _affinity(gpu: Gpu, topology: NodeTopology) -> tuple[str, str, str]:
    """Returns the last three columns of a GPU; the first two are blank if its CPUs are unknown, as under WSL."""
    of_node = (cpu.affinity for cpu in topology.cpus if cpu.numa_node == gpu.numa_node)
    cpus = gpu.cpu_affinity or next(of_node, "")
    known = bool(cpus) or gpu.numa_node is not None
    return cpus or UNKNOWN * known, _number(gpu.numa_node) if known else "", _number(gpu.own_numa_node)


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)
