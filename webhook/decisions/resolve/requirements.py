"""The judgement whether sets of GPUs meet the requirements of a pod."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from webhook.decisions.resolve.demand import Requirements
from webhook.decisions.resolve.node import KnownNode
from webhook.hardware.topology.sets import GpuSet, Pair


class Judgement(NamedTuple):
    """The judgement of the requirements of a pod."""

    unmet: tuple[str, ...] = ()
    """A sentence for each requirement that a set does not meet, about the worst set."""
    doubt: str = ""
    """Why it is not known whether the other requirements are met, in a sentence; empty if it is known."""


NOTHING_REQUIRED = Judgement()


def judge(requirements: Requirements, sets: Sequence[GpuSet], node: KnownNode, missing: str = "") -> Judgement:
    """Compares sets of GPUs with requirements.

    Args:
        requirements: The requirements of the pod.
        sets: Its sets of GPUs.
        node: The node of the GPUs.
        missing: Why the sets may lack GPUs, in a sentence; empty if they do not.
    """
    unmet: list[str] = []
    doubts: list[str] = []
    if requirements.of_links:
        unmet += _of_links(requirements, [gpu_set for gpu_set in sets if not node.doubt(gpu_set)])
        doubts += map(node.doubt, sets)
    if requirements.one_numa_node:
        apart = [gpu_set for gpu_set in sets if len(gpu_set.numa_nodes) > 1]
        unmet += [f"policy {requirements.policy}: {_nodes_said(apart, node)}"] if apart else []
        doubts += map(node.numa_doubt, sets)
    return Judgement(tuple(unmet), next(filter(None, [*doubts, missing]), ""))


def _of_links(requirements: Requirements, sets: Sequence[GpuSet]) -> Iterator[str]:
    unlinked = [(gpu_set.unlinked, gpu_set) for gpu_set in sets if gpu_set.unlinked]
    if requirements.every_pair_linked and unlinked:
        asked = "require-nvlink" if requirements.nvlink else f"policy {requirements.policy}"
        yield f"{asked}: {_said(*min(unlinked, key=_bandwidth))}"
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


def _nodes_said(apart: Sequence[GpuSet], node: KnownNode) -> str:
    """Returns a sentence about the set on the most NUMA nodes, with two GPUs that are on different ones."""
    worst = max(apart, key=lambda gpu_set: len(gpu_set.numa_nodes))
    first, second = worst.numa_nodes[:2]
    of = {gpu.index: gpu.numa_node for gpu in node.topology.gpus}
    one, other = (next(index for index in worst.gpus if of[index] == numa) for numa in (first, second))
    return f"GPU{one} is on NUMA node {first}, GPU{other} on NUMA node {second}"
