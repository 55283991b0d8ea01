"""NVLinks and rings as curves between cards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.ring import neighbours
from webhook.hardware.topology.sets import GpuSet
from webhook.insight.drawings.elements import number
from webhook.insight.drawings.layout import CARD_WIDTH, Card
from webhook.insight.drawings.links import nvlinks

ARC, ARC_STEP = 22.0, 24.0
"""The depth of an arc between neighbours, and the additional depth for each GPU between the ends of an arc."""
CROSSING = 120.0
"""The height between two rows at which a person can tell the curves apart."""
_FULLNESS = 0.75
"""The part of the way to its control points that a cubic curve covers."""
_PORTS = 0.8
"""The part of a card's width where curves may begin."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A curve between two GPUs."""

    ends: tuple[int, int]
    """Indices of the GPUs, the lower one first."""
    count: int = 0
    """NVLinks between the GPUs, up or not; 0 if only the ring joins the GPUs."""
    active: int = 0
    in_ring: bool = False


def edges(topology: NodeTopology, chosen: GpuSet | None) -> list[Edge]:
    """Returns the pairs with direct NVLinks, and the hops of the ring of the chosen set."""
    hops = _hops(chosen)
    found = {}
    for link in nvlinks(topology):
        if link.other is not None:
            ends = (link.one, link.other)
            found[ends] = Edge(ends, link.count, link.active, ends in hops)
    found |= {ends: Edge(ends, in_ring=True) for ends in hops if ends not in found}
    return list(found.values())


def _hops(chosen: GpuSet | None) -> set[tuple[int, int]]:
    if chosen is None or len(chosen.ring) < 2:
        return set()
    return {(min(hop), max(hop)) for hop in neighbours(chosen.ring)}


Ranks = Mapping[int, tuple[int, int]]


def reach(found: Sequence[Edge], ranks: Ranks, row: int) -> float:
    """Returns the depth of the deepest arc of a row; 0 if the row has no arcs."""
    return max((_depth(edge, ranks) for edge in found if {ranks[end][0] for end in edge.ends} == {row}), default=0.0)


def crosses(found: Sequence[Edge], ranks: Ranks) -> bool:
    """Returns whether a curve goes from one row to the other."""
    return any(ranks[edge.ends[0]][0] != ranks[edge.ends[1]][0] for edge in found)


def _depth(edge: Edge, ranks: Ranks) -> float:
    one, other = edge.ends
    return ARC + ARC_STEP * (abs(ranks[one][1] - ranks[other][1]) - 1)


def curves(found: Sequence[Edge], cards: Mapping[int, Card], ranks: Ranks, limit: float) -> dict[Edge, str]:
    """Returns the path of each edge.

    Curves leave a card side by side, in the order in which they cross the fewest others.

    Args:
        found: The edges.
        cards: The places of the GPUs, by index of the GPU.
        ranks: Row and position of each GPU, by its index.
        limit: The largest depth of an arc.
    """
    ports = {index: _ports(card, found, cards) for index, card in cards.items()}
    return {edge: _curve(edge, ports, cards, min(limit, _depth(edge, ranks))) for edge in found}


def _ports(card: Card, found: Sequence[Edge], cards: Mapping[int, Card]) -> dict[Edge, float]:
    """Returns the x at which each curve of a card begins."""
    index = card.gpu.index
    towards = {edge: cards[sum(edge.ends) - index] for edge in found if index in edge.ends}

    def order(edge: Edge) -> tuple[int, float]:
        peer = towards[edge]
        if peer.row != card.row:
            return 1, peer.box.x
        # the nearest of the left peers first, the nearest of the right ones last: arcs then lie inside each other
        return (0, -peer.box.x) if peer.box.x < card.box.x else (2, -peer.box.x)

    ordered = sorted(towards, key=order)
    step = CARD_WIDTH * _PORTS / max(len(ordered), 1)
    first = card.box.center - step * (len(ordered) - 1) / 2
    return {edge: first + step * position for position, edge in enumerate(ordered)}


def _curve(edge: Edge, ports: Mapping[int, Mapping[Edge, float]], cards: Mapping[int, Card], depth: float) -> str:
    one, other = (cards[end] for end in edge.ends)
    x1, x2 = ports[edge.ends[0]][edge], ports[edge.ends[1]][edge]
    if one.row == other.row:
        y1 = y2 = one.edge + (-depth if one.row else depth) / _FULLNESS
    else:
        y1 = y2 = (one.edge + other.edge) / 2
    points = (x1, one.edge, x1, y1, x2, y2, x2, other.edge)
    return "M{} {}C{} {} {} {} {} {}".format(*map(number, points))


def bundle(card: Card, target: float, count: int, active: int) -> tuple[str, str]:
    """Returns the paths of the NVLinks of a GPU to the switches, one line each: those that are up, and the others.

    Args:
        card: The place of the GPU.
        target: The y of the edge of the switches.
        count: The number of all links.
        active: The number of links that are up.
    """
    step = min(5.0, CARD_WIDTH * _PORTS / count)
    first = card.box.center - step * (count - 1) / 2
    lines = [f"M{number(first + step * position)} {number(card.edge)}V{number(target)}" for position in range(count)]
    return "".join(lines[:active]), "".join(lines[active:])
