"""Placement with the real HAMi: the pod gets the cards that its links deserve, and without the planner it does not."""

import pytest

from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.placed import DENY, given, placed_as, slice_of, train
from tests.control_plane.hami.team import annotations_of, cards_of
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration")]


@pytest.mark.usefixtures("planner")
def test_the_pod_gets_the_pair_that_is_free(new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    team.creates(slice_of(3))
    team.bound("slice-3")
    created = team.creates(train())
    assert [gate["name"] for gate in created["spec"]["schedulingGates"]] == ["gpu.topology/place"]
    bound = team.bound("train")
    assert given(bound) == [0, 1]
    assert annotations_of(bound)["gpu.topology/link"] == "NVLink"
    assert bound["metadata"]["labels"]["gpu.topology/placement"] == "pinned"


def test_without_a_planner_no_pod_waits_and_hami_splits_the_pair(new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    team.creates(slice_of(3))
    team.bound("slice-3")
    created = team.creates(train())
    assert "schedulingGates" not in created["spec"]
    bound = team.bound("train")
    assert given(bound) == [1, 2]
    assert annotations_of(bound)["gpu.topology/link"] == "SYS"


@pytest.mark.usefixtures("planner")
def test_a_pod_that_denies_waits_without_cards_and_gets_its_pair_when_it_is_free(new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    for card in (1, 3):
        team.creates(slice_of(card))
        team.bound(f"slice-{card}")
    team.creates(train(options=DENY))
    until(placed_as(team, "train", "RequirementNotMet"), "a pod that waits for a pair")
    stored = team.pod("train")
    assert stored["spec"]["schedulingGates"]
    assert cards_of(stored) == []
    assert "no 2 free cards with NVLink between every pair: a100-bridged has GPU0, GPU2" in team.told("train", "GT622")
    team.creates(train("other", options={"place": "off"}))
    assert given(team.bound("other")) == [0, 2]
    team.deletes("slice-1")
    team.deletes("other")
    assert given(team.bound("train")) == [0, 1]


@pytest.mark.usefixtures("planner")
def test_a_pod_that_warns_goes_on_where_no_node_has_enough(new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    team.creates(slice_of(1))
    team.bound("slice-1")
    team.creates(train(gpus=4))
    until(placed_as(team, "train", "Released"), "a pod that is let go")
    stored = team.pod("train")
    assert not stored["spec"].get("schedulingGates")
    assert "nvidia.com/use-gpuuuid" not in annotations_of(stored)
    team.deletes("slice-1")
    assert given(team.bound("train")) == [0, 1, 2, 3]
