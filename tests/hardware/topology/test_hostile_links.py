"""Links that no machine has, as the agent of a node can publish them: a choice among its GPUs takes bounded work."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations
from random import Random
from time import process_time

import pytest

from tests.figures import ShowFigures
from tests.fuzz.effort import count_calls, within
from tests.hardware.topology.machines import dgx1_v100, uuid
from webhook.hardware.topology.document import format_topology, parse_topology
from webhook.hardware.topology.model import NodeTopology, NvLink
from webhook.hardware.topology.ring import cut_bandwidth
from webhook.hardware.topology.selection.choice import Choice, select
from webhook.hardware.topology.selection.request import Policy, Request

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
    ("cards", "graphs", "counts", "most_calls"),
    [
        (32, WORST, (7, 31), 1_500_000),  # as many GPUs as the webhook judges by default
        pytest.param(64, tuple(GRAPHS), (2, 7, 17, 31), 8_000_000, marks=pytest.mark.long),  # as a topology may have
    ],
)
def test_a_choice_among_any_links_takes_bounded_work(
    cards: int, graphs: tuple[str, ...], counts: tuple[int, ...], most_calls: int, show_figures: ShowFigures
) -> None:
    figures = []
    for graph in graphs:
        topology = machine(cards, GRAPHS[graph])
        for count in counts:
            choose = partial(select, topology, Request(count=count))
            assert isinstance(choose(), Choice)
            began = process_time()
            choose()
            seconds = process_time() - began
            figures.append((count_calls(choose), seconds, count, graph))
    with show_figures():
        calls, taken, most, worst = max(figures)
        print(f"a choice of {most} of {cards} GPUs, links: {worst}: {calls} calls, {taken:.2f} s of CPU")
    assert max(figures)[0] < most_calls


def test_a_choice_of_nearly_all_cards_of_the_largest_node_takes_bounded_work() -> None:
    for graph, count in (("three parts", 58), ("a cube with diagonals", 62), ("a cube", 62), ("two parts", 31)):
        choice = within(4_500_000, partial(select, machine(64, GRAPHS[graph]), Request(count=count)))
        assert isinstance(choice, Choice)
        assert len(choice.gpus) == count
        assert not choice.exact


@pytest.mark.parametrize("graph", GRAPHS)
def test_among_sixteen_cards_any_links_leave_the_choice_exact(graph: str) -> None:
    for count, policy in ((9, Policy.SPREAD), (10, Policy.BEST_FIT)):
        choice = select(machine(16, GRAPHS[graph]), Request(count=count, policy=policy))
        assert isinstance(choice, Choice)
        assert choice.exact


def test_the_narrowest_cut_of_a_long_ring_is_that_of_all_its_arcs() -> None:
    chance = Random(3)
    for count in (9, 10, 13):
        members = range(count)
        order = chance.sample(members, count)
        direct = [[0.0 if one == other else float(chance.randint(0, 40)) for other in members] for one in members]
        switched = [float(chance.randint(0, 60)) for _ in members]

        def across(source: set[int], target: set[int]) -> float:
            through = min(sum(switched[one] for one in source), sum(switched[other] for other in target))  # noqa: B023
            return through + sum(direct[one][other] for one in source for other in target)  # noqa: B023

        arcs = [{(order * 2)[start + place] for place in range(size)} for start in members for size in range(1, count)]
        expected = min(across(arc, set(members) - arc) for arc in arcs)
        assert cut_bandwidth(direct, switched, order) == pytest.approx(expected)


def test_the_links_are_links() -> None:
    joined = {graph: sum(len(gpu.nvlinks) for gpu in machine(32, links).gpus) for graph, links in GRAPHS.items()}
    assert joined["all alike"] == 32 * 31
    assert joined["a cube"] == 32 * 5
    assert min(joined.values()) > 32
    choice = select(machine(32, GRAPHS["islands of five"]), Request(count=5))
    assert isinstance(choice, Choice)
    assert len({card // 5 for card in choice.chosen.gpus}) == 1
