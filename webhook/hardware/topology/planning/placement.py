"""Which nodes take part in a plan, and how many GPUs each gives."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from webhook.hardware.topology.planning.fleet import Grade, Member


@dataclass(frozen=True, slots=True)
class Limits:
    """What a placement keeps to."""

    count: int
    """GPUs on all nodes together."""
    least: int
    """GPUs on each node."""
    nodes: int
    """The most nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Seat:
    """A node that can take part."""

    member: Member
    room: int
    """The most GPUs that it can give; no fewer than each node has to."""

    def carries(self, count: int) -> float:
        """GB/s of a ring over several nodes with so many GPUs here."""
        return self.member.share(count).ring_bandwidth

    def carries_alone(self, count: int) -> float:
        """GB/s of a ring over so many GPUs here and no others."""
        return self.member.share(count).choice.chosen.ring_bandwidth

    def grade(self, count: int) -> Grade:
        """How good the set of so many GPUs here is."""
        return self.member.share(count).grade

    @property
    def spare(self) -> tuple[int, str]:
        """Orders nodes by what they have left, then by name."""
        return len(self.member.free), self.member.name


Placement = list[tuple[Seat, int]]
"""Nodes, each with the number of GPUs that it gives; empty if there is no way."""


def carried(placement: Placement) -> float:
    """GB/s of the ring over a placement."""
    if len(placement) == 1:
        ((seat, count),) = placement
        return seat.carries_alone(count)
    return min(seat.carries(count) for seat, count in placement)


def rooms(seats: Iterable[Seat]) -> list[int]:
    """The most GPUs that one node can give, that two can give together, and so on."""
    return list(accumulate(sorted((seat.room for seat in seats), reverse=True)))


def pack(seats: Sequence[Seat], limits: Limits) -> Placement:
    """The fewest nodes: those with the most room, filled in turn, and for the rest the one with least to spare.

    Of equal ones those that carry most.
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
    """The most nodes, those with the most room, and shares as even as it allows.

    Of equal ones those that carry most.
    """
    nodes = _most_nodes(seats, limits)
    if not nodes or rooms(seats)[nodes - 1] < limits.count:
        return []
    return _evened(_roomiest(seats, nodes, -(-limits.count // nodes)), limits.count)


def best_fit(seats: Sequence[Seat], limits: Limits) -> Placement:
    """The best set on one node: by class, then by its weakest pair, its rings, and what the node has left.

    Several nodes are taken where one does not suffice, or where the ring over them carries more than that of any one.
    Of those the ring that carries most, and of equal ones the one over the fewest nodes. Tried are even shares of every
    size, each with the fewest nodes that it needs, and what ``pack`` and ``spread`` do. Uneven shares hardly ever carry
    more: the network of a node grows with the GPUs that it gives.
    """
    fitting = [seat for seat in seats if seat.room >= limits.count >= limits.least]
    if fitting:
        found, carries = _best_alone(fitting, limits.count), max(seat.carries_alone(limits.count) for seat in fitting)
    else:
        found = pack(seats, limits)
        carries = carried(found) if found else 0.0
    alike = {(seat.member.build, seat.member.network): seat.member for seat in seats}.values()
    for nodes, way in _ways_over_several(seats, limits) if found else ():
        # The node with the smallest share gives at most an even one, and its network holds back the whole ring.
        if max(member.most_network(limits.count // nodes) for member in alike) > carries:
            placement = way()
            if carried(placement) > carries:
                found, carries = placement, carried(placement)
    return found


def as_good(seats: Sequence[Seat], best: Placement) -> list[Seat]:
    """The nodes of a placement and those that have no worse set to give than its worst, by class and weakest pair."""
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
    """Numbers of nodes from two on, the least first, and what finds a placement over so many."""
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
    """The best ring over so many nodes, two or more, which have room for it."""
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
    """So many nodes with the most room; of equal ones those that carry most with a share, or what they have of it."""
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
    """What each node has to give, and then the first ones all that they can."""
    left = limits.count - len(seats) * limits.least
    placement = []
    for seat in seats:
        more = min(seat.room - limits.least, left)
        placement.append((seat, limits.least + more))
        left -= more
    return placement


def _evened(seats: Sequence[Seat], count: int) -> Placement:
    """Shares as even as the room allows; larger ones where there is most room, then by name."""
    smallest_first = sorted(sorted(seats, key=lambda seat: seat.member.name, reverse=True), key=lambda seat: seat.room)
    placement = []
    for done, seat in enumerate(smallest_first):
        share = min(seat.room, count // (len(seats) - done))
        placement.append((seat, share))
        count -= share
    return placement
