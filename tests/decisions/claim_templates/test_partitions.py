"""Whatever set of GPUs the scheduler can give to a claim, NVIDIA's driver prepares it: it is one of its partitions."""

from collections.abc import Iterator, Mapping
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.claim_templates.test_alternatives import linked, on, satisfying
from tests.hardware.topology.machines import dgx1_v100, hgx_h100
from webhook.decisions.claim_templates.alternatives import Alternative, find_alternatives
from webhook.decisions.claim_templates.partitions import Partitioned, by_partitions
from webhook.decisions.claims.slices import PublishedDevice
from webhook.hardware.topology.model import NodeTopology

Members = Mapping[str, list[set[int]] | None]
"""The partitions of each node by the indices of their GPUs; None where slices say nothing."""


@st.composite
def partitions(draw: st.DrawFn) -> list[set[int]]:
    """Any partitions, at most one of each size for a GPU, of an eight-way board."""
    order = draw(st.permutations(range(8)))
    sizes = draw(st.sets(st.sampled_from([1, 2, 3, 4, 8])))
    every = [set(order[at : at + size]) for size in sorted(sizes) for at in range(0, 9 - size, size)]
    return draw(st.lists(st.sampled_from(every), unique_by=tuple, max_size=len(every))) if every else []


def published(topology: NodeTopology, members: list[set[int]]) -> list[PublishedDevice]:
    return [
        PublishedDevice(
            gpu.uuid, True, {}, {len(each): number for number, each in enumerate(members) if gpu.index in each}
        )
        for gpu in topology.gpus
    ]


def sets(topology: NodeTopology, one: Alternative, members: list[set[int]] | None, count: int) -> Iterator[set[int]]:
    """What the scheduler can give: the constraint needs one number of all GPUs, the second selector no module."""
    matched = satisfying(topology, one)
    if one.outside_partitions and members is not None:
        return
    for chosen in map(set, combinations(matched, count)):
        numbers = {
            next(
                (number for number, each in enumerate(members or ()) if len(each) == one.partition and gpu in each),
                None,
            )
            for gpu in chosen
        }
        if not one.partition or (len(numbers) == 1 and None not in numbers):
            yield chosen


def limited(nodes: Mapping[str, NodeTopology], members: Members, count: int) -> Partitioned:
    found = find_alternatives(list(nodes.values()), linked(count))
    known = {
        name: [PublishedDevice(gpu.uuid, True, {}) for gpu in nodes[name].gpus]
        if of is None
        else published(nodes[name], of)
        for name, of in members.items()
    }
    return by_partitions(found, count, nodes, known)


@given(
    st.lists(st.sampled_from([hgx_h100(), dgx1_v100()]), min_size=1, max_size=3),
    st.lists(st.one_of(st.none(), partitions()), min_size=3, max_size=3),
    st.sampled_from([2, 3, 4]),
)
def test_on_nodes_with_partitions_a_claim_gets_exactly_one_and_every_one_can_be_had(
    machines: list[NodeTopology], members: list[list[set[int]] | None], count: int
) -> None:
    nodes = {f"n{number}": on(machine, f"n{number}") for number, machine in enumerate(machines)}
    of = dict(zip(nodes, members, strict=False))
    free = find_alternatives(list(nodes.values()), linked(count))
    found = limited(nodes, of, count)
    for name, topology in nodes.items():
        had = [each for one in found.found.alternatives for each in sets(topology, one, of[name], count)]
        plain = [each for one in free.alternatives for each in sets(topology, one, None, count)]
        parts = of[name]
        if parts:
            assert all(each in parts for each in had), "the driver refuses none"
            if not found.found.left_out and not free.left_out:
                assert [each for each in parts if len(each) == count and each in plain] == [
                    each for each in parts if each in had
                ], "each partition whose GPUs are linked can be had"
            assert (name in found.without) is (
                name in {node for one in (*free.alternatives, *free.left_out) for node in one.reach}
                and not any(name in one.reach for one in (*found.found.alternatives, *found.found.left_out))
            )
        elif parts is None and not found.found.left_out and not free.left_out:
            assert {*map(frozenset, had)} == {*map(frozenset, plain)}, "nodes without partitions lose nothing"


def test_without_partitions_nothing_changes() -> None:
    nodes = {"n": on(hgx_h100(), "n")}
    found = limited(nodes, {"n": None}, 4)
    assert found.found == find_alternatives(list(nodes.values()), linked(4))
    assert (found.without, found.unknown) == ((), ())


def test_a_partition_of_gpus_that_are_not_linked_is_none() -> None:
    """On a DGX-1 all links are within its halves."""
    nodes = {"n": on(dgx1_v100(), "n")}
    assert limited(nodes, {"n": [{0, 1, 4, 5}]}, 4).without == ("n",)
    assert limited(nodes, {"n": [{0, 1, 2, 3}]}, 4).without == ()


def test_a_node_that_is_not_wanted_is_not_missed() -> None:
    nodes = {name: on(hgx_h100(), name) for name in ("a", "b")}
    found = find_alternatives(list(nodes.values()), linked(4), {"a"})
    known = {name: published(nodes[name], [{0, 1, 2, 3}] if name == "a" else [{0, 1}]) for name in nodes}
    assert by_partitions(found, 4, nodes, known, {"a"}).without == ()
    assert by_partitions(found, 4, nodes, known, {"b"}).without == ("b",)
