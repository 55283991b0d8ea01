"""What the cards of a pod moved, in the picture and in status."""

from dataclasses import replace

import pytest

from tests.cli.test_status import NARROW, WIDE, drawn
from tests.hardware.topology.machines import h20
from tests.hardware.traffic.windows import MB, steady
from tests.insight.analyze.clusters import Cluster
from tests.insight.analyze.test_traffic import quiet
from tests.insight.overview.scenes import pod_of, seen
from webhook.hardware.topology.model import NVSWITCH, MigMode, NvLink
from webhook.hardware.traffic.model import PodTraffic, share_text
from webhook.insight.overview.pods import nvlink_use

SECONDS = 300


@pytest.mark.parametrize(("rate", "expected"), [(3 * MB, 2 * 3 * MB * SECONDS), (0, 0), (None, None)])
def test_a_pod_has_what_its_cards_moved_together(rate: float | None, expected: int | None) -> None:
    pod = pod_of(seen(quiet(steady(nvlink=rate))), "quiet")
    assert (pod.nvlink_bytes, pod.pcie_bytes, pod.moved_seconds) == (expected, 2 * 100 * MB * SECONDS, SECONDS)


@pytest.mark.parametrize("cluster", [Cluster(), quiet(steady(), age=3600.0), quiet(())])
def test_where_no_agent_tells_it_nothing_is_known(cluster: Cluster) -> None:
    assert {(pod.nvlink_bytes, pod.pcie_bytes, pod.moved_seconds) for pod in seen(cluster).pods} == {(None, None, 0)}


def test_the_use_is_the_share_of_what_the_links_carry_in_both_directions() -> None:
    """Two H20 with 18 links: 370.8 GB/s each in each direction."""
    half = pod_of(seen(quiet(steady(nvlink=370.8e9))), "quiet")
    assert half.nvlink_use == pytest.approx(0.5)
    assert pod_of(seen(quiet(steady(nvlink=0))), "quiet").nvlink_use == 0
    assert pod_of(seen(quiet(steady(nvlink=None))), "quiet").nvlink_use is None
    assert {pod.nvlink_use for pod in seen(quiet(steady(), age=3600.0)).pods} == {None}


def test_where_a_card_has_no_working_link_or_none_is_known_there_is_no_use() -> None:
    moved = PodTraffic(seconds=60, nvlink=60 * 10**9, pcie=0, utilization=None)
    one, other = h20().gpus[:2]
    down = replace(other, nvlinks=(NvLink(target=NVSWITCH, count=18, active=0),))
    assert nvlink_use(moved, (one,)) == pytest.approx(1 / 2 / 370.8)
    assert nvlink_use(moved, (one, other)) == pytest.approx(1 / 4 / 370.8)
    for unknown in (down, replace(other, links_problem="?"), replace(other, mig_mode=MigMode.ENABLED)):
        assert nvlink_use(moved, (one, unknown)) is None
    assert nvlink_use(moved, ()) is None
    assert nvlink_use(replace(moved, nvlink=None), (one,)) is None


def test_a_pod_that_shares_cards_is_not_counted() -> None:
    cluster = quiet(steady(nvlink=MB))
    limits = cluster.get("Pod", "quiet", "team-a")["spec"]["containers"][0]["resources"]["limits"]
    limits |= {"nvidia.com/gpumem": "1000", "nvidia.com/gpucores": "10"}
    limits.pop("nvidia.com/gpumem-percentage", None)
    assert pod_of(seen(cluster), "quiet").nvlink_bytes is None


def test_a_wide_terminal_has_a_column_for_it_and_a_narrow_one_has_not() -> None:
    cluster = quiet(steady(nvlink=3 * MB))
    assert "1.8 GB in 5 min, <0.1%" in drawn(cluster, WIDE)
    assert "222 TB in 5 min, 50%" in drawn(quiet(steady(nvlink=370.8e9)), WIDE)
    assert "1.8 GB in 5 min " in drawn(cluster, 110)
    assert "%" not in drawn(cluster, 110)
    assert "OVER NVLINK" not in drawn(cluster, NARROW)
    assert "OVER NVLINK" not in drawn(Cluster(), WIDE)


def test_shares_have_as_many_digits_as_say_something() -> None:
    shares = (0, 1e-9, 0.00099, 0.001, 0.0249, 0.0994, 0.0996, 0.5, 1.02)
    assert [share_text(share) for share in shares] == [
        *("0%", "<0.1%", "<0.1%", "0.1%", "2.5%", "9.9%", "10%", "50%", "102%")
    ]
