"""200 pods a second in a cluster of many nodes: each is prepared, and the figures are reported, not judged."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.control_plane.control_plane import Binaries
from tests.control_plane.installation import registered
from tests.control_plane.load.measure import Plan, measure, report
from tests.control_plane.load.nodes import Cluster, running_cluster
from tests.control_plane.processes import NotRunningError
from tests.figures import ShowFigures

pytestmark = [pytest.mark.cluster, pytest.mark.long]

RATE = 200.0
PODS = int(os.environ.get("LOAD_PODS", "2000"))
PLAN = Plan(nodes=1000, rate=RATE, seconds=PODS / RATE, direct=True)
"""Without the stand-in for the Service, which takes more of two cores than what it leads to."""
FEW = replace(PLAN, seconds=0.1)


@pytest.fixture(scope="module")
def cluster(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("load")
    try:
        with running_cluster(binaries, directory, PLAN.nodes) as running:
            yield running
    except NotRunningError as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        shutil.rmtree(directory)


def test_every_pod_is_prepared_at_200_a_second(cluster: Cluster, show_figures: ShowFigures) -> None:
    with registered(cluster.ours, PLAN.registration(cluster.ours)):
        found = measure(PLAN, cluster)
    with show_figures():
        print(f"\nload: {PLAN.pods:,} pods in a cluster of {PLAN.nodes:,} nodes")
        report(found, cluster)
    assert found.faults == []
    assert found.waited.count >= PLAN.pods


def test_where_nobody_asks_us_no_pod_is_prepared(cluster: Cluster) -> None:
    found = measure(FEW, cluster)
    assert found.faults == ["the answer lacks gpu.topology/injected"] * 20 + [
        "0 of 20 pods are stored with what we add"
    ]
