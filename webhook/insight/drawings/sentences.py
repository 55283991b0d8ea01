"""The sentences about a node and a set of its GPUs that text and picture share."""

from collections import Counter
from collections.abc import Iterator, Sequence

from webhook.hardware.topology.connections import PathType
from webhook.hardware.topology.health import node_health
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.sets import GpuSet

_WITHOUT_LINKS = "no NVLink, and no part of NCCL's file"


def outline(topology: NodeTopology) -> str:
    """Returns the hardware and driver of a node, such as ``8 x NVIDIA H20, driver 570.133.20, CUDA 12.8``."""
    products = Counter(gpu.name or "GPU" for gpu in topology.gpus)
    parts = [f"{count} x {name}" for name, count in products.items()] or ["no GPU"]
    if topology.driver_version:
        parts.append(f"driver {topology.driver_version}")
    if topology.cuda_version:
        parts.append(f"CUDA {topology.cuda_version}")
    return ", ".join(parts)


def notes(topology: NodeTopology) -> list[str]:
    """Returns a sentence for each problem of the node, and one for GPUs in MIG mode, which the matrix does not show."""
    found = [*([topology.problem] if topology.problem else []), *node_health(topology).findings]
    in_mig_mode = mig_gpus(topology)
    if in_mig_mode:
        verb = "is" if len(in_mig_mode) == 1 else "are"
        found.append(f"{names(in_mig_mode)} {verb} in MIG mode: {_WITHOUT_LINKS}")
    return found


def mig_gpus(topology: NodeTopology, chosen: GpuSet | None = None) -> tuple[int, ...]:
    """Returns the indices of the GPUs in MIG mode, with a set only of those in the set."""
    in_mig_mode = (gpu.index for gpu in topology.gpus if gpu.mig_mode is MigMode.ENABLED)
    return tuple(index for index in in_mig_mode if chosen is None or index in chosen.gpus)


def names(gpus: Sequence[int], separator: str = ", ") -> str:
    """Returns the names of GPUs in the matrix."""
    return separator.join(f"GPU{index}" for index in gpus)


def properties(chosen: GpuSet, in_mig_mode: Sequence[int] = ()) -> Iterator[tuple[str, str]]:
    """Yields the properties of a set for a job that uses all of its GPUs: names and values.

    Args:
        chosen: The set.
        in_mig_mode: The GPUs of the set in MIG mode (``mig_gpus``), which the set itself does not know.
    """
    if chosen.weakest:
        connection = chosen.weakest.connection
        word = "NVLink through another GPU" if connection.type is PathType.NVB else connection.word
        yield "weakest pair", f"{connection.bandwidth:.1f} GB/s ({names(chosen.weakest.gpus, '-')}, {word})"
        yield "mean", f"{chosen.mean_bandwidth:.1f} GB/s"
        yield "ring", chosen.ring_sentence
        yield "all-reduce", f"about {chosen.all_reduce:.1f} GB/s"
    if chosen.numa_nodes:
        yield "NUMA", ", ".join(map(str, chosen.numa_nodes))
    if in_mig_mode:
        yield "MIG mode", f"{names(in_mig_mode)}: {_WITHOUT_LINKS}"
    if chosen.nics:
        yield "NICs", ", ".join(_near_nics(chosen))


def _near_nics(chosen: GpuSet) -> Iterator[str]:
    """Yields each NIC once, with all its distances; the nearest first."""
    distances: dict[str, list[str]] = {}
    for nic in chosen.nics:
        where = "" if nic.gpus == chosen.gpus else f" to {names(nic.gpus)}"
        distances.setdefault(nic.name, []).append(f"{nic.path}{where}")
    for name, found in distances.items():
        yield f"{name} ({', '.join(found)})"
