"""Figures that were measured stay with the GPUs, driver and links that they are of, and count where they are worse."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.topology.generated import topologies
from tests.hardware.topology.machines import bent, dgx1_v100, hgx_h100, l40s, uuid, with_switch_links
from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.health import HealthState, node_health
from webhook.hardware.topology.measured_pairs import (
    MeasuredPair,
    Measurements,
    has_unmeasured_pair,
    measurements_of,
    with_measurements,
)
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.planning.fleet import Builds
from webhook.hardware.topology.selection.choice import NoChoice, select
from webhook.hardware.topology.selection.request import Request
from webhook.hardware.topology.sets import assess

AT = "2026-11-23T04:00:00Z"


def figures(topology: NodeTopology, pairs: dict[tuple[int, int], MeasuredPair]) -> Measurements:
    found = {(uuid(one), uuid(other)): pair for (one, other), pair in pairs.items()}
    return Measurements(at=AT, driver=topology.driver_version, pairs=found)


def fast(mbps: int, word: str = "NV18") -> MeasuredPair:
    return MeasuredPair(word=word, mbps=mbps, is_slower=False)


def slow(mbps: int, word: str = "NV18") -> MeasuredPair:
    return MeasuredPair(word=word, mbps=mbps, is_slower=True)


def slower(topology: NodeTopology, one: int, other: int, mbps: int) -> NodeTopology:
    """In one direction."""
    gpu = next(gpu for gpu in topology.gpus if gpu.index == one)
    return bent(topology, one, slower=(*gpu.slower, (f"GPU{other}", mbps)))


@given(topologies())
def test_what_is_read_out_of_a_topology_belongs_into_it(topology: NodeTopology) -> None:
    whole = [gpu for gpu in topology.gpus if gpu.mig_mode is not MigMode.ENABLED]
    plain = replace(topology, measured_at="", gpus=tuple(replace(g, measured=(), slower=()) for g in topology.gpus))
    kept = with_measurements(plain, measurements_of(topology))
    assert kept.measured_at == topology.measured_at
    for gpu in whole:
        before = next(each for each in topology.gpus if each.index == gpu.index)
        now = next(each for each in kept.gpus if each.index == gpu.index)
        labels = {each.label for each in whole}
        assert {pair for pair in before.slower if pair[0] in labels} == set(now.slower)
        assert {pair for pair in before.measured if pair[0] in labels} == set(now.measured)


def test_figures_follow_the_uuids_when_gpus_are_renumbered() -> None:
    topology = hgx_h100()
    turned = replace(topology, gpus=tuple(replace(gpu, uuid=uuid(7 - gpu.index)) for gpu in topology.gpus))
    found = with_measurements(turned, figures(topology, {(0, 1): fast(371_000), (1, 0): slow(90_000)}))
    assert (found.gpus[7].measured, found.gpus[6].slower) == ((("GPU6", 371_000),), (("GPU7", 90_000),))


def test_figures_of_another_driver_are_forgotten() -> None:
    before = figures(hgx_h100(), {(0, 1): fast(371_000)})
    now = replace(hgx_h100(), driver_version="999.0")
    assert with_measurements(now, before) == now
    assert with_measurements(hgx_h100(), before).gpus[0].measured == (("GPU1", 371_000),)


def test_figures_of_a_pair_whose_links_have_changed_are_forgotten() -> None:
    before = figures(hgx_h100(), {(0, 1): fast(371_000), (2, 3): fast(371_000)})
    found = with_measurements(with_switch_links(hgx_h100(), 0, 9), before)
    assert [gpu.index for gpu in found.gpus if gpu.measured] == [2]


def test_a_gpu_in_mig_mode_has_no_figures() -> None:
    before = figures(hgx_h100(), {(0, 1): fast(371_000)})
    assert with_measurements(bent(hgx_h100(), 1, mig_mode=MigMode.ENABLED), before).gpus[0].measured == ()


def test_a_newer_figure_of_a_pair_counts_and_older_ones_of_others_stay() -> None:
    topology = hgx_h100()
    before = figures(topology, {(0, 1): slow(90_000), (1, 0): fast(370_000)})
    newer = replace(figures(topology, {(0, 1): fast(371_000)}), at="2026-11-24T04:00:00Z")
    found = with_measurements(topology, before.with_newer(newer))
    assert (found.gpus[0].measured, found.gpus[0].slower) == ((("GPU1", 371_000),), ())
    assert found.gpus[1].measured == (("GPU0", 370_000),)
    assert found.measured_at == "2026-11-24T04:00:00Z"


def test_nothing_of_an_older_driver_stays_beside_newer_figures() -> None:
    older = replace(figures(hgx_h100(), {(0, 1): fast(371_000)}), driver="1.0")
    newer = figures(hgx_h100(), {(2, 3): fast(371_000)})
    assert older.with_newer(newer) == newer


def test_pairs_are_unmeasured_until_there_are_figures_of_all_in_both_directions() -> None:
    topology = replace(hgx_h100(), gpus=hgx_h100().gpus[:2])
    one_way = figures(topology, {(0, 1): fast(371_000)})
    both = figures(topology, {(0, 1): fast(371_000), (1, 0): slow(90_000)})
    assert has_unmeasured_pair(topology)
    assert has_unmeasured_pair(with_measurements(topology, one_way))
    assert not has_unmeasured_pair(with_measurements(topology, both))
    assert not has_unmeasured_pair(replace(topology, gpus=topology.gpus[:1]))


def test_a_slower_figure_counts_in_its_direction_in_place_of_what_is_reckoned() -> None:
    connections = Connections(slower(hgx_h100(), 0, 1, 185_400))
    assert (connections.direct(0, 1).bandwidth, connections.direct(0, 1).share) == (185.4, 0.5)
    assert (connections.direct(1, 0).bandwidth, connections.direct(1, 0).share) == (370.8, 1.0)
    assert connections.direct(0, 1).word == "NV18"


@pytest.mark.parametrize("told", ["measured", "slower"])
def test_a_figure_that_is_no_worse_changes_nothing(told: str) -> None:
    """Two measurements of sound links differ by some percent, and a choice must not follow noise."""
    topology = bent(hgx_h100(), 0, **{told: (("GPU1", 372_000),)})
    assert Connections(topology).direct(0, 1) == Connections(hgx_h100()).direct(0, 1)
    assert assess(topology, [0, 1, 2]) == assess(hgx_h100(), [0, 1, 2])


def test_the_weakest_pair_of_a_set_is_the_one_that_was_measured_slower() -> None:
    topology = slower(hgx_h100(), 5, 2, 100_000)
    found = assess(topology, range(8))
    assert found.weakest is not None
    assert (found.weakest.gpus, found.bandwidth, found.link) == ((2, 5), 100.0, assess(hgx_h100(), range(8)).link)
    assert assess(topology, [0, 1, 3, 4]).bandwidth == 370.8


def test_a_gpu_whose_ways_are_all_slower_narrows_the_ring_of_its_set() -> None:
    topology = hgx_h100()
    for other in (0, 1, 2, 4, 5, 6, 7):
        topology = slower(topology, 3, other, 185_400)
    assert assess(topology, range(8)).ring_bandwidth == 185.4
    assert assess(topology, [0, 1, 2, 4]).ring_bandwidth == 370.8


def test_one_slower_pair_is_left_out_of_a_ring() -> None:
    found = assess(slower(hgx_h100(), 0, 1, 100_000), range(8))
    assert found.ring_bandwidth == 370.8
    assert frozenset((0, 1)) not in {frozenset(hop) for hop in zip(found.ring, (*found.ring[1:], 0), strict=True)}


def test_rings_over_direct_links_carry_what_was_measured() -> None:
    """Of a DGX-1 the GPUs 0 and 3 have two links, and no third GPU takes part."""
    assert assess(dgx1_v100(), [0, 3]).ring_bandwidth == 40
    assert assess(slower(dgx1_v100(), 0, 3, 10_000), [0, 3]).ring_bandwidth == 10


def test_a_ring_over_pcie_is_narrowed_as_its_slowest_way_is() -> None:
    plain, topology = l40s(), l40s()
    for one in range(8):
        for other in range(8):
            if one != other:
                way = Connections(plain).direct(one, other).bandwidth
                topology = slower(topology, one, other, round(way * 500))
    for gpus in ([0, 1], [0, 7], range(8)):
        assert assess(topology, gpus).ring_bandwidth == pytest.approx(assess(plain, gpus).ring_bandwidth / 2, rel=1e-3)


@given(st.integers(0, 7), st.integers(0, 7))
def test_a_choice_avoids_a_pair_that_was_measured_slower(one: int, other: int) -> None:
    if one == other:
        return
    found = select(slower(hgx_h100(), one, other, 50_000), Request(count=4))
    assert not isinstance(found, NoChoice)
    assert not {one, other} <= set(found.gpus)


def test_nodes_that_are_built_alike_are_so_with_figures_unless_one_is_slower() -> None:
    builds = Builds()
    plain = builds.of(hgx_h100())
    measured = replace(bent(hgx_h100(), 0, measured=(("GPU1", 371_000),)), measured_at=AT)
    assert builds.of(measured) is plain
    assert builds.of(slower(hgx_h100(), 0, 1, 50_000)) is not plain


def test_a_node_with_a_pair_that_was_measured_slower_is_degraded_and_no_gpu_ails() -> None:
    health = node_health(slower(hgx_h100(), 5, 2, 100_000))
    assert health.state is HealthState.DEGRADED
    assert (health.slower, health.findings, health.ailing) == (("GPU2-GPU5, 100.0 of 370.8 GB/s",), (), ())


def test_pcie_that_was_measured_slower_says_nothing_of_nvlink() -> None:
    health = node_health(slower(l40s(), 0, 1, 5_000))
    assert (health.state, health.slower) == (HealthState.ABSENT, ())
