"""The NUMA nodes of a node, with the PCIe devices below them as they are drawn."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from webhook.hardware.topology.model import Cpu, Gpu, Nic, NodeTopology, PciSwitch
from webhook.hardware.topology.pcie import PciePath, PcieTree


@dataclass(frozen=True, slots=True)
class Port:
    """A NIC, with its label in the matrix."""

    label: str
    nic: Nic


Leaf = Gpu | Port


@dataclass(frozen=True, slots=True)
class Branch:
    """A PCIe switch and the devices below it; where the tree is not known, devices that a word of the matrix joins."""

    switch: PciSwitch | None
    word: str
    """The word of the matrix, ``PIX`` or ``PXB``, where no switch is known; else empty."""
    children: "tuple[Branch | Leaf, ...]"


@dataclass(frozen=True, slots=True)
class Panel:
    """One NUMA node with its devices, or the devices whose NUMA node is not known."""

    numa_node: int | None
    cpu: Cpu | None
    children: tuple[Branch | Leaf, ...]
    continued: bool = False
    """Whether an earlier panel shows the same NUMA node."""

    @property
    def gpus(self) -> list[Gpu]:
        """The GPUs of the panel, from left to right."""
        return [leaf for child in self.children for leaf in _leaves(child) if isinstance(leaf, Gpu)]


def panels(topology: NodeTopology) -> list[Panel]:
    """Returns the NUMA nodes that have GPUs or NICs, in the order of their first GPU; those without a GPU come last."""
    leaves: list[Leaf] = [*topology.gpus]
    leaves += map(Port, topology.nic_labels, topology.nics)
    switches = {switch.pci_bus_id: switch for switch in topology.switches}
    tree = PcieTree(topology)
    chains = _chains(leaves, tree, switches)
    by_node: dict[int | None, list[Leaf]] = {}
    for leaf in leaves:
        by_node.setdefault(_numa_node(leaf, topology, tree), []).append(leaf)
    cpus = {cpu.numa_node: cpu for cpu in topology.cpus}
    return [
        Panel(node, None if node is None else cpus.get(node), _nested(below, chains, 0, switches))
        for node, below in by_node.items()
    ]


def split(panel: Panel) -> list[Panel]:
    """Returns two panels, each with half of the GPUs as far as the branches allow; one panel where they do not."""
    half, count, taken = len(panel.gpus) / 2, 0, 0
    for child in panel.children:
        if count >= half:
            break
        count += sum(isinstance(leaf, Gpu) for leaf in _leaves(child))
        taken += 1
    first, second = panel.children[:taken], panel.children[taken:]
    if not first or not second:
        return [panel]
    return [Panel(panel.numa_node, panel.cpu, first), Panel(panel.numa_node, panel.cpu, second, continued=True)]


def stacks(children: Sequence[Branch | Leaf], height: int) -> list[Branch | Gpu | tuple[Port, ...]]:
    """Returns children as columns. NICs come last; ``height`` of them share a column."""
    ports = [child for child in children if isinstance(child, Port)]
    others = [child for child in children if not isinstance(child, Port)]
    return [*others, *(tuple(ports[start : start + height]) for start in range(0, len(ports), height))]


def _leaves(child: Branch | Leaf) -> Iterator[Leaf]:
    if isinstance(child, Branch):
        for below in child.children:
            yield from _leaves(below)
    else:
        yield child


def _device(leaf: Leaf) -> Gpu | Nic:
    return leaf.nic if isinstance(leaf, Port) else leaf


def _numa_node(leaf: Leaf, topology: NodeTopology, tree: PcieTree) -> int | None:
    """Returns the NUMA node of a device; None if it is not known.

    ``nvidia-smi`` does not print the NUMA node of a NIC. It prints the paths to GPUs, which show whether a GPU is on
    the same one.
    """
    device = _device(leaf)
    if device.numa_node is not None or not device.distance:
        return device.numa_node
    near = (gpu.numa_node for gpu in topology.gpus if tree.path(gpu, device) is not PciePath.SYS)
    return next((node for node in near if node is not None), None)


_Chains = Mapping[str, tuple[str, ...]]
"""The keys of the branches above each device, from the top, by label of the device.

A key is the bus id of a switch, or a word of the matrix and the label of the first device of the group.
"""


def _nested(
    leaves: Sequence[Leaf], chains: _Chains, depth: int, switches: Mapping[str, PciSwitch]
) -> tuple[Branch | Leaf, ...]:
    """Returns leaves in branches; a branch stands at the place of its first leaf."""
    groups: dict[str, list[Leaf]] = {}
    for leaf in leaves:
        chain = chains[leaf.label]
        groups.setdefault(chain[depth] if depth < len(chain) else leaf.label, []).append(leaf)
    children: list[Branch | Leaf] = []
    for key, members in groups.items():
        if key == members[0].label:
            children.append(members[0])
        else:
            word = "" if key in switches else key.split()[0]
            children.append(Branch(switches.get(key), word, _nested(members, chains, depth + 1, switches)))
    return tuple(children)


def _chains(leaves: Sequence[Leaf], tree: PcieTree, switches: Mapping[str, PciSwitch]) -> _Chains:
    known = {leaf.label: _above(leaf, switches) for leaf in leaves if _device(leaf).root}
    return known | _by_words([leaf for leaf in leaves if not _device(leaf).root], tree)


def _above(leaf: Leaf, switches: Mapping[str, PciSwitch]) -> tuple[str, ...]:
    chain: list[str] = []
    above = _device(leaf).parent
    while above:
        chain.insert(0, above)
        above = switches[above].parent
    return tuple(chain)


def _by_words(leaves: Sequence[Leaf], tree: PcieTree) -> dict[str, tuple[str, ...]]:
    """Returns the groups that ``PIX`` and ``PXB`` make, where only the matrix is known."""
    words = {
        (one.label, other.label): tree.path(_device(one), _device(other)) for one, other in combinations(leaves, 2)
    }
    near = _joined(leaves, (pair for pair, word in words.items() if word is PciePath.PIX))
    wide = _joined(leaves, (pair for pair, word in words.items() if word in (PciePath.PIX, PciePath.PXB)))
    return {
        leaf.label: tuple(
            f"{word} {groups[leaf.label][0]}"
            for word, groups, least in (("PXB", wide, len(near[leaf.label])), ("PIX", near, 1))
            if len(groups[leaf.label]) > least
        )
        for leaf in leaves
    }


def _joined(leaves: Sequence[Leaf], pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Returns the group of each device by its label: all devices that it reaches over these pairs, in several steps."""
    groups = {leaf.label: [leaf.label] for leaf in leaves}
    for one, other in pairs:
        if groups[one] is not groups[other]:
            merged = groups[one] + groups[other]
            groups |= dict.fromkeys(merged, merged)
    return groups
