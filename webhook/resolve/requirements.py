"""Whether sets of GPUs are what the pod requires."""

from collections.abc import Iterator, Sequence

from webhook.resolve.demand import Requirements
from webhook.topology.sets import GpuSet, Pair


def unmet(requirements: Requirements, sets: Sequence[GpuSet]) -> tuple[str, ...]:
    """A sentence for each requirement that some set does not meet, about the set that is worst."""
    return tuple(_unmet(requirements, sets))


def _unmet(requirements: Requirements, sets: Sequence[GpuSet]) -> Iterator[str]:
    unlinked = [(gpu_set.unlinked, gpu_set) for gpu_set in sets if gpu_set.unlinked]
    if requirements.nvlink and unlinked:
        yield f"require-nvlink: {_said(*min(unlinked, key=_bandwidth))}"
    least = requirements.min_bandwidth
    slow = [
        (gpu_set.weakest, gpu_set)
        for gpu_set in sets
        if least is not None and gpu_set.weakest and gpu_set.bandwidth < least
    ]
    if slow:
        yield f"min-bandwidth {least:g}: {_said(*min(slow, key=_bandwidth))}"


def _bandwidth(entry: tuple[Pair, GpuSet]) -> float:
    return entry[0].connection.bandwidth


def _said(pair: Pair, gpu_set: GpuSet) -> str:
    first, second = pair.gpus
    found = pair.connection
    return (
        f"GPU{first} and GPU{second} have {found.bandwidth:.1f} GB/s ({found.type}), the link class is {gpu_set.link}"
    )
