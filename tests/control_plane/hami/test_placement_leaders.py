"""Planners and the API server die and come back, with the real HAMi: pods wait at most, and no card is given twice."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane.hami.cluster import Cluster
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.placed import (
    DENY,
    choice,
    given,
    has_label,
    is_gated,
    pinned,
    placed_as,
    splits_both_pairs,
    train,
    waits_for_a_pair,
)
from tests.control_plane.hami.planning import Planner, holds_pods_back, lets_pods_go, placing, running_planner
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, cards_of
from tests.control_plane.installation import PLACEMENT
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration"), pytest.mark.long]

AWAY_S = 30.0
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


def test_the_next_leader_keeps_to_what_the_first_chose(
    cluster: Cluster, planners: tuple[Planner, Planner], team: Team
) -> None:
    first, second = planners
    with cluster.hami.scheduling.away():
        team.creates(train())
        until(has_label(team, "train", "pinned"), "a pin")
        chosen = pinned(team.pod("train"))
        first.kill()
        team.creates(train("other", options=DENY))
        second.program.wait_until(second.leads)
    both = [team.bound("train"), team.bound("other")]
    assert [given(each) for each in both] == [chosen, [card for card in range(4) if card not in chosen]]
    assert [choice(each)["attempt"] for each in both] == [1, 1]


def test_a_leader_that_stood_still_gives_no_card_twice(planners: tuple[Planner, Planner], team: Team) -> None:
    first, second = planners
    names = [f"pod-{number}" for number in range(6)]
    written = iter([pod(name, container(gpus=2), annotations=DENY) for name in names])

    def create(count: int) -> None:
        for _ in range(count):
            assert is_gated(team.creates(next(written)))

    create(2)
    for name in names[:2]:
        team.told(name, "GT620")
    with first.program.paused():
        create(1)
        second.program.wait_until(second.leads)
        create(1)
    create(2)
    bound = [team.bound(name) for name in names]
    cards = [card for each in bound for container_cards in cards_of(each) for card in container_cards]
    assert len(cards) == len(set(cards)) == 12
    assert [choice(each)["attempt"] for each in bound] == [1] * 6
    until(lambda: not first.leads(), "a planner that knows that it does not lead")
    assert [sum("GT620" in event for event in team.events(name)) for name in names] == [1] * 6


def test_all_goes_on_when_the_api_server_was_away(
    cluster: Cluster, planners: tuple[Planner, Planner], team: Team
) -> None:
    splits_both_pairs(team)
    waits_for_a_pair(team, "train")
    with cluster.api_server.paused():
        time.sleep(AWAY_S)
    team.deletes("slice-1")
    assert given(team.bound("train")) == [0, 1]
    until(lambda: sum(planner.leads() for planner in planners) == 1, "one leader")
    until(lambda: holds_pods_back(cluster.ours), "pods that wait for the planner")
    team.creates(train("next", options=DENY))
    team.deletes("slice-3")
    assert given(team.bound("next")) == [2, 3]
    for planner in planners:
        assert "Traceback" not in planner.program.log.read_text(encoding="utf-8")


def test_pods_keep_their_cards_while_hami_is_away(cluster: Cluster, new_team: NewTeam, tmp_path: Path) -> None:
    with placing(cluster.ours, tmp_path):
        team = new_team(injection="enabled")
        with cluster.hami.extender.paused():
            created = team.creates(train(schedulerName="hami-scheduler"))  # HAMi's webhook does not answer
            assert is_gated(created)
            until(has_label(team, "train", "pinned"), "a pin")
            chosen = pinned(team.pod("train"))
            until(lambda: "SchedulerError" in str(team.pod("train")["status"]), "a scheduler that hears nothing")
            time.sleep(2 * PLACEMENT["pinSeconds"])
        bound = team.bound("train")
        assert (given(bound), choice(bound)["attempt"]) == (chosen, 1)
        team.ends()


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
