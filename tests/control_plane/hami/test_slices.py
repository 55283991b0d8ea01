"""Slices and single cards of pods that are not injected: the planner chooses among parts of cards, and HAMi follows."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.control_plane.hami.cluster import BRIDGED, topologies
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.placed import given, is_gated, label, own_list, pinned
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, annotations_of

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration")]

MEMORY_MIB = topologies()[1].gpus[0].memory_mib


def part_of(name: str, count: int = 1, *cards: int, **limits: int) -> dict[str, Any]:
    """A pod with parts of so many cards of the bridged node; of these cards, if the user names some."""
    asked: Mapping[str, int] = {"gpu": count, **{key.replace("_", "-"): value for key, value in limits.items()}}
    resources = {"limits": {f"nvidia.com/{key}": str(value) for key, value in asked.items()}}
    return pod(name, container(resources=resources), node=BRIDGED, annotations=own_list(*cards) if cards else None)


def has(team: Team, name: str, *cards: int, **limits: int) -> None:
    """A pod with parts of these cards, which it names itself."""
    team.creates(part_of(name, len(cards), *cards, **limits))
    assert given(team.bound(name)) == list(cards)


def test_without_the_planner_hami_spreads_slices(new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    has(team, "other", 2, gpumem=1000)
    assert not is_gated(team.creates(part_of("slice", gpumem=1000)))
    assert given(team.bound("slice")) != [2]


@pytest.mark.parametrize("limits", [{"gpumem": 1000}, {"gpucores": 20, "gpumem": 500}, {"gpumem_percentage": 10}])
def test_a_slice_goes_to_a_card_that_is_shared_already(team: Team, limits: dict[str, int]) -> None:
    has(team, "other", 2, gpumem=1000)
    assert is_gated(team.creates(part_of("slice", **limits)))
    bound = team.bound("slice")
    assert (given(bound), pinned(bound), label(bound)) == ([2], [2], "pinned")
    assert "gpu.topology/injected" not in annotations_of(bound)
    assert "CUDA_DISABLE_CONTROL" not in str(bound["spec"]["containers"])


@pytest.mark.parametrize(
    ("used", "asked"),
    [
        ({"gpumem_percentage": 60}, {"gpumem_percentage": 50}),
        ({"gpucores": 60, "gpumem": 500}, {"gpucores": 50, "gpumem": 500}),
    ],
    ids=["memory", "cores"],
)
def test_where_a_shared_card_has_no_room_its_partner_is_taken(
    team: Team, used: dict[str, int], asked: dict[str, int]
) -> None:
    has(team, "other", 2, **used)
    team.creates(part_of("slice", **asked))
    assert given(team.bound("slice")) == [3]


@pytest.mark.long
@pytest.mark.parametrize("policy", ["topology-aware", "binpack"])
def test_hamis_policy_of_cards_chooses_no_others(team: Team, policy: str) -> None:
    has(team, "other", 0, gpumem=1000)
    body = part_of("slices", 2, gpumem=1000)
    body["metadata"]["annotations"]["hami.io/gpu-scheduler-policy"] = policy
    assert is_gated(team.creates(body))
    bound = team.bound("slices")
    assert (given(bound), pinned(bound)) == ([0, 1], [0, 1])


def test_a_single_card_breaks_no_pair(team: Team) -> None:
    has(team, "other", 2, gpumem=1000)
    assert is_gated(team.creates(part_of("single")))
    assert given(team.bound("single")) == [3]
