"""The topology of a node from the output of ``nvidia-smi topo -m``, ``nvidia-smi -L`` and ``nvidia-smi nvlink``.

The matrix has no bus ids and does not say what is between two GPUs: ``pair_links`` distinguishes NVSwitches from direct
links. ``link_states`` compares it with the state of each link.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from webhook.hardware.topology.connections import assumed_generation, nvlink_rate
from webhook.hardware.topology.consistency import checked
from webhook.hardware.topology.model import Cpu, Gpu, MigMode, Nic, NodeTopology
from webhook.hardware.topology.pcie import UNKNOWN_LINK, link_bandwidth
from webhook.hardware.topology.readers.link_states import (
    capability_by_rate,
    differences,
    links_of_chips,
    with_states,
)
from webhook.hardware.topology.readers.pair_links import links_by_gpu
from webhook.hardware.topology.readers.products import ARM, product
from webhook.hardware.topology.readers.smi_listing import ListedGpu, parse_listings
from webhook.hardware.topology.readers.smi_matrix import (
    CPU_AFFINITY,
    GPU_NUMA_ID,
    NUMA_AFFINITY,
    SmiMatrix,
    has_matrix,
    parse_matrix,
)
from webhook.hardware.topology.readers.smi_nvlink import PrintedLinks, by_index, has_nvlinks, parse_nvlinks
from webhook.hardware.topology.readers.smi_text import Line, lines_of
from webhook.words.errors import FormatError

SOURCE = "nvidia-smi"

_NO_UUIDS = "Nothing tells the UUIDs of the GPUs: add the output of nvidia-smi -L."
_NO_NVLINKS = "The legend of the matrix has no NVLinks, so it may be that of nvidia-smi topo -mp, which hides them."
_OTHER_LISTS = "None of the lists of nvidia-smi -L is that of the node: containers number their GPUs anew."
_OTHER_LINKS = "NVLinks of GPUs that are not those of the node are left out: containers number their GPUs anew."
_TRACE = re.compile(
    r"\bCPU\s+Affinity\b|^[ \t]*GPU \d+: \S|\(UUID: GPU-|^[ \t]*Link \d+(?:, |: <inactive>|: [\d.]+ GB/s)", re.MULTILINE
)


def looks_like_smi(text: str) -> bool:
    """Returns whether a text has output of one of the commands that ``read_smi`` reads, complete or not."""
    return bool(_TRACE.search(text))


def read_smi(matrix: str, listing: str = "", *, node: str, source: str) -> NodeTopology:
    """Reads the output of nvidia-smi. Any text before, between and after it is ignored.

    Args:
        matrix: The output of ``nvidia-smi topo -m``; those of ``nvidia-smi -L``, ``nvidia-smi nvlink -s`` and
            ``nvidia-smi nvlink -c`` may be in the same text.
        listing: The output of ``nvidia-smi -L``, if it is a separate text. Without any list, GPUs have no names and
            UUIDs.
        node: Name of the node.
        source: The name of the text in messages, for example ``file node-1.txt``.

    Raises:
        FormatError: the matrix is missing or incomplete, contradicts itself or the list, the links are cut off, or the
            text is larger than 1 MiB.
    """
    lines = lines_of(matrix, source=source)
    _check_matrix_is_there(lines, source)
    found = parse_matrix(lines, source=source)
    every = [*lines, *lines_of(listing, source=f"{source}: list")]
    lists = parse_listings(every)
    listed = _list_of_node(lists, found.gpus, f"{source}: list of nvidia-smi -L")
    printed = parse_nvlinks(every)
    of_node = [links for links in printed if _is_of_node(links, listed)]
    topology = _topology(found, listed, by_index(of_node), node, source)
    if lists and not listed:
        topology = replace(topology, problem=f"{topology.problem} {_OTHER_LISTS}")
    elif len(of_node) < len(printed):
        topology = replace(topology, problem=f"{topology.problem} {_OTHER_LINKS}".lstrip())
    return checked(topology, source=source)


def _check_matrix_is_there(lines: Sequence[Line], source: str) -> None:
    """Raises FormatError if a text has links and no matrix."""
    command = "" if has_matrix(lines) else has_nvlinks(lines)
    if command:
        raise FormatError(
            source,
            expected="the output of nvidia-smi topo -m, which says where NVLinks lead",
            found=f"that of {command} alone",
            fix="Put the output of nvidia-smi topo -m, and of nvidia-smi -L, into the same text",
        )


def _is_of_node(links: PrintedLinks, listed: Mapping[int, ListedGpu]) -> bool:
    gpu = listed.get(links.gpu.index)
    return gpu is not None and gpu.agrees_with(links.gpu)


def _list_of_node(lists: Sequence[Mapping[int, ListedGpu]], gpus: Sequence[int], where: str) -> Mapping[int, ListedGpu]:
    """Returns the list that has the GPUs of the matrix; empty if none of several lists has them.

    Raises:
        FormatError: a single list has other GPUs, or several different lists have those of the matrix.
    """
    of_node = [listed for listed in lists if listed.keys() == set(gpus)]
    if len(lists) == 1 and not of_node:
        raise FormatError(
            where,
            expected=f"the GPUs of the matrix, {_names(gpus)}",
            found=_names(sorted(lists[0])),
            fix="Run both commands on the node itself; a container has GPUs of its own numbers",
        )
    if len(of_node) > 1:
        fix = "Leave out the lists of other nodes and of containers"
        raise FormatError(
            where, expected="one list of the GPUs of the matrix", found=f"{len(of_node)} that differ", fix=fix
        )
    return of_node[0] if of_node else {}


def _names(indices: Iterable[int]) -> str:
    return ", ".join(f"GPU{index}" for index in indices)


def _topology(
    found: SmiMatrix, listed: Mapping[int, ListedGpu], printed: Mapping[int, PrintedLinks], node: str, source: str
) -> NodeTopology:
    unlinked = [_gpu(index, found, listed.get(index), printed.get(index)) for index in found.gpus]
    counts = found.links()
    chips = links_of_chips(counts, printed)
    sm = {gpu.index: gpu.sm for gpu in unlinked}
    on_boards = [gpu.index for gpu in unlinked if product(gpu.name).nvlink_board]
    links = links_by_gpu(counts, sm, source=source, chips=chips, on_boards=on_boards)
    gpus = tuple(replace(gpu, nvlinks=links[gpu.index]) for gpu in unlinked)
    problems = [*_problems(found, listed), *_assumptions(gpus), *differences(gpus, printed)]
    return NodeTopology(
        node=node,
        source=SOURCE,
        problem=" ".join(problems),
        gpus=with_states(gpus, printed),
        cpus=_cpus(unlinked, found),
        nics=tuple(
            Nic(name=name, distance=found.distance(f"NIC{position}")) for position, name in enumerate(found.nics)
        ),
    )


def _problems(found: SmiMatrix, listed: Mapping[int, ListedGpu]) -> Iterator[str]:
    if not any(gpu.uuid for gpu in listed.values()):
        yield _NO_UUIDS
    if not found.has_nvlinks and not any(found.links().values()):
        yield _NO_NVLINKS


def _assumptions(gpus: Sequence[Gpu]) -> Iterator[str]:
    """Yields sentences about the assumed bandwidths of GPUs whose product is not known, which are lower bounds."""
    by_rate = [gpu for gpu in gpus if gpu.sm and not product(gpu.name).compute_capability]
    if by_rate:
        shown = sorted({gpu.compute_capability for gpu in by_rate})
        yield (
            f"The rate of the NVLinks of {_names(gpu.index for gpu in by_rate)} is that of compute capability"
            f" {' or '.join(shown)}; {_assumed_pcie()}; it may be more."
        )
    unknown = [gpu for gpu in gpus if not gpu.sm]
    if not unknown:
        return
    rates = {assumed_generation(gpu): nvlink_rate(gpu) for gpu in unknown if gpu.nvlinks}
    counted = [
        *(
            f"NVLinks count as those of compute capability {name}, {rate} GB/s each"
            for name, rate in sorted(rates.items())
        ),
        _assumed_pcie(),
    ]
    which = "the GPUs" if len(unknown) == len(gpus) else _names(gpu.index for gpu in unknown)
    yield f"Nothing tells the generation of {which}: {'; '.join(counted)}; it may be more."


def _assumed_pcie() -> str:
    return f"PCIe counts as generation {UNKNOWN_LINK.generation} x{UNKNOWN_LINK.width}, {link_bandwidth(None):g} GB/s"


def _gpu(index: int, found: SmiMatrix, listed: ListedGpu | None, printed: PrintedLinks | None) -> Gpu:
    name = listed.name if listed else ""
    known, affinity = product(name), found.affinities[index]
    return Gpu(
        index=index,
        uuid=listed.uuid if listed else "",
        name=name,
        compute_capability=known.compute_capability or capability_by_rate(printed),
        numa_node=_numa_node(affinity),
        own_numa_node=int(affinity[GPU_NUMA_ID]) if GPU_NUMA_ID in affinity else None,
        cpu_affinity=affinity.get(CPU_AFFINITY, ""),
        mig_mode=MigMode.ENABLED if listed and listed.mig else MigMode.UNSUPPORTED,
        pcie=known.pcie,
        distance=found.distance(f"GPU{index}"),
    )


def _numa_node(values: Mapping[str, str]) -> int | None:
    """Returns the NUMA node of a GPU; None if several are equally near, as in some virtual machines.

    On Grace superchips GPUs are NUMA nodes too. There the list has the node of the CPUs first, and then those of MIG
    instances: ``0,3-9,11-17``.
    """
    nodes = values.get(NUMA_AFFINITY, "")
    first = re.match(r"\d+", nodes)
    return int(first[0]) if first and (GPU_NUMA_ID in values or first[0] == nodes) else None


def _cpus(gpus: list[Gpu], found: SmiMatrix) -> tuple[Cpu, ...]:
    """Returns the CPUs of the NUMA nodes that are near GPUs; their vendors are unknown."""
    affinities: dict[int, set[str]] = {}
    for gpu in gpus:
        if gpu.numa_node is not None:
            affinities.setdefault(gpu.numa_node, set()).add(gpu.cpu_affinity)
    cpus = (
        Cpu(numa_node=node, affinity=lists.pop() if len(lists) == 1 else "")
        for node, lists in sorted(affinities.items())
    )
    return tuple(replace(cpu, arch=ARM) if _is_superchip(gpus, found) else cpu for cpu in cpus)


def _is_superchip(gpus: list[Gpu], found: SmiMatrix) -> bool:
    """Returns whether the GPUs are superchips with Arm CPUs: by name, else because only such GPUs are NUMA nodes."""
    if any(gpu.name for gpu in gpus):
        return any(product(gpu.name).cpu_arch == ARM for gpu in gpus)
    return any(GPU_NUMA_ID in values for values in found.affinities.values())
