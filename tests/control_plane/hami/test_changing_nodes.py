"""Cards and nodes that come and go while pods wait, with the real HAMi: the pods are on their way in seconds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from tests.control_plane.hami.cluster import BRIDGED, Cluster
from tests.control_plane.hami.placed import DENY, choice, given, is_refused, placed_as, train
from tests.control_plane.hami.planning import Planner, placing
from tests.control_plane.hami.registering import without_cards
from tests.control_plane.hami.team import Team
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration"), pytest.mark.long]


@pytest.fixture
def planner(cluster: Cluster, tmp_path: Path, registration: None) -> Iterator[Planner]:  # noqa: ARG001 - comes first
    with placing(cluster.ours, tmp_path, settings={"pinSeconds": 600}) as planner:
        yield planner


@contextmanager
def cordoned(admin: CoreV1Api, node: str) -> Iterator[None]:
    """As ``kubectl cordon`` and ``uncordon`` do."""
    body: Any = {"spec": {"unschedulable": True}}
    admin.patch_node(node, body)
    try:
        yield
    finally:
        body = {"spec": {"unschedulable": False}}
        admin.patch_node(node, body)


def test_a_pinned_pod_gets_other_cards_while_the_scheduler_is_away(cluster: Cluster, team: Team) -> None:
    """It is the planner that sees the loss, and no word of the scheduler."""
    with cluster.hami.scheduling.away():
        team.creates(train())
        until(placed_as(team, "train", "Pinned"), "a pin")
        lost = choice(team.pod("train"))["cards"]
        index = 0 if lost[0].endswith("0") else 2
        with without_cards(team.admin, index):
            until(lambda: choice(team.pod("train"))["cards"] != lost, "a pin to other cards")
            assert choice(team.pod("train"))["attempt"] == 2
    assert given(team.bound("train")) == [card for card in range(4) if card // 2 != index // 2]


def test_a_pod_whose_only_node_is_cordoned_for_a_while_runs_when_it_returns(team: Team, cluster: Cluster) -> None:
    with cluster.hami.scheduling.away():
        team.creates(train(options=DENY))
        until(placed_as(team, "train", "Pinned"), "a pin")
        with cordoned(team.admin, BRIDGED):
            until(placed_as(team, "train", "CardsLost"), "a pod that lost its node")
            cluster.hami.scheduling.start()
            until(lambda: is_refused(team.pod("train")), "a refusal")
        assert given(team.bound("train")) in ([0, 1], [2, 3])
        cluster.hami.scheduling.stop()


def test_a_pod_that_waits_gets_cards_that_are_registered_newly(team: Team) -> None:
    with without_cards(team.admin, 1, 2, 3):
        team.creates(train(options=DENY))
        until(placed_as(team, "train", "NoFreeCards"), "a pod that waits for cards")
    bound = team.bound("train")
    assert given(bound) in ([0, 1], [2, 3])
    assert choice(bound)["attempt"] == 1
