"""Which GPUs of a node are chosen, and what is said about it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.topology.machines import (
    a100_pcie_bridged,
    bent,
    dgx1_v100,
    gb200_tray,
    hgx_a100,
    hgx_b200,
    hgx_h100,
    hidden_switches,
    l40s,
    uuid,
)
from tests.hardware.topology.small_nodes import small_nodes
from webhook.hardware.topology.connections import Connections, PathType
from webhook.hardware.topology.model import Gpu, LostGpu, MigMode, NodeTopology, NvLink, Pcie, PciSwitch
from webhook.hardware.topology.selection.choice import Choice, NoChoice, Selector, select
from webhook.hardware.topology.selection.request import Constraint, Constraints, Policy, Request
from webhook.hardware.topology.sets import assess
from webhook.words.choices import Level, Objective
from webhook.words.errors import FormatError

POLICIES = list(Policy)


def chosen(topology: NodeTopology, count: int, busy: Sequence[int] = (), **asked: Any) -> Choice:
    choice = select(topology, Request(count=count, busy=frozenset(busy), **asked))
    assert isinstance(choice, Choice)
    return choice


def refused(topology: NodeTopology, request: Request) -> str:
    choice = select(topology, request)
    assert isinstance(choice, NoChoice)
    return choice.reason


def degraded(topology: NodeTopology, index: int) -> NodeTopology:
    """Ten of the 18 links of a GPU are up."""
    return bent(topology, index, nvlinks=(NvLink(target="nvswitch", count=18, active=10),))


def mesh(count: int, links: dict[tuple[int, int], int]) -> NodeTopology:
    """GPUs on one NUMA node, some pairs with that many NVLinks."""
    gpus = tuple(
        Gpu(
            index=index,
            compute_capability="9.0",
            numa_node=0,
            root=f"0000:{index:02x}",
            nvlinks=tuple(
                NvLink(target=f"GPU{other}", count=many, active=many)
                for other in range(count)
                if (many := links.get((min(index, other), max(index, other)), 0))
            ),
        )
        for index in range(count)
    )
    return NodeTopology(node="mesh", source="nvml", gpus=gpus)


@pytest.mark.parametrize(
    ("topology", "busy", "count", "expected"),
    [
        (hgx_h100(), [], 1, (0,)),
        (hgx_h100(), [2], 4, (4, 5, 6, 7)),
        (hgx_a100(), [0, 3], 2, (4, 5)),
        (hgx_b200(), [0, 1], 4, (4, 5, 6, 7)),
        (gb200_tray(), [1], 2, (2, 3)),
        (hidden_switches(), [0, 5], 3, (1, 2, 3)),
        (dgx1_v100(), [], 3, (0, 2, 3)),
        (dgx1_v100(), [1, 2], 4, (4, 5, 6, 7)),
        (a100_pcie_bridged(), [0], 2, (2, 3)),
        (l40s(), [0, 2], 2, (4, 5)),
        (l40s(), [1], 4, (4, 5, 6, 7)),
    ],
)
def test_best_fit_takes_the_set_that_is_linked_best(
    topology: NodeTopology, busy: list[int], count: int, expected: tuple[int, ...]
) -> None:
    choice = chosen(topology, count, busy)
    assert choice.gpus == expected
    assert choice.exact


def test_six_gpus_of_a_cube_mesh_have_the_rings_that_carry_most() -> None:
    """Each of 0, 2, 3, 4, 6 and 7 has four links in the set or more; in 0 to 5, GPU 4 has three."""
    choice = chosen(dgx1_v100(), 6)
    assert choice.gpus == (0, 2, 3, 4, 6, 7)
    assert choice.chosen.ring_bandwidth == 80.0


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_a_gpu_with_links_down_is_left_out(count: int) -> None:
    assert 3 not in chosen(degraded(hgx_h100(), 3), count).gpus


@pytest.mark.parametrize(
    ("topology", "busy", "expected"),
    [
        (degraded(hgx_h100(), 3), [], (3,)),
        (a100_pcie_bridged(), [0], (1,)),
        (a100_pcie_bridged(), [3], (2,)),
        (l40s(), [4], (5,)),
        (hgx_h100(), [5], (4,)),
        (dgx1_v100(), [0, 1, 2], (3,)),
    ],
)
def test_a_single_gpu_is_the_one_that_the_others_need_least(
    topology: NodeTopology, busy: list[int], expected: tuple[int, ...]
) -> None:
    assert chosen(topology, 1, busy).gpus == expected


def test_of_equal_sets_the_one_is_taken_that_leaves_the_better_ones() -> None:
    """Three pairs are alike, but 0 and 1 have links to 2 and 3 as well, which would be cut."""
    links = {(0, 1): 4, (2, 3): 4, (4, 5): 4, (0, 2): 1, (1, 3): 1}
    assert chosen(mesh(6, links), 2).gpus == (4, 5)


@pytest.mark.parametrize(
    ("topology", "busy", "count", "expected"),
    [
        (hgx_h100(), [], 2, (0, 4)),
        (hgx_h100(), [], 4, (0, 1, 4, 5)),
        (hgx_h100(), [0, 1, 2], 4, (3, 4, 5, 6)),
        (hgx_a100(), [], 4, (0, 2, 4, 6)),
        (l40s(), [], 4, (0, 2, 4, 6)),
        (l40s(), [0, 1], 4, (2, 4, 6, 3)),
    ],
)
def test_spread_takes_many_numa_nodes_and_switches(
    topology: NodeTopology, busy: list[int], count: int, expected: tuple[int, ...]
) -> None:
    assert chosen(topology, count, busy, policy=Policy.SPREAD).gpus == tuple(sorted(expected))


def test_gpus_in_use_are_named_by_index_or_uuid() -> None:
    by_index = Request(count=2, busy=frozenset({0, 1}))
    by_uuid = Request(count=2, busy=frozenset({uuid(0), uuid(1)}))
    assert select(hgx_h100(), by_index) == select(hgx_h100(), by_uuid)


def test_a_gpu_in_mig_mode_is_never_chosen() -> None:
    topology = bent(hgx_h100(), 0, mig_mode=MigMode.ENABLED)
    assert chosen(topology, 4).gpus == (4, 5, 6, 7)
    assert chosen(topology, 7).gpus == (1, 2, 3, 4, 5, 6, 7)


def test_too_few_free_gpus_give_no_choice_and_the_reason() -> None:
    topology = bent(hgx_h100(), 6, mig_mode=MigMode.ENABLED)
    lost = LostGpu(index=7, problem="GPU is lost")
    topology = replace(topology, gpus=topology.gpus[:7], lost=(lost,))
    assert refused(topology, Request(count=4, busy=frozenset({0, 1, uuid(2), 3, 6}))) == (
        "asked for 4 GPUs, 2 of 8 are free: 4 in use, GPU6 in MIG mode, GPU7 lost (GPU is lost)"
    )


def test_a_node_without_gpus_gives_no_choice() -> None:
    empty = NodeTopology(node="cpu-only", source="nvml")
    assert refused(empty, Request(count=1)) == "asked for 1 GPU, 0 of 0 are free"


def unmet(choice: Choice) -> dict[Constraint, str]:
    return {given_up.constraint: given_up.evidence for given_up in choice.unmet}


def test_the_same_numa_node_is_given_up_with_the_numbers() -> None:
    choice = chosen(hgx_h100(), 4, [0, 5, 6], constraints=Constraints(same_numa=True, require_nvlink=True))
    assert choice.gpus == (1, 2, 3, 4)
    assert unmet(choice) == {
        Constraint.SAME_NUMA: "no 4 free GPUs on one NUMA node: NUMA 0 has 3 free, NUMA 1 has 2",
    }


def test_the_numa_node_is_given_up_before_the_bandwidth() -> None:
    asked = Constraints(same_numa=True, min_bandwidth=40)
    choice = chosen(dgx1_v100(), 2, [2, 3, 6, 7], constraints=asked)
    assert choice.gpus == (0, 4)
    assert unmet(choice) == {
        Constraint.SAME_NUMA: (
            "no 2 free GPUs on one NUMA node and with 40 GB/s between every pair: NUMA 0 has 2 free, NUMA 1 has 2"
        ),
    }


def test_nvlink_is_given_up_last() -> None:
    asked = Constraints(same_numa=True, require_nvlink=True, min_bandwidth=20)
    choice = chosen(a100_pcie_bridged(), 2, [1, 3], constraints=asked)
    assert choice.gpus == (0, 2)
    assert unmet(choice) == {
        Constraint.REQUIRE_NVLINK: "no 2 free GPUs with NVLink between every pair: none of them has it",
        Constraint.MIN_BANDWIDTH: (
            "no 2 free GPUs with 20 GB/s between every pair: of those chosen, GPU0 and GPU2 have 10"
        ),
        Constraint.SAME_NUMA: "no 2 free GPUs on one NUMA node: NUMA 0 has 1 free, NUMA 1 has 1",
    }


def test_nvlink_is_kept_rather_than_the_bandwidth() -> None:
    """0 and 1 have an NVLink of 12 GB/s; PCIe gives each other pair 24."""
    topology, fast = mesh(4, {(0, 1): 1}), Pcie(generation=4, width=16)
    gpus = tuple(replace(gpu, compute_capability="8.6", pcie=fast) for gpu in topology.gpus)
    topology = replace(topology, gpus=gpus)
    assert chosen(topology, 2, constraints=Constraints(min_bandwidth=20)).gpus == (0, 2)
    choice = chosen(topology, 2, constraints=Constraints(require_nvlink=True, min_bandwidth=20))
    assert choice.gpus == (0, 1)
    assert unmet(choice) == {
        Constraint.MIN_BANDWIDTH: (
            "no 2 free GPUs with 20 GB/s between every pair and with NVLink between every pair: "
            "of those chosen, GPU0 and GPU1 have 12"
        ),
    }


def test_missing_nvlink_is_told_by_how_many_partners_a_gpu_has() -> None:
    choice = chosen(a100_pcie_bridged(), 3, constraints=Constraints(require_nvlink=True))
    assert unmet(choice) == {
        Constraint.REQUIRE_NVLINK: "no 3 free GPUs with NVLink between every pair: none of them has it to more than 1",
    }


def test_missing_nvlink_is_told_by_a_pair_where_partners_would_suffice() -> None:
    choice = chosen(mesh(4, {(0, 1): 1, (1, 2): 1, (2, 3): 1}), 3, constraints=Constraints(require_nvlink=True))
    assert unmet(choice) == {
        Constraint.REQUIRE_NVLINK: (
            "no 3 free GPUs with NVLink between every pair: of those chosen, GPU0 and GPU2 have none"
        ),
    }


def test_nvlink_through_a_third_gpu_gives_bandwidth_but_is_no_link_of_its_own() -> None:
    """0 and 5 of a cube mesh have PCIe, and 20 GB/s through 1."""
    assert not chosen(dgx1_v100(), 3, [2, 3, 4, 6, 7], constraints=Constraints(min_bandwidth=20)).unmet
    choice = chosen(dgx1_v100(), 3, [2, 3, 4, 6, 7], constraints=Constraints(require_nvlink=True))
    assert [given_up.constraint for given_up in choice.unmet] == [Constraint.REQUIRE_NVLINK]


def test_a_level_is_met_by_the_nearest_gpus() -> None:
    """Of an L40S machine two GPUs share a switch and four a socket."""
    assert chosen(l40s(), 2, [0], constraints=Constraints(min_level=Level.PIX)).gpus == (2, 3)
    assert not chosen(l40s(), 4, constraints=Constraints(min_level=Level.PHB)).unmet
    assert chosen(a100_pcie_bridged(), 2, [0], constraints=Constraints(min_level=Level.NVLINK)).gpus == (2, 3)


def test_a_level_that_cannot_be_met_is_told_by_a_pair_that_is_farther() -> None:
    choice = chosen(l40s(), 5, constraints=Constraints(min_level=Level.PHB))
    assert unmet(choice) == {
        Constraint.MIN_LEVEL: (
            "no 5 free GPUs with PHB or nearer between every pair: of those chosen, GPU0 and GPU4 have SYS"
        ),
    }
    choice = chosen(dgx1_v100(), 8, constraints=Constraints(min_level=Level.NVLINK, same_numa=True))
    assert list(unmet(choice)) == [Constraint.MIN_LEVEL, Constraint.SAME_NUMA]


def test_an_unknown_numa_node_is_not_taken_for_the_same() -> None:
    choice = chosen(hidden_switches(), 2, constraints=Constraints(same_numa=True))
    assert unmet(choice) == {Constraint.SAME_NUMA: "no 2 free GPUs on one NUMA node: the node of 8 is not known"}


def test_the_numa_node_of_a_machine_with_one_is_known() -> None:
    topology = replace(hidden_switches(), cpus=hidden_switches().cpus[:1])
    assert not chosen(topology, 8, constraints=Constraints(same_numa=True)).unmet


def test_the_loss_is_what_the_best_set_of_an_empty_node_has_more() -> None:
    assert chosen(dgx1_v100(), 2, [1, 2, 3, 4, 6, 7]).loss == pytest.approx(0.85)  # 6 of 40 GB/s
    assert chosen(a100_pcie_bridged(), 2, [1, 3]).loss == pytest.approx(23 / 24)
    assert chosen(dgx1_v100(), 4, [1, 2, 5, 6]).loss == pytest.approx(0.25)  # 60 of 80
    assert chosen(hgx_h100(), 4, [0, 2, 4, 6]).loss == 0.0
    assert chosen(dgx1_v100(), 1, [0]).loss == 0.0


def unlike(count: int, strong: Sequence[int]) -> NodeTopology:
    """No two GPUs can stand for each other: each pair has one to three links, those of the strong ones four."""
    pairs = combinations(range(count), 2)
    return mesh(
        count, {pair: 4 if set(pair) <= set(strong) else 1 + (pair[0] * 7 + pair[1] ** 2) % 3 for pair in pairs}
    )


def test_among_sixteen_unlike_gpus_the_best_eight_are_found_for_certain() -> None:
    choice = chosen(unlike(16, [1, 2, 5, 6, 9, 11, 12, 15]), 8)
    assert choice.gpus == (1, 2, 5, 6, 9, 11, 12, 15)
    assert choice.exact


def on_pcie(numa_nodes: int) -> NodeTopology:
    """Sixteen GPUs without NVLinks, two below each PCIe switch."""
    switches = [f"0000:{0x10 + number:02x}:00.0" for number in range(8)]
    return NodeTopology(
        node="pcie",
        source="nvml",
        gpus=tuple(
            Gpu(
                index=index,
                compute_capability="8.9",
                numa_node=index * numa_nodes // 16,
                pcie=Pcie(generation=4, width=16),
                parent=switches[index // 2],
                root=f"0000:{0x10 + index // 2:02x}",
            )
            for index in range(16)
        ),
        switches=tuple(PciSwitch(pci_bus_id=bus_id, root=bus_id[:7]) for bus_id in switches),
    )


@pytest.mark.slow
@pytest.mark.parametrize("numa_nodes", [4, 8])
@pytest.mark.parametrize("asked", [Constraints(), Constraints(same_numa=True, require_nvlink=True)])
@pytest.mark.parametrize(
    ("policy", "busy", "expected"),
    [
        (Policy.BEST_FIT, [], (0, 1, 2, 3, 4, 5, 6, 7)),
        (Policy.SPREAD, [], (0, 2, 4, 6, 8, 10, 12, 14)),
        (Policy.SPREAD, [0, 8], (1, 2, 4, 6, 9, 10, 12, 14)),
    ],
)
def test_eight_of_sixteen_gpus_on_pcie(
    numa_nodes: int, asked: Constraints, policy: Policy, busy: list[int], expected: tuple[int, ...]
) -> None:
    choice = chosen(on_pcie(numa_nodes), 8, busy, policy=policy, constraints=asked)
    assert choice.gpus == expected
    assert [one.constraint for one in choice.unmet] == list(asked.asked)


def test_among_too_many_sets_a_good_one_is_found() -> None:
    choice = chosen(unlike(40, [3, 8, 13, 21, 34, 39]), 6)
    assert choice.gpus == (3, 8, 13, 21, 34, 39)
    assert choice.exact


def test_among_too_many_sets_constraints_are_met_all_the_same() -> None:
    choice = chosen(unlike(40, [3, 8, 13, 21, 34, 39]), 6, constraints=Constraints(min_bandwidth=82))
    assert choice.gpus == (3, 8, 13, 21, 34, 39)
    assert not choice.unmet


def test_what_was_not_found_among_too_many_sets_is_not_called_impossible() -> None:
    chance = Random(7)
    links = {pair: 1 for pair in combinations(range(40), 2) if chance.random() < 0.6}
    choice = chosen(mesh(40, links), 12, constraints=Constraints(require_nvlink=True))
    assert not choice.exact
    assert unmet(choice)[Constraint.REQUIRE_NVLINK].startswith("found no 12 free GPUs with NVLink between every pair: ")


def test_many_gpus_that_can_stand_for_each_other_are_no_hindrance() -> None:
    gpu = hgx_h100().gpus[0]
    gpus = tuple(replace(gpu, index=n, uuid=f"GPU-{n}", numa_node=n // 32, parent="", root="") for n in range(64))
    choice = chosen(NodeTopology(node="rack", source="nvml", gpus=gpus), 32, [0])
    assert choice.gpus == tuple(range(32, 64))
    assert choice.exact


@pytest.mark.parametrize("count", [0, -1])
def test_a_count_below_one_is_refused(count: int) -> None:
    with pytest.raises(FormatError, match=rf'^count: expected 1 or more, found "{count}"$'):
        Request(count=count)


@pytest.mark.parametrize("bandwidth", [-1.0, float("nan"), float("inf")])
def test_a_bandwidth_that_is_none_is_refused(bandwidth: float) -> None:
    with pytest.raises(FormatError, match=r"^min-bandwidth: expected GB/s per direction, 0 or more, found"):
        Constraints(min_bandwidth=bandwidth)


VALUES = {"single": 6, "NVSwitch": 6, "NVLink": 6, "NVLink-partial": 5, "PIX": 4, "PXB": 3, "PHB": 2, "SYS": 1}


def numa_nodes(topology: NodeTopology, gpus: Sequence[int]) -> set[int | None]:
    """A machine with one NUMA node need not name it."""
    only = topology.cpus[0].numa_node if len(topology.cpus) == 1 else None
    return {only if gpu.numa_node is None else gpu.numa_node for gpu in topology.gpus if gpu.index in gpus}


NEAR: dict[Level | None, set[PathType]] = {
    Level.NVLINK: {PathType.NVL},
    Level.PIX: {PathType.NVL, PathType.C2C, PathType.PIX},
    Level.PXB: {PathType.NVL, PathType.C2C, PathType.PIX, PathType.PXB},
    Level.PHB: {PathType.NVL, PathType.C2C, PathType.PIX, PathType.PXB, PathType.PHB},
    None: set(PathType),
}
"""The direct connections that are no farther than a level, in NCCL's order."""


def meets(topology: NodeTopology, gpus: Sequence[int], connections: Connections, asked: Constraints) -> set[Constraint]:
    """The constraints that a set meets of those asked, by their definition."""
    judged = assess(topology, gpus, connections)
    nodes = numa_nodes(topology, gpus)
    met = {
        Constraint.REQUIRE_NVLINK: judged.every_pair_has_nvlink,
        Constraint.MIN_LEVEL: all(
            connections.direct(one, other).type in NEAR[asked.min_level] for one, other in combinations(gpus, 2)
        ),
        Constraint.MIN_BANDWIDTH: judged.bandwidth >= asked.min_bandwidth,
        Constraint.SAME_NUMA: len(nodes) == 1 and None not in nodes,
    }
    return {constraint for constraint in asked.asked if met[constraint] or len(gpus) == 1}


asked_by_chance = st.builds(
    Constraints,
    require_nvlink=st.booleans(),
    min_level=st.sampled_from([None, None, *Level]),
    min_bandwidth=st.sampled_from([0.0, 12.0, 20.0, 41.2, 100.0]),
    same_numa=st.booleans(),
)
requests = st.builds(
    Request,
    count=st.integers(1, 5),
    policy=st.sampled_from(Policy),
    objective=st.sampled_from(Objective),
    constraints=asked_by_chance,
    busy=st.frozensets(st.integers(0, 6), max_size=3),
)


def free_gpus(topology: NodeTopology, request: Request) -> list[int]:
    return [gpu.index for gpu in topology.gpus if gpu.mig_mode is not MigMode.ENABLED and gpu.index not in request.busy]


@given(small_nodes(), requests)
def test_a_choice_has_the_size_asked_for_out_of_the_free_gpus(topology: NodeTopology, request: Request) -> None:
    choice, free = select(topology, request), free_gpus(topology, request)
    if isinstance(choice, NoChoice):
        assert len(free) < request.count
        return
    assert len(set(choice.gpus)) == request.count
    assert set(choice.gpus) <= set(free)
    assert choice.exact
    assert 0 <= choice.loss <= 1


@given(small_nodes(), requests)
def test_constraints_are_given_up_in_their_order_and_as_few_as_possible(
    topology: NodeTopology, request: Request
) -> None:
    choice = select(topology, request)
    if isinstance(choice, NoChoice):
        return
    connections, asked = Connections(topology), request.constraints.asked
    met = meets(topology, choice.gpus, connections, request.constraints)
    assert [given_up.constraint for given_up in choice.unmet] == [one for one in asked if one not in met]
    possible = [
        meets(topology, gpus, connections, request.constraints)
        for gpus in combinations(free_gpus(topology, request), request.count)
    ]
    # Each constraint counts more than all those behind it together.
    assert [one in met for one in asked] == max([one in other for one in asked] for other in possible)


@given(small_nodes(), requests)
def test_the_same_question_has_the_same_answer(topology: NodeTopology, request: Request) -> None:
    selector = Selector(topology)
    assert selector.select(request) == selector.select(request) == select(topology, request)


def value_of(topology: NodeTopology, gpus: Sequence[int], request: Request) -> tuple[object, ...]:
    """The first criteria by their definition; what the others lose is judged by the planner's tests."""
    connections = Connections(topology)
    judged, met = assess(topology, gpus, connections), meets(topology, gpus, connections, request.constraints)
    spread: list[object] = []
    if request.policy is Policy.SPREAD:
        parents = {gpu.index: gpu.parent or gpu.label for gpu in topology.gpus}
        nodes = {gpu: next(iter(numa_nodes(topology, [gpu]))) for gpu in gpus}
        for part in (nodes, parents):
            shares = Counter(part[gpu] for gpu in gpus)
            spread += [len(shares), -max(shares.values())]
    grade: list[object] = [VALUES[judged.link]]
    if request.objective is Objective.BANDWIDTH:
        grade += [round(judged.bandwidth, 3), round(judged.ring_bandwidth, 3)]
    return (*(constraint in met for constraint in request.constraints.asked), *spread, *grade)


@given(small_nodes(), requests)
def test_no_set_is_better_than_the_chosen_one(topology: NodeTopology, request: Request) -> None:
    choice = select(topology, request)
    if isinstance(choice, Choice):
        sets = combinations(free_gpus(topology, request), request.count)
        assert value_of(topology, choice.gpus, request) == max(value_of(topology, gpus, request) for gpus in sets)
