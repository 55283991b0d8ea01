"""Planners and the API server die and come back, with the real HAMi: pods wait at most, and no card is given twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane.hami.cluster import Cluster
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.placed import (
    given,
    is_gated,
    pinned,
    placed_as,
    splits_both_pairs,
    train,
    waits_for_a_pair,
)
from tests.control_plane.hami.planning import Planner, holds_pods_back, lets_pods_go, running_planner
from tests.control_plane.hami.team import Team
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration"), pytest.mark.long]

PATIENT = {"pinSeconds": 60}


@pytest.fixture
def planners(cluster: Cluster, tmp_path: Path, registration: None) -> Iterator[tuple[Planner, Planner]]:  # noqa: ARG001 - comes first
    """Two replicas, the first of which leads."""
    ours = cluster.ours
    with running_planner(ours, tmp_path, "first", settings=PATIENT) as first:
        first.program.wait_until(first.leads)
        until(lambda: holds_pods_back(ours), "pods that wait for the planner")
        with running_planner(ours, tmp_path, "second", settings=PATIENT) as second:
            yield first, second
    until(lambda: lets_pods_go(ours), "pods that wait for no planner")


@pytest.fixture
def team(planners: tuple[Planner, Planner], new_team: NewTeam) -> Team:  # noqa: ARG001 - stay until its pods are gone
    return new_team(injection="enabled")


def test_a_pod_that_waits_gets_its_cards_from_the_next_leader(planners: tuple[Planner, Planner], team: Team) -> None:
    first, second = planners
    splits_both_pairs(team)
    waits_for_a_pair(team, "train")
    first.kill()
    team.deletes("slice-1")
    assert given(team.bound("train")) == [0, 1]
    assert second.leads()


# What opens these gates is the webhook, and no release of HAMi has a part in it.
@pytest.mark.parametrize("release", ["2.10.0"], indirect=True)
def test_without_any_planner_pods_that_warn_go_on_and_those_that_deny_wait(
    cluster: Cluster, planners: tuple[Planner, Planner], team: Team, tmp_path: Path
) -> None:
    splits_both_pairs(team)
    waits_for_a_pair(team, "denies")
    team.creates(train("warns", options={"place-wait": "1h"}))
    until(placed_as(team, "warns", "BetterLater"), "a pod that waits for better cards")
    for planner in planners:
        planner.kill()
    assert given(team.bound("warns")) == [0, 2]
    team.told("warns", "GT680")
    until(lambda: lets_pods_go(cluster.ours), "pods that wait for no planner")
    assert not is_gated(team.creates(train("later")))
    for name in ("warns", "later", "slice-1"):
        team.deletes(name)
    assert is_gated(team.pod("denies"))
    assert pinned(team.pod("denies")) == []
    with running_planner(cluster.ours, tmp_path, "third"):
        assert given(team.bound("denies")) == [0, 1]
