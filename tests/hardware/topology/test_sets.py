"""Sets of GPUs and their rings, against the rings that NCCL 2.30 finds on the same machines."""

from dataclasses import replace
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.topology.machines import (
    GEN4,
    GEN5,
    MACHINES,
    a100_pcie_bridged,
    bent,
    dgx1_v100,
    gb200_tray,
    h20,
    hgx_a100,
    hgx_b200,
    hgx_h100,
    hidden_switches,
    l40s,
    with_switch_links,
)
from webhook.hardware.topology.model import Cpu, MigMode, NodeTopology, NvLink, Pcie
from webhook.hardware.topology.pcie import PciePath
from webhook.hardware.topology.ring import ring_order, weakest_hop
from webhook.hardware.topology.sets import LinkClass, NicAffinity, assess
from webhook.words.errors import FormatError

EIGHT = range(8)


def without_links(topology: NodeTopology) -> NodeTopology:
    return replace(topology, gpus=tuple(replace(gpu, nvlinks=()) for gpu in topology.gpus))


@pytest.mark.parametrize(
    ("topology", "gpus", "link", "weakest"),
    [
        (hgx_h100(), EIGHT, "NVSwitch", 370.8),
        (hgx_h100(), [1, 6], "NVSwitch", 370.8),
        (hgx_a100(), EIGHT, "NVSwitch", 240.0),
        (hgx_b200(), EIGHT, "NVSwitch", 721.8),
        (gb200_tray(), range(4), "NVSwitch", 721.8),
        (hidden_switches(), EIGHT, "NVSwitch", 370.8),
        (dgx1_v100(), [0, 1, 2, 3], "NVLink", 20.0),
        (dgx1_v100(), [0, 3], "NVLink", 40.0),
        (dgx1_v100(), [0, 3, 4, 7], "NVLink-partial", 20.0),
        (dgx1_v100(), EIGHT, "NVLink-partial", 20.0),
        (dgx1_v100(), [0, 5], "SYS", 6.0),
        (a100_pcie_bridged(), [0, 1], "NVLink", 240.0),
        (a100_pcie_bridged(), [0, 2], "SYS", 10.0),
        (a100_pcie_bridged(), range(4), "NVLink-partial", 10.0),
        (l40s(), [0, 1], "PIX", 24.0),
        (l40s(), EIGHT, "SYS", 22.0),
        (without_links(gb200_tray()), [0, 1], "PHB", 447.12),
        (h20(), [5], "single", 0.0),
        (bent(hgx_h100(), 0, mig_mode=MigMode.ENABLED), [0, 1, 2], "NVLink-partial", 48.0),
    ],
)
def test_a_set_has_a_class_and_a_weakest_pair(
    topology: NodeTopology, gpus: list[int], link: str, weakest: float
) -> None:
    judged = assess(topology, gpus)
    assert (judged.link, judged.bandwidth) == (LinkClass(link), weakest)


@pytest.mark.parametrize(
    ("topology", "gpus", "ring_bandwidth", "nccl"),
    [
        (hgx_h100(), EIGHT, 370.8, 360),
        (with_switch_links(hgx_h100(), 2, 10), EIGHT, 206.0, 200),
        (hgx_b200(), EIGHT, 721.8, 720),
        (hgx_a100(), EIGHT, 240.0, 240),
        (dgx1_v100(), EIGHT, 120.0, 120),
        (dgx1_v100(), [0, 1, 2, 3], 80.0, 80),
        (dgx1_v100(), [0, 3, 4, 7], 60.0, 60),
        (dgx1_v100(), [0, 1, 4, 5], 40.0, 40),
        (dgx1_v100(), [0, 1, 5], 20.0, 20),
        (a100_pcie_bridged(), range(4), 10.0, 10),
        (l40s(), EIGHT, 22.0, 20),
        (without_links(gb200_tray()), [0, 1], 447.12, 405),
    ],
)
def test_rings_carry_what_nccl_finds_up_to_a_step_of_its_table(
    topology: NodeTopology, gpus: list[int], ring_bandwidth: float, nccl: float
) -> None:
    found = assess(topology, gpus).ring_bandwidth
    assert found == ring_bandwidth
    assert nccl <= found <= nccl * 1.11


def bridged_pairs(capability: str, links: int, pcie: Pcie, cpu: Cpu) -> NodeTopology:
    """Bridges join 0 to 1 and 2 to 3; all four are below root ports of one CPU."""
    topology = replace(a100_pcie_bridged(), cpus=(cpu,))
    for index, peer in enumerate([1, 0, 3, 2]):
        nvlinks = (NvLink(target=f"GPU{peer}", count=links, active=links),)
        topology = bent(
            topology, index, numa_node=0, compute_capability=capability, nvlinks=nvlinks, pcie=pcie, cpu_affinity=""
        )
    return topology


AMD, SAPPHIRE_RAPIDS = Cpu(numa_node=0, vendor="AuthenticAMD"), Cpu(numa_node=0, vendor="GenuineIntel", model=143)


@pytest.mark.parametrize(
    ("topology", "gpus", "ring_bandwidth", "nccl"),
    [
        (bridged_pairs("8.6", 4, GEN4, AMD), range(4), 48.0, 48),
        (bridged_pairs("8.6", 4, GEN4, SAPPHIRE_RAPIDS), range(4), 40.0, 40),
        (bridged_pairs("8.6", 4, GEN4, AMD), [0, 1, 2], 24.0, 24),
        (bent(hgx_h100(), 5, nvlinks=()), [1, 2, 3, 5, 6], 43.636, 40),
        (bent(hgx_h100(), 0, nvlinks=()), [0, 1, 6], 43.636, 40),
        # all channels go the same way where they cross AMD's sockets
        (replace(bent(hgx_h100(), 5, nvlinks=()), cpus=(AMD,)), [1, 2, 3, 5, 6], 16.0, 15),
    ],
)
def test_channels_go_both_ways_round_where_one_way_leaves_a_link_half_empty(
    topology: NodeTopology, gpus: list[int], ring_bandwidth: float, nccl: float
) -> None:
    found = assess(topology, gpus)
    assert found.ring_bandwidth == pytest.approx(ring_bandwidth, abs=0.001)
    assert nccl <= found.ring_bandwidth <= nccl * 1.1
    assert found.nccl_finds_ring


def rtx_pro_6000(vendor: str, model: int) -> NodeTopology:
    """Eight cards on two sockets, without NVLink."""
    topology = l40s()
    for gpu in topology.gpus:
        topology = bent(topology, gpu.index, compute_capability="12.0", pcie=GEN5)
    switches = tuple(replace(switch, pcie=GEN5) for switch in topology.switches)
    cpus = tuple(replace(cpu, vendor=vendor, model=model) for cpu in topology.cpus)
    return replace(topology, switches=switches, cpus=cpus)


@pytest.mark.parametrize(
    ("topology", "gpus", "ring_bandwidth", "finds"),
    [
        (rtx_pro_6000("AuthenticAMD", 1), EIGHT, 16.0, False),
        (rtx_pro_6000("GenuineIntel", 106), EIGHT, 10.0, False),
        (rtx_pro_6000("GenuineIntel", 143), EIGHT, 22.0, True),
        (rtx_pro_6000("AuthenticAMD", 1), range(4), 48.0, True),
        (replace(l40s(), cpus=rtx_pro_6000("AuthenticAMD", 1).cpus), EIGHT, 16.0, True),  # 8.9: the steps go on
        (without_links(gb200_tray()), range(4), 6.0, False),
        (gb200_tray(), range(4), 721.8, True),
        (without_links(gb200_tray()), [0], 0.0, True),
    ],
)
def test_from_compute_capability_10_on_nccl_finds_no_ring_with_a_slow_hop(
    topology: NodeTopology, gpus: list[int], ring_bandwidth: float, finds: bool
) -> None:
    found = assess(topology, gpus)
    assert (found.ring_bandwidth, found.nccl_finds_ring) == (ring_bandwidth, finds)


def test_a_ring_says_what_its_figure_is() -> None:
    assert assess(hgx_a100(), [0, 2]).ring_sentence == "240.0 GB/s (0-2-0), estimated"
    assert assess(rtx_pro_6000("AuthenticAMD", 1), [0, 4]).ring_sentence == (
        "16.0 GB/s (0-4-0), estimated, but NCCL finds no ring: from compute capability 10.0 on it looks for none below "
        "18 GB/s, and goes in the order of the ranks"
    )


def test_each_byte_of_an_all_reduce_crosses_the_ring_almost_twice() -> None:
    assert assess(hgx_a100(), EIGHT).all_reduce == pytest.approx(137.142857)  # 240 * 8 / 14
    assert assess(hgx_a100(), [0, 1]).all_reduce == 240.0
    assert assess(hgx_a100(), [0]).all_reduce == 0.0


def test_a_single_gpu_has_no_pairs() -> None:
    judged = assess(h20(), [5])
    assert (judged.weakest, judged.mean_bandwidth, judged.ring, judged.ring_bandwidth) == (None, 0.0, (5,), 0.0)
    assert judged.every_pair_has_nvlink


@pytest.mark.parametrize(
    ("topology", "gpus", "over_nvlink"),
    [
        (dgx1_v100(), EIGHT, True),
        (dgx1_v100(), [0, 1, 5, 4], True),
        (dgx1_v100(), [0, 3, 5], False),
        (a100_pcie_bridged(), range(4), False),
        (l40s(), EIGHT, False),
        (h20(), [5], False),
    ],
    ids=["all of a cube mesh", "a square of it", "one without partner", "bridged pairs", "no NVLink", "alone"],
)
def test_a_ring_may_be_over_nvlink_though_some_pairs_have_none(
    topology: NodeTopology, gpus: list[int], *, over_nvlink: bool
) -> None:
    assert assess(topology, gpus).ring_over_nvlink is over_nvlink


@pytest.mark.parametrize("name", MACHINES)
def test_a_ring_is_over_nvlink_where_every_pair_has_it(name: str) -> None:
    topology = MACHINES[name]
    for pair in combinations([gpu.index for gpu in topology.gpus], 2):
        found = assess(topology, pair)
        assert found.ring_over_nvlink == found.every_pair_has_nvlink
    whole = assess(topology, [gpu.index for gpu in topology.gpus])
    assert whole.ring_over_nvlink or not whole.every_pair_has_nvlink or len(whole.gpus) == 1


def test_the_weakest_pair_is_named() -> None:
    weakest = assess(with_switch_links(hgx_h100(), 2, 10), [2, 5, 6]).weakest
    assert weakest is not None
    assert (weakest.gpus, weakest.connection.bandwidth, weakest.connection.word) == ((2, 5), 206.0, "NV10")


def test_the_slower_direction_of_a_pair_counts() -> None:
    topology = bent(a100_pcie_bridged(), 1, nvlinks=(NvLink(target="GPU0", count=12, active=6),))
    judged = assess(topology, [0, 1])
    assert (judged.bandwidth, judged.ring_bandwidth) == (120.0, 120.0)


def test_the_mean_is_over_all_pairs() -> None:
    assert assess(a100_pcie_bridged(), range(4)).mean_bandwidth == pytest.approx(86.666667)  # (2 * 240 + 4 * 10) / 6


@pytest.mark.parametrize(
    ("topology", "gpus", "numa_nodes"),
    [(h20(), [0, 3], (0,)), (h20(), [3, 4], (0, 1)), (hgx_a100(), [6, 0, 3], (1, 3, 5)), (hidden_switches(), [0], ())],
)
def test_the_numa_nodes_of_a_set(topology: NodeTopology, gpus: list[int], numa_nodes: tuple[int, ...]) -> None:
    assert assess(topology, gpus).numa_nodes == numa_nodes


def test_each_gpu_has_its_nearest_nics() -> None:
    assert assess(h20(), [0, 1]).nics == (
        NicAffinity(name="ibp14s0", path=PciePath.PIX, gpus=(0,)),
        NicAffinity(name="ibp14s0", path=PciePath.NODE, gpus=(1,)),
        NicAffinity(name="ibp71s0", path=PciePath.NODE, gpus=(1,)),
        NicAffinity(name="rocep32s0f0", path=PciePath.NODE, gpus=(1,)),
    )
    assert assess(l40s(), [0, 1]).nics == ()


def test_the_ring_of_a_cube_mesh_uses_its_links() -> None:
    judged = assess(dgx1_v100(), EIGHT)
    hops = zip(judged.ring, (*judged.ring[1:], judged.ring[0]), strict=True)
    # either of these two closes over links alone, with the double links in it: 0-3-2-1-5-6-7-4 and its mirror
    assert judged.ring == (0, 3, 2, 1, 5, 6, 7, 4)
    assert {frozenset(hop) for hop in hops} == {
        frozenset(pair) for pair in [(0, 3), (3, 2), (2, 1), (1, 5), (5, 6), (6, 7), (7, 4), (4, 0)]
    }


@pytest.mark.parametrize(
    ("gpus", "ring", "ring_bandwidth"),
    [
        ([2, 3, 6, 7], (2, 3, 7, 6), 40.0),  # 3 and 6, 2 and 7 have no link
        ([0, 3, 4, 7], (0, 3, 7, 4), 60.0),  # 0 and 7, 3 and 4 have none
        ([0, 1, 4, 5], (0, 1, 5, 4), 40.0),
        ([1, 2, 5, 6], (1, 2, 6, 5), 60.0),
    ],
)
def test_a_ring_takes_links_of_its_own_before_those_through_a_third_gpu(
    gpus: list[int], ring: tuple[int, ...], ring_bandwidth: float
) -> None:
    judged = assess(dgx1_v100(), gpus)
    assert judged.ring == ring
    assert judged.ring_bandwidth == ring_bandwidth


def test_a_better_weakest_hop_is_worth_a_hop_through_a_third_gpu() -> None:
    """Without the pairs 0 and 2, 1 and 3, which have 20 GB/s through a third GPU, a ring has hops of 10."""
    bandwidth = [[0.0, 20.0, 20.0, 10.0], [20.0, 0.0, 10.0, 20.0], [20.0, 10.0, 0.0, 20.0], [10.0, 20.0, 20.0, 0.0]]
    assert ring_order(bandwidth, {(0, 2), (1, 3)}) == (0, 1, 3, 2)


def test_beyond_eight_members_too_a_ring_takes_links_of_its_own_first() -> None:
    """Only neighbours in the list have links of their own, but all pairs have 20 GB/s."""
    bandwidth = [[0.0 if i == j else 20.0 for j in range(10)] for i in range(10)]
    bridged = {(i, j) for i in range(10) for j in range(i + 1, 10) if j - i not in (1, 9)}
    assert ring_order(bandwidth, bridged) == (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)


def test_a_ring_crosses_a_slow_link_as_rarely_as_it_can() -> None:
    interleaved = [[0.0 if i == j else 24.0 if i % 2 == j % 2 else 10.0 for j in range(6)] for i in range(6)]
    ring = ring_order(interleaved)
    crossings = [i for i in range(6) if ring[i] % 2 != ring[(i + 1) % 6] % 2]
    assert len(crossings) == 2


def best_weakest_hop(bandwidth: list[list[float]]) -> float:
    count = len(bandwidth)
    return max(
        min(min(bandwidth[a][b], bandwidth[b][a]) for a, b in zip(ring, (*ring[1:], ring[0]), strict=True))
        for rest in permutations(range(1, count))
        for ring in [(0, *rest)]
    )


def squares(smallest: int, largest: int) -> st.SearchStrategy[list[list[float]]]:
    def square(size: int) -> st.SearchStrategy[list[list[float]]]:
        row = st.lists(st.sampled_from([6.0, 10.0, 20.0, 40.0, 240.0]), min_size=size, max_size=size)
        return st.lists(row, min_size=size, max_size=size)

    return st.integers(smallest, largest).flatmap(square)


@given(squares(2, 7))
def test_up_to_eight_members_no_ring_has_a_better_weakest_hop(bandwidth: list[list[float]]) -> None:
    ring = ring_order(bandwidth)
    assert sorted(ring) == list(range(len(bandwidth)))
    assert ring[0] == 0
    assert weakest_hop(ring, bandwidth) == best_weakest_hop(bandwidth)


@given(squares(9, 16))
def test_a_larger_ring_visits_each_member_once_and_is_no_worse_than_the_order_of_the_list(
    bandwidth: list[list[float]],
) -> None:
    ring = ring_order(bandwidth)
    assert sorted(ring) == list(range(len(bandwidth)))
    assert weakest_hop(ring, bandwidth) >= 6.0


def test_sixteen_gpus_of_two_boards_form_a_ring_that_crosses_twice() -> None:
    boards = [[0.0 if i == j else 120.0 if i % 2 == j % 2 else 10.0 for j in range(16)] for i in range(16)]
    ring = ring_order(boards)
    assert sum(ring[i] % 2 != ring[(i + 1) % 16] % 2 for i in range(16)) == 2


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        ([0, 8], r'node h20-node-1: expected indices of its GPUs \(0, 1, 2, 3, 4, 5, 6, 7\), each once, found "8"'),
        ([0, 1, 0], 'each once, found "0"'),
        ([], 'node h20-node-1: expected at least one GPU, found "none"'),
    ],
)
def test_a_set_that_the_node_does_not_have_is_refused(gpus: list[int], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        assess(h20(), gpus)


@pytest.mark.parametrize("name", MACHINES)
def test_the_order_in_which_a_set_is_named_does_not_matter(name: str) -> None:
    indices = [gpu.index for gpu in MACHINES[name].gpus]
    assert assess(MACHINES[name], indices[::-1]) == assess(MACHINES[name], indices)
