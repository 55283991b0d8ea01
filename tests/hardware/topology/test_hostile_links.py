"""Links that no machine has, as the agent of a node can publish them: a choice among its GPUs takes bounded work."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from random import Random
from time import process_time

import pytest

from tests.figures import ShowFigures
from tests.fuzz.effort import count_calls
from tests.hardware.topology.machines import dgx1_v100, uuid
from webhook.hardware.topology.document import format_topology, parse_topology
from webhook.hardware.topology.model import NodeTopology, NvLink
from webhook.hardware.topology.selection.choice import Choice, select
from webhook.hardware.topology.selection.request import Request

Links = Callable[[int, int, Random], int]

GRAPHS: dict[str, Links] = {
    "by chance": lambda _, __, chance: max(0, chance.randint(-10, 6)),
    "all different": lambda one, other, _: 1 + (one * 131 + other * 7919) % 18,
    "few": lambda _, __, chance: int(chance.random() < 0.1),
    "half of all": lambda _, __, chance: int(chance.random() < 0.5),
    "a ring with chords": lambda one, other, _: int(other - one in (1, 31, 63)),
    "two parts": lambda one, other, _: (one + other) % 2,
    "three parts": lambda one, other, _: int(one % 3 != other % 3),
    "islands of five": lambda one, other, _: 1 + one % 4 if one // 5 == other // 5 else 0,
    "a cube": lambda one, other, _: int((one ^ other).bit_count() == 1),
    "a cube with diagonals": lambda one, other, _: int((one ^ other).bit_count() <= 2),
    "all alike": lambda _, __, ___: 1,
}
"""How many links join two GPUs."""
WORST = ("two parts", "all alike", "a cube")


def machine(cards: int, links: Links) -> NodeTopology:
    """A machine of so many GPUs on four NUMA nodes, as it is read from what its agent published."""
    chance, one_of_many = Random(cards), dgx1_v100()
    buses = [f"0000:{card:02x}:00.0" for card in range(cards)]
    found: list[list[NvLink]] = [[] for _ in buses]
    for one, other in combinations(range(cards), 2):
        if number := links(one, other, chance):
            found[one].append(NvLink(target=f"GPU{other}", count=number, active=number))
            found[other].append(NvLink(target=f"GPU{one}", count=number, active=number))
    gpus = tuple(
        replace(
            one_of_many.gpus[0],
            index=card,
            uuid=uuid(card),
            pci_bus_id=bus,
            minor=card,
            numa_node=card % 4,
            parent="",
            nvlinks=tuple(found[card]),
        )
        for card, bus in enumerate(buses)
    )
    published = replace(one_of_many, gpus=gpus, nics=(), switches=())
    return parse_topology(format_topology(published), source="the agent")


@pytest.mark.parametrize(
    ("gpus", "most_calls", "graphs", "counts"),
    [
        pytest.param(32, 1_500_000, WORST, (7, 31), marks=pytest.mark.slow, id="as many as are judged by default"),
        pytest.param(64, 8_000_000, tuple(GRAPHS), (2, 7, 17, 31), marks=pytest.mark.long, id="the most there may be"),
    ],
)
def test_a_choice_among_any_links_takes_bounded_work(
    show_figures: ShowFigures, gpus: int, most_calls: int, graphs: Sequence[str], counts: Sequence[int]
) -> None:
    figures = []
    for graph in graphs:
        topology = machine(gpus, GRAPHS[graph])
        for count in counts:
            choose = partial(select, topology, Request(count=count))
            assert isinstance(choose(), Choice)
            began = process_time()
            choose()
            seconds = process_time() - began
            figures.append((count_calls(choose), seconds, count, graph))
    with show_figures():
        calls, taken, most, worst = max(figures)
        print(f"a choice of {most} of {gpus} GPUs, links: {worst}: {calls} calls, {taken:.2f} s of CPU")
    assert max(figures)[0] < most_calls
