"""What the cards of a pod moved, in the picture and in status."""

import pytest

from tests.cli.test_status import NARROW, WIDE, drawn
from tests.hardware.traffic.windows import MB, steady
from tests.insight.analyze.clusters import Cluster
from tests.insight.analyze.test_traffic import quiet
from tests.insight.overview.scenes import pod_of, seen

SECONDS = 300


@pytest.mark.parametrize(("rate", "expected"), [(3 * MB, 2 * 3 * MB * SECONDS), (0, 0), (None, None)])
def test_a_pod_has_what_its_cards_moved_together(rate: float | None, expected: int | None) -> None:
    pod = pod_of(seen(quiet(steady(nvlink=rate))), "quiet")
    assert (pod.nvlink_bytes, pod.pcie_bytes, pod.moved_seconds) == (expected, 2 * 100 * MB * SECONDS, SECONDS)


@pytest.mark.parametrize("cluster", [Cluster(), quiet(steady(), age=3600.0), quiet(())])
def test_where_no_agent_tells_it_nothing_is_known(cluster: Cluster) -> None:
    assert {(pod.nvlink_bytes, pod.pcie_bytes, pod.moved_seconds) for pod in seen(cluster).pods} == {(None, None, 0)}


def test_a_pod_that_shares_cards_is_not_counted() -> None:
    cluster = quiet(steady(nvlink=MB))
    limits = cluster.get("Pod", "quiet", "team-a")["spec"]["containers"][0]["resources"]["limits"]
    limits |= {"nvidia.com/gpumem": "1000", "nvidia.com/gpucores": "10"}
    limits.pop("nvidia.com/gpumem-percentage", None)
    assert pod_of(seen(cluster), "quiet").nvlink_bytes is None


def test_a_wide_terminal_has_a_column_for_it_and_a_narrow_one_has_not() -> None:
    cluster = quiet(steady(nvlink=3 * MB))
    assert "1.8 GB in 5 min" in drawn(cluster, WIDE)
    assert "OVER NVLINK" not in drawn(cluster, NARROW)
    assert "OVER NVLINK" not in drawn(Cluster(), WIDE)
