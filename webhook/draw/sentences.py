"""What text and picture both say of a node and of a set of its GPUs."""

from collections import Counter
from collections.abc import Iterator, Sequence

from webhook.topology.connections import PathType
from webhook.topology.health import node_health
from webhook.topology.model import NodeTopology
from webhook.topology.sets import GpuSet, NicAffinity

NICS = "NICs"


def outline(topology: NodeTopology) -> str:
    """What the node has, such as ``8 x NVIDIA H20, driver 570.133.20, CUDA 12.8``."""
    products = Counter(gpu.name or "GPU" for gpu in topology.gpus)
    parts = [f"{count} x {name}" for name, count in products.items()] or ["no GPU"]
    if topology.driver_version:
        parts.append(f"driver {topology.driver_version}")
    if topology.cuda_version:
        parts.append(f"CUDA {topology.cuda_version}")
    return ", ".join(parts)


def notes(topology: NodeTopology) -> list[str]:
    """What is wrong with the node: a sentence for each thing."""
    return [*([topology.problem] if topology.problem else []), *node_health(topology).findings]


def names(gpus: Sequence[int], separator: str = ", ") -> str:
    """GPUs as the matrix calls them."""
    return separator.join(f"GPU{index}" for index in gpus)


def properties(chosen: GpuSet) -> Iterator[tuple[str, str]]:
    """What a set is worth to a job that uses all of it: names and values."""
    if chosen.weakest:
        connection = chosen.weakest.connection
        word = "NVLink through another GPU" if connection.type is PathType.NVB else connection.word
        yield "weakest pair", f"{connection.bandwidth:.1f} GB/s ({names(chosen.weakest.gpus, '-')}, {word})"
        yield "mean", f"{chosen.mean_bandwidth:.1f} GB/s"
        yield "ring", f"{chosen.ring_bandwidth:.1f} GB/s ({'-'.join(map(str, (*chosen.ring, chosen.ring[0])))})"
        yield "all-reduce", f"about {chosen.all_reduce:.1f} GB/s"
    if chosen.numa_nodes:
        yield "NUMA", ", ".join(map(str, chosen.numa_nodes))
    if chosen.nics:
        yield NICS, ", ".join(_near(nic, chosen) for nic in chosen.nics)


def _near(nic: NicAffinity, chosen: GpuSet) -> str:
    where = "" if nic.gpus == chosen.gpus else f" to {names(nic.gpus)}"
    return f"{nic.name} ({nic.path}{where})"
