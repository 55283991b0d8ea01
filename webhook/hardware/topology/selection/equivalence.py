"""GPUs that can stand for each other, so that not every set has to be looked at."""

from collections.abc import Sequence
from itertools import pairwise

from webhook.hardware.topology.selection.domains import Domains
from webhook.hardware.topology.selection.pair_table import PairTable, positions


def alike(table: PairTable, domains: Domains, among: int) -> list[list[int]]:
    """The GPUs of a set in groups whose members can be swapped: positions, ascending.

    Members of a group have the same memory, NUMA node and connections to each of the others in ``among``. A swap then
    changes no set's bandwidths, nor how it lies on the node. All of 16 GPUs on NVSwitches are two groups, one on each
    NUMA node: 9 sets of 8 differ, of 12,870.
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
    """For each of ``size`` positions the bit of the one before it in its group, 0 for the first.

    A set with a GPU but without its predecessor equals one with lower indices.
    """
    before = [0] * size
    for group in groups:
        for gpu, following in pairwise(group):
            before[following] = 1 << gpu
    return before


def count_sets(groups: Sequence[Sequence[int]], pool: int, count: int) -> int:
    """How many sets of ``count`` GPUs of a pool differ, if only the number from each group matters."""
    ways = [1, *[0] * count]
    for group in groups:
        members = sum(pool >> position & 1 for position in group)
        ways = [sum(ways[taken - few] for few in range(min(members, taken) + 1)) for taken in range(count + 1)]
    return ways[count]


def _like(table: PairTable, domains: Domains, gpu: int, other: int) -> bool:
    return domains.numa_of[gpu] == domains.numa_of[other] and table.gpus[gpu].memory_mib == table.gpus[other].memory_mib
