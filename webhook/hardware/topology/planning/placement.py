"""The placement of a plan: the nodes that take part, and the number of GPUs that each gives."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from webhook.hardware.topology.planning.fleet import Grade, Member
from webhook.hardware.topology.sets import Quality


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a placement."""

    count: int
    """GPUs on all nodes together."""
    least: int
    """The least GPUs on each node."""
    nodes: int
    """The most nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Seat:
    """A node that can take part in a placement."""

    member: Member
    room: int
    """The most GPUs that the node can give; at least the least number that each node must give."""

    def carries(self, count: int) -> float:
        """Returns the GB/s of a ring over several nodes with ``count`` GPUs of this node."""
        return self.member.share(count).ring_bandwidth

    def carries_alone(self, count: int) -> float:
        """Returns the GB/s of a ring over ``count`` GPUs of this node alone."""
        return self.member.share(count).choice.chosen.ring_bandwidth

    def grade(self, count: int) -> Grade:
        """Returns the grade of the best set of ``count`` GPUs of this node."""
        return self.member.share(count).grade

    def quality(self, count: int) -> Quality:
        """Returns the quality of the best set of ``count`` GPUs of this node."""
        return self.member.share(count).quality

    def models(self, count: int) -> frozenset[str]:
        """Returns the models of the GPUs of that set."""
        return self.member.share(count).models

    @property
    def spare(self) -> tuple[int, str]:
        """The sort key of the node: the number of its free GPUs, then its name."""
        return len(self.member.free), self.member.name


Placement = list[tuple[Seat, int]]
"""Nodes, each with the number of GPUs that it gives; empty if no placement is possible."""


def carried(placement: Placement) -> float:
    """Returns the GB/s of the ring over a placement."""
    if len(placement) == 1:
        ((seat, count),) = placement
        return seat.carries_alone(count)
    return min(seat.carries(count) for seat, count in placement)


def rooms(seats: Iterable[Seat]) -> list[int]:
    """Returns the most GPUs that one node can give, that two nodes can give together, and so on."""
    return list(accumulate(sorted((seat.room for seat in seats), reverse=True)))


def pack(seats: Sequence[Seat], limits: Limits) -> Placement:
    """Places a job on the fewest nodes.

    The nodes with the most room are filled in turn. The last node is the one with the fewest free GPUs that has room
    for the rest. Of equal nodes those with the fastest ring are taken, then those with the best sets.
    """
    nodes = next((nodes for nodes, most in enumerate(rooms(seats), start=1) if most >= limits.count), 0)
    if not nodes or nodes > limits.nodes or nodes * limits.least > limits.count:
        return []
    full = _roomiest(seats, nodes - 1, limits.count)
    rest = max(limits.count - sum(seat.room for seat in full), limits.least)

    def cost(seat: Seat) -> tuple[int, float, _Cost, str]:
        ring = seat.carries(rest) if full else seat.carries_alone(rest)
        return len(seat.member.free), -ring, _cost(seat.quality(rest)), seat.member.name

    last = min((seat for seat in seats if seat.room >= rest and seat not in full), key=cost)
    return _filled([*full, last], limits)


def spread(seats: Sequence[Seat], limits: Limits) -> Placement:
    """Places a job on the most nodes, those with the most room, with shares as even as the room allows.

    Of equal nodes those with the fastest ring are taken, then those with the best sets.
    """
    nodes = _most_nodes(seats, limits)
    if not nodes or rooms(seats)[nodes - 1] < limits.count:
        return []
    return _evened(_roomiest(seats, nodes, -(-limits.count // nodes)), limits.count)


def best_fit(pools: Sequence[Sequence[Seat]], limits: Limits) -> Placement:
    """Places a job on the node with the best set, or on several nodes where that is better.

    Sets on one node are compared by class, then by weakest pair, by rings, by the mean of all pairs; then a set of one
    model is better, and then a node with fewer free GPUs. Several nodes are taken if one does not suffice, or if the
    ring over them is faster than the ring on any single node. Then the fastest ring wins, of equal rings the one over
    the fewest nodes, and of these the one with the best ``worst_quality``, then the one with GPUs of one model.

    The tried placements are even shares of every size, each with the fewest nodes that it needs, and those of ``pack``
    and ``spread``. Uneven shares are hardly ever faster, because the network of a node grows with the GPUs that it
    gives.

    Args:
        pools: The nodes with the GPUs of one model, for each model; in the end the nodes with all GPUs.
        limits: The limits of the placement.
    """
    alone = [seat for pool in pools for seat in pool if seat.room >= limits.count >= limits.least]
    most = max((seat.carries_alone(limits.count) for seat in alone), default=0.0)
    over_several = _best_over_several(pools, limits, least=most)
    if over_several and (not alone or carried(over_several) > most):
        return over_several
    return _best_alone(alone, limits.count) if alone else []


def worst_quality(placement: Placement) -> Quality:
    """Returns the quality of the worst set of a placement."""
    return min(seat.quality(count) for seat, count in placement)


def has_one_model(placement: Placement) -> bool:
    """Returns whether all GPUs of a placement are of one model, as far as their models are known."""
    return len(frozenset[str]().union(*(seat.models(count) for seat, count in placement))) <= 1


def as_good(seats: Sequence[Seat], best: Placement) -> list[Seat]:
    """Returns the nodes of a placement, and those whose set is no worse than its worst, by class and weakest pair."""
    least = min(seat.grade(count) for seat, count in best)
    most = max(count for _, count in best)
    chosen = {seat for seat, _ in best}
    return [
        seat
        for seat in seats
        if seat in chosen or seat.member.build.least_grade >= least or seat.grade(min(seat.room, most)) >= least
    ]


_Cost = tuple[float, ...]
"""A quality as a sort key; the smaller, the better."""


def _cost(quality: Quality) -> _Cost:
    return tuple(-value for value in quality)


def _best_alone(fitting: Sequence[Seat], count: int) -> Placement:
    def cost(seat: Seat) -> tuple[float, float, float, float, bool, tuple[int, str]]:
        link, weakest, mean = _cost(seat.quality(count))
        return link, weakest, -seat.carries_alone(count), mean, len(seat.models(count)) > 1, seat.spare

    return [(min(fitting, key=cost), count)]


def _best_over_several(pools: Sequence[Sequence[Seat]], limits: Limits, *, least: float) -> Placement:
    """Returns the best placement over several nodes; empty if no ring over them can carry more than ``least``.

    If ``least`` is 0, any placement will do.
    """
    found: Placement = []
    for pool in pools:
        packed = [] if least else pack(pool, limits)
        if len(packed) > 1:
            found = _better(found, packed)
        alike = {(seat.member.build, seat.member.network): seat.member for seat in pool}.values()
        for nodes, way in _ways_over_several(pool, limits):
            # The node with the smallest share gives at most an even share, and its network limits the whole ring.
            bound = max(member.most_network(limits.count // nodes) for member in alike)
            best = max(least, carried(found) if found else 0.0)
            if bound > best or (found and bound == best and nodes <= len(found)):
                found = _better(found, way())
    return found


def _better(one: Placement, other: Placement) -> Placement:
    """Returns the better of two placements; the first if they are equally good or the other is empty."""
    return other if other and (not one or _rank(other) > _rank(one)) else one


def _rank(placement: Placement) -> tuple[float, int, Quality, bool, int]:
    """Returns the sort key of a placement over several nodes; the greater, the better."""
    spare = sum(len(seat.member.free) for seat, _ in placement)
    return carried(placement), -len(placement), worst_quality(placement), has_one_model(placement), -spare


def _ways_over_several(seats: Sequence[Seat], limits: Limits) -> Iterator[tuple[int, Callable[[], Placement]]]:
    """Yields possible numbers of nodes, two or more, each with a function that finds a placement over so many nodes."""
    most, limit = rooms(seats), _most_nodes(seats, limits)
    shares = range(1, max((seat.room for seat in seats), default=0) + 1)
    for nodes in sorted({-(-limits.count // share) for share in shares}):
        if 1 < nodes <= limit and most[nodes - 1] >= limits.count:
            yield nodes, partial(_best_over, seats, nodes, limits.count)
    if limit > 1 and most[limit - 1] >= limits.count:
        yield limit, partial(spread, seats, limits)


def _most_nodes(seats: Sequence[Seat], limits: Limits) -> int:
    return min(len(seats), limits.nodes, limits.count // limits.least)


def _best_over(seats: Sequence[Seat], nodes: int, count: int) -> Placement:
    """Returns the placement with even shares whose ring over ``nodes`` nodes, two or more, is fastest.

    Of the nodes that carry it those with the best sets are taken, then those with the fewest free GPUs.
    The nodes must have enough room. If even shares do not fit, the shares are as even as the room allows.
    """
    share, larger = divmod(count, nodes)
    less = {seat: seat.carries(share) for seat in seats if seat.room >= share}
    more = {seat: seat.carries(share + 1) for seat in seats if seat.room > share and larger}
    for bandwidth in sorted({*less.values(), *more.values()}, reverse=True):
        for_more = {seat for seat, carries in more.items() if carries >= bandwidth}
        for_less = {seat for seat, carries in less.items() if carries >= bandwidth}
        if len(for_more) >= larger and len(for_less) >= nodes - larger and len(for_more | for_less) >= nodes:
            by_more = {seat: (seat in for_less, _cost(seat.quality(share + 1)), seat.spare) for seat in for_more}
            with_more = sorted(for_more, key=by_more.__getitem__)[:larger]
            by_less = {seat: (_cost(seat.quality(share)), seat.spare) for seat in for_less.difference(with_more)}
            with_less = sorted(by_less, key=by_less.__getitem__)[: nodes - larger]
            return [*((seat, share + 1) for seat in with_more), *((seat, share) for seat in with_less)]
    return _evened(_roomiest(seats, nodes, share + 1), count)


def _roomiest(seats: Sequence[Seat], nodes: int, share: int) -> list[Seat]:
    """Returns the ``nodes`` nodes with the most room; of equal ones those with the fastest ring and the best sets.

    The rings are compared with ``share`` GPUs, or with as many as the nodes have room for.
    """
    if not nodes:
        return []
    ordered = sorted(seats, key=lambda seat: (-seat.room, seat.member.name))
    least = ordered[nodes - 1].room
    sure = [seat for seat in ordered if seat.room > least]
    equal = [seat for seat in ordered if seat.room == least]
    if len(sure) + len(equal) > nodes:
        count = min(share, least)
        equal.sort(key=lambda seat: (-seat.carries(count), _cost(seat.quality(count))))
    return [*sure, *equal][:nodes]


def _filled(seats: Sequence[Seat], limits: Limits) -> Placement:
    """Returns a placement in which each node gives the least number, and the first nodes all that they can."""
    left = limits.count - len(seats) * limits.least
    placement = []
    for seat in seats:
        more = min(seat.room - limits.least, left)
        placement.append((seat, limits.least + more))
        left -= more
    return placement


def _evened(seats: Sequence[Seat], count: int) -> Placement:
    """Returns a placement with shares as even as the room allows; the larger ones where most room is, then by name."""
    smallest_first = sorted(sorted(seats, key=lambda seat: seat.member.name, reverse=True), key=lambda seat: seat.room)
    placement = []
    for done, seat in enumerate(smallest_first):
        share = min(seat.room, count // (len(seats) - done))
        placement.append((seat, share))
        count -= share
    return placement
