"""The placement of a plan: the nodes that take part, and the number of GPUs that each gives."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from webhook.hardware.topology.planning.fleet import Grade, Member


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
    for the rest. Of equal nodes those with the fastest ring are taken.
    """
    nodes = next((nodes for nodes, most in enumerate(rooms(seats), start=1) if most >= limits.count), 0)
    if not nodes or nodes > limits.nodes or nodes * limits.least > limits.count:
        return []
    full = _roomiest(seats, nodes - 1, limits.count)
    rest = max(limits.count - sum(seat.room for seat in full), limits.least)

    def cost(seat: Seat) -> tuple[int, float, str]:
        return len(seat.member.free), -(seat.carries(rest) if full else seat.carries_alone(rest)), seat.member.name

    last = min((seat for seat in seats if seat.room >= rest and seat not in full), key=cost)
    return _filled([*full, last], limits)


def spread(seats: Sequence[Seat], limits: Limits) -> Placement:
    """Places a job on the most nodes, those with the most room, with shares as even as the room allows.

    Of equal nodes those with the fastest ring are taken.
    """
    nodes = _most_nodes(seats, limits)
    if not nodes or rooms(seats)[nodes - 1] < limits.count:
        return []
    return _evened(_roomiest(seats, nodes, -(-limits.count // nodes)), limits.count)


def best_fit(seats: Sequence[Seat], limits: Limits) -> Placement:
    """Places a job on the node with the best set, or on several nodes where that is better.

    Sets on one node are compared by class, then by weakest pair, then by rings, then by the free GPUs of the node, of
    which fewer are better. Several nodes are taken if one does not suffice, or if the ring over them is faster than the
    ring on any single node. Then the fastest ring wins, and of equal rings the one over the fewest nodes.

    The tried placements are even shares of every size, each with the fewest nodes that it needs, and those of ``pack``
    and ``spread``. Uneven shares are hardly ever faster, because the network of a node grows with the GPUs that it
    gives.
    """
    fitting = [seat for seat in seats if seat.room >= limits.count >= limits.least]
    if fitting:
        found, carries = _best_alone(fitting, limits.count), max(seat.carries_alone(limits.count) for seat in fitting)
    else:
        found = pack(seats, limits)
        carries = carried(found) if found else 0.0
    alike = {(seat.member.build, seat.member.network): seat.member for seat in seats}.values()
    for nodes, way in _ways_over_several(seats, limits) if found else ():
        # The node with the smallest share gives at most an even share, and its network limits the whole ring.
        if max(member.most_network(limits.count // nodes) for member in alike) > carries:
            placement = way()
            if carried(placement) > carries:
                found, carries = placement, carried(placement)
    return found


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


def _best_alone(fitting: Sequence[Seat], count: int) -> Placement:
    def cost(seat: Seat) -> tuple[float, float, float, tuple[int, str]]:
        link, weakest = seat.grade(count)
        return -link, -weakest, -seat.carries_alone(count), seat.spare

    return [(min(fitting, key=cost), count)]


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

    The nodes must have enough room. If even shares do not fit, the shares are as even as the room allows.
    """
    share, larger = divmod(count, nodes)
    less = {seat: seat.carries(share) for seat in seats if seat.room >= share}
    more = {seat: seat.carries(share + 1) for seat in seats if seat.room > share and larger}
    for bandwidth in sorted({*less.values(), *more.values()}, reverse=True):
        for_more = {seat for seat, carries in more.items() if carries >= bandwidth}
        for_less = {seat for seat, carries in less.items() if carries >= bandwidth}
        if len(for_more) >= larger and len(for_less) >= nodes - larger and len(for_more | for_less) >= nodes:
            with_more = sorted(for_more, key=lambda seat: (seat in for_less, *seat.spare))[:larger]
            with_less = sorted(for_less.difference(with_more), key=lambda seat: seat.spare)[: nodes - larger]
            return [*((seat, share + 1) for seat in with_more), *((seat, share) for seat in with_less)]
    return _evened(_roomiest(seats, nodes, share + 1), count)


def _roomiest(seats: Sequence[Seat], nodes: int, share: int) -> list[Seat]:
    """Returns the ``nodes`` nodes with the most room; of equal ones those with the fastest ring.

    The rings are compared with ``share`` GPUs, or with as many as the nodes have room for.
    """
    if not nodes:
        return []
    ordered = sorted(seats, key=lambda seat: (-seat.room, seat.member.name))
    least = ordered[nodes - 1].room
    sure = [seat for seat in ordered if seat.room > least]
    equal = [seat for seat in ordered if seat.room == least]
    if len(sure) + len(equal) > nodes:
        equal.sort(key=lambda seat: -seat.carries(min(share, least)))
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
