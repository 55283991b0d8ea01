"""Cards and nodes that come and go while pods wait, with the real HAMi: the pods are on their way in seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane.hami.cluster import Cluster
from tests.control_plane.hami.placed import DENY, choice, given, placed_as, train
from tests.control_plane.hami.planning import Planner, placing
from tests.control_plane.hami.registering import without_cards
from tests.control_plane.hami.team import Team
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration"), pytest.mark.long]


@pytest.fixture
def planner(cluster: Cluster, tmp_path: Path, registration: None) -> Iterator[Planner]:  # noqa: ARG001 - comes first
    with placing(cluster.ours, tmp_path, settings={"pinSeconds": 600}) as planner:
        yield planner


def test_a_pod_that_waits_gets_cards_that_are_registered_newly(team: Team) -> None:
    with without_cards(team.admin, 1, 2, 3):
        team.creates(train(options=DENY))
        until(placed_as(team, "train", "NoFreeCards"), "a pod that waits for cards")
    bound = team.bound("train")
    assert given(bound) in ([0, 1], [2, 3])
    assert choice(bound)["attempt"] == 1
