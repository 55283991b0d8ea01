"""What free GPUs are worth to jobs that come later: golden values, and the best division by a plain search."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hardware.topology.machines import a100_pcie_bridged, dgx1_v100
from tests.hardware.topology.small_nodes import small_nodes
from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.selection.packing import EXACT, SIZES, Packing
from webhook.hardware.topology.selection.pair_table import PairTable, positions


def table_of(topology: NodeTopology) -> PairTable:
    return PairTable(topology, Connections(topology))


def best_division(table: PairTable, left: list[int], size: int) -> float:
    """The greatest sum over disjoint sets of one size, by trying every set first."""
    return max(
        (
            min(table.bandwidth[one][other] for one, other in combinations(members, 2))
            + best_division(table, [gpu for gpu in left if gpu > members[0] and gpu not in members], size)
            for members in combinations(left, size)
        ),
        default=0.0,
    )


@pytest.mark.parametrize(
    ("free", "worth"),
    [
        # Two bridged pairs of 240 GB/s; four GPUs have 10 GB/s between the pairs.
        ("0123", 2 * (240 + 240) + 4 * 10),
        # The third GPU has lost its partner.
        ("012", 2 * 240),
        ("02", 2 * 10),
        ("0", 0),
        ("", 0),
    ],
)
def test_bridged_pairs_are_worth_their_bridges(free: str, worth: float) -> None:
    table = table_of(a100_pcie_bridged())
    assert Packing(table).worth(table.mask(map(int, free))) == worth


def test_a_cube_mesh_is_worth_four_pairs_two_boards_and_the_way_between_them() -> None:
    table = table_of(dgx1_v100())
    # Greedily, 0-3, 1-2, 4-7 and 5-6 have 40 GB/s each; boards of four have single links, and 8 GPUs a way by the CPUs.
    assert Packing(table).worth(table.everything) == 2 * 4 * 40 + 4 * 2 * 20 + 8 * 6
    # GPU0 can have 40 GB/s with GPU3 or GPU4. The best division gives it GPU4, because GPU3 has only GPU0 and GPU2.
    assert Packing(table).worth(table.mask((0, 2, 3, 4))) == 2 * (40 + 40) + 4 * 6


@given(topology=small_nodes(most=EXACT), data=st.data())
def test_the_division_is_the_best_there_is(topology: NodeTopology, data: st.DataObject) -> None:
    table = table_of(topology)
    free = data.draw(st.integers(0, table.everything), label="free")
    packing = Packing(table)
    expected = sum(size * best_division(table, positions(free), size) for size in SIZES)
    assert packing.worth(free) == pytest.approx(expected)
    taken = free & data.draw(st.integers(0, table.everything), label="left")
    assert packing.worth(taken) <= packing.worth(free) + 1e-6, "fewer GPUs are worth more"


# The larger a node, the longer takes a draw.
@settings(max_examples=max(1, settings().max_examples // 3))
@given(topology=small_nodes(most=EXACT + 4))
def test_with_more_gpus_no_division_is_made_up(topology: NodeTopology) -> None:
    table = table_of(topology)
    worth = Packing(table).worth(table.everything)
    assert 0 <= worth <= sum(size * (len(table.gpus) // size) for size in SIZES) * table.best + 1e-6
    if len(table.gpus) > EXACT:
        pairs = 2 * max((table.bandwidth[a][b] for a, b in combinations(range(len(table.gpus)), 2)), default=0.0)
        assert worth >= pairs, "the best pair is found first"
