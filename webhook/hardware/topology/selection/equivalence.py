"""Equivalent GPUs, which make it unnecessary to examine every set."""

from collections.abc import Sequence
from itertools import pairwise

from webhook.hardware.topology.selection.domains import Domains
from webhook.hardware.topology.selection.pair_table import PairTable, positions


def alike(table: PairTable, domains: Domains, among: int) -> list[list[int]]:
    """Groups the GPUs of the set ``among`` so that the members of a group are interchangeable: positions, ascending.

    Members of a group have the same memory, NUMA node and connections to each other GPU in ``among``. Swapping two of
    them changes neither the bandwidths of a set nor its distribution over the node. 16 GPUs on NVSwitches are two
    groups, one on each NUMA node: only 9 of the 12,870 sets of 8 differ.
    """
    groups: list[list[int]] = []
    for position in positions(among):
        for group in groups:
            if _like(table, domains, position, group[0]) and table.interchangeable(position, group[0], among):
                group.append(position)
                break
        else:
            groups.append([position])
    return groups


def predecessors(groups: Sequence[Sequence[int]], size: int) -> list[int]:
    """Returns for each of ``size`` positions the bit of its predecessor in its group; 0 for the first.

    A set with a GPU but without its predecessor is equivalent to a set with lower indices.
    """
    before = [0] * size
    for group in groups:
        for gpu, following in pairwise(group):
            before[following] = 1 << gpu
    return before


def count_sets(groups: Sequence[Sequence[int]], pool: int, count: int) -> int:
    """Counts the different sets of ``count`` GPUs of a pool, if only the number of GPUs from each group matters."""
    ways = [1, *[0] * count]
    for group in groups:
        members = sum(pool >> position & 1 for position in group)
        ways = [sum(ways[taken - few] for few in range(min(members, taken) + 1)) for taken in range(count + 1)]
    return ways[count]


def _like(table: PairTable, domains: Domains, gpu: int, other: int) -> bool:
    return domains.numa_of[gpu] == domains.numa_of[other] and table.gpus[gpu].memory_mib == table.gpus[other].memory_mib
