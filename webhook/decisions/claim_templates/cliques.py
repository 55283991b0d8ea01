"""Groups of GPUs in which every pair is joined."""

from collections.abc import Iterator, Sequence

from webhook.hardware.topology.selection.pair_table import positions

MAX_STEPS = 5_000
"""The most GPUs that one search adds to a group in the making. Nodes with 16 GPUs need a few dozen. Only links that no
machine has need more, and then groups are left out."""


def maximal_cliques(neighbours: Sequence[int], least: int) -> Iterator[int]:
    """Yields the groups of positions in which each is a neighbour of all others, and that cannot grow.

    Bron and Kerbosch's search with a pivot, without recursion. It stops after ``MAX_STEPS``.

    Args:
        neighbours: The mask of the neighbours of each position, without the position itself.
        least: The least number of positions of a group.
    """
    everything = (1 << len(neighbours)) - 1
    steps = MAX_STEPS
    waiting = [(0, everything, 0)]
    while waiting and steps:
        steps -= 1
        group, candidates, excluded = waiting.pop()
        if group.bit_count() + candidates.bit_count() < least:
            continue
        if not candidates:
            if not excluded and group:
                yield group
            continue
        pivot = max(positions(candidates | excluded), key=lambda gpu: (neighbours[gpu] & candidates).bit_count())
        branches = []
        for gpu in positions(candidates & ~neighbours[pivot]):
            branches.append((group | 1 << gpu, candidates & neighbours[gpu], excluded & neighbours[gpu]))
            candidates &= ~(1 << gpu)
            excluded |= 1 << gpu
        waiting.extend(reversed(branches))
