"""Rings: the order in which the GPUs of a set pass data on, and the bandwidth of it.

Bandwidths are GB/s per direction. A matrix holds at ``[i][j]`` the bandwidth from member i to member j of a set. Orders
consist of positions in that set.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations
from math import inf

from webhook.hardware.topology.connections import Load

Matrix = Sequence[Sequence[float]]

EXACT_UP_TO = 8
"""The largest set whose best ring is found exactly. For larger sets 2-opt improves a greedy ring."""


def ring_order(bandwidth: Matrix, bridged: Collection[tuple[int, int]] = ()) -> tuple[int, ...]:
    """Returns the ring whose weakest hop is fastest; it begins with member 0.

    Among equal rings the one with the fewest hops through a third GPU wins, because such hops take links away from
    other hops; then the one with the greatest sum of its hops.

    Args:
        bandwidth: A matrix of n x n. The slower direction of a hop counts, because neighbours exchange data both ways.
        bridged: Pairs, the lower position first, that reach each other only through a third member.
    """
    count = len(bandwidth)
    hops = [[min(bandwidth[i][j], bandwidth[j][i]) if i != j else 0.0 for j in range(count)] for i in range(count)]
    different = sorted({hops[i][j] for i, j in combinations(range(count), 2)}, reverse=True)
    if count <= 3 or (len(different) == 1 and not bridged):
        return tuple(range(count))
    worths = _without_bridges(hops, bridged)
    if count > EXACT_UP_TO:
        return _improved(_greedy(hops, worths), hops, worths)
    return next(ring for weakest in different if (ring := _best_ring(hops, worths, weakest)))


def neighbours(order: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Returns each member of a ring with the next one; the last with the first."""
    return zip(order, (*order[1:], order[0]), strict=True)


def weakest_hop(order: Sequence[int], bandwidth: Matrix) -> float:
    """Returns the GB/s of the slowest hop of a ring, in either direction."""
    return min(min(bandwidth[one][other], bandwidth[other][one]) for one, other in neighbours(order))


def all_reduce_bandwidth(ring_bandwidth: float, count: int) -> float:
    """Returns the GB/s of reduced data; 0 for one GPU. Each byte crosses a ring of n GPUs 2 (n - 1) / n times."""
    return ring_bandwidth * count / (2 * (count - 1)) if count > 1 else 0.0


def cut_bandwidth(direct: Matrix, switched: Sequence[float], order: Sequence[int]) -> float:
    """Returns the most GB/s that all rings over NVLink alone can carry together: those of the narrowest cut of the set.

    Each ring enters and leaves every part of the set at least once, so all rings together carry no more than the links
    across the narrowest cut. NCCL 2.30 stays below that by the steps of its bandwidth table (src/graph/search.cc,
    speedArrayIntra): 360 of 370.8 GB/s on HGX H100. Once it has a ring over direct links it does not use hops through a
    third GPU, so on 24 of the 247 sets of a DGX-1 it finds 40 of 60.

    Args:
        direct: Bandwidths of direct links from member to member.
        switched: The bandwidth of each member through NVSwitches.
        order: A good ring. Up to eight members all cuts are tried; beyond, only those that cut off an arc of the ring.
    """
    if not any(map(any, direct)):
        return min(switched)  # the narrowest cut separates one member from the others
    if len(order) > EXACT_UP_TO:
        return _narrowest_arc(direct, switched, order)
    members = frozenset(range(len(switched)))
    return min(
        min(_across(inside, outside, direct, switched), _across(outside, inside, direct, switched))
        for inside in _halves(order)
        if (outside := members - inside)
    )


def both_ways(loads: Iterable[Load]) -> float:
    """Returns the GB/s of a ring of which half of the channels run in the opposite direction.

    This is more than with one direction if a link is full in one direction only. NCCL finds such channels by itself,
    because its search (src/graph/search.cc, ncclTopoSearchRec) tries every next GPU for each channel.

    Args:
        loads: The loads of each hop on its links, in both directions.
    """
    taken: dict[tuple[str, str], float] = {}
    capacities: dict[tuple[str, str], float] = {}
    for link, capacity, share in loads:
        capacities[link] = capacity
        taken[link] = taken.get(link, 0.0) + share
    return 2 * min(capacities[link] / share for link, share in taken.items())


def _across(source: Iterable[int], target: Iterable[int], direct: Matrix, switched: Sequence[float]) -> float:
    through_switches = min(sum(switched[one] for one in source), sum(switched[other] for other in target))
    return through_switches + sum(direct[one][other] for one in source for other in target)


def _halves(order: Sequence[int]) -> Iterator[frozenset[int]]:
    for size in range(1, len(order) // 2 + 1):
        yield from map(frozenset, combinations(order, size))


def _narrowest_arc(direct: Matrix, switched: Sequence[float], order: Sequence[int]) -> float:
    """Returns the GB/s across the narrowest cut among those that cut off an arc of a ring, up to half of it.

    An arc that grows by one member changes by that member's links, so that the work is the cube of the members.
    """
    count, around, total = len(order), (*order, *order), sum(switched)
    back = [list(column) for column in zip(*direct, strict=True)]
    sends, receives = [sum(row) for row in direct], [sum(row) for row in back]
    narrowest = inf
    for start in range(count):
        out = into = inside = 0.0
        for size in range(count // 2):
            new, arc = around[start + size], around[start : start + size]
            there, again = sum([direct[new][one] for one in arc]), sum([back[new][one] for one in arc])
            out += sends[new] - there - again
            into += receives[new] - there - again
            inside += switched[new]
            narrowest = min(narrowest, min(out, into) + min(inside, total - inside))
    return narrowest


_Paths = dict[tuple[int, int], tuple[float, tuple[int, ...]]]
"""Sum of the hops and path, by the visited members, as bits, and the last member."""


def _without_bridges(hops: Matrix, bridged: Collection[tuple[int, int]]) -> Matrix:
    """Returns the worth of each hop in a sum. A hop through a third member costs more than all others can gain."""
    size = range(len(hops))
    cost = 1 + len(hops) * max(map(max, hops))
    return [[hops[i][j] - cost * ((min(i, j), max(i, j)) in bridged) for j in size] for i in size]


def _best_ring(hops: Matrix, worths: Matrix, weakest: float) -> tuple[int, ...]:
    """Returns the ring with the greatest sum of worths and no hop below ``weakest`` GB/s; empty if there is none.

    The algorithm is that of Held and Karp: for each set of members and each last member of it, the best path from
    member 0 through all of them.
    """
    others = range(1, len(hops))
    paths: _Paths = {(1 << last, last): (worths[0][last], (0, last)) for last in others if hops[0][last] >= weakest}
    for _ in range(len(hops) - 2):
        longer: _Paths = {}
        for (visited, last), (total, path) in paths.items():
            for following in others:
                if visited >> following & 1 or hops[last][following] < weakest:
                    continue
                key, value = (visited | 1 << following, following), total + worths[last][following]
                if key not in longer or value > longer[key][0]:
                    longer[key] = (value, (*path, following))
        paths = longer
    closed = [(total + worths[last][0], path) for (_, last), (total, path) in paths.items() if hops[last][0] >= weakest]
    return min(closed, key=lambda ring: (-ring[0], ring[1]))[1] if closed else ()


def _greedy(hops: Matrix, worths: Matrix) -> list[int]:
    order, left = [0], set(range(1, len(hops)))
    while left:
        last = order[-1]
        following = max(left, key=lambda member: (hops[last][member], worths[last][member], -member))
        order.append(following)
        left.remove(following)
    return order


def _improved(order: list[int], hops: Matrix, worths: Matrix) -> tuple[int, ...]:
    """Improves a ring by 2-opt: reverses stretches of it as long as that helps, in at most one pass per member."""
    best, worth = order, _worth(order, hops, worths)
    for _ in order:
        improved = False
        for start, end in combinations(range(1, len(order)), 2):
            if not _may_gain(best, (start, end), hops, worths, worth[0]):
                continue
            turned = best[:start] + best[start : end + 1][::-1] + best[end + 1 :]
            if (found := _worth(turned, hops, worths)) > worth:
                best, worth, improved = turned, found, True
        if not improved:
            break
    return tuple(best)


def _may_gain(order: Sequence[int], turned: tuple[int, int], hops: Matrix, worths: Matrix, weakest: float) -> bool:
    """Returns whether a ring may be worth more with a stretch reversed, from the two hops that change.

    False is certain, True is not.

    Args:
        order: The ring.
        turned: The first and the last place of the stretch.
        hops: A symmetric matrix.
        worths: A symmetric matrix.
        weakest: GB/s of the slowest hop of the ring.
    """
    start, end = turned
    before, first, last, after = order[start - 1], order[start], order[end], order[(end + 1) % len(order)]
    slower = min(hops[before][last], hops[first][after])
    if slower < weakest:
        return False
    if slower > weakest and weakest in (hops[before][first], hops[last][after]):
        return True
    return worths[before][last] + worths[first][after] > worths[before][first] + worths[last][after]


def _worth(order: Sequence[int], hops: Matrix, worths: Matrix) -> tuple[float, float]:
    around = list(neighbours(order))
    return min([hops[one][other] for one, other in around]), round(sum([worths[i][j] for i, j in around]), 6)
