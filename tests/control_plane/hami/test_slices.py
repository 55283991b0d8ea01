"""Slices and single cards of pods that are not injected: the planner chooses among parts of cards, and HAMi follows."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.control_plane.hami.cluster import BRIDGED, topologies
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.placed import given, has_label, is_gated, label, own_list, pinned, placed_as, train
from tests.control_plane.hami.planning import Planner
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.registering import each_card_with
from tests.control_plane.hami.team import Team, annotations_of
from tests.programs.server.conftest import until

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


def test_several_slices_get_the_pair_that_has_room(team: Team) -> None:
    has(team, "full", 1, gpumem_percentage=90)
    has(team, "some", 2, gpumem_percentage=10)
    team.creates(part_of("slices", 2, gpumem_percentage=30))
    assert given(team.bound("slices")) == [2, 3]


def test_a_card_takes_no_more_containers_than_hami_divides_it_into(team: Team) -> None:
    with each_card_with(team.admin, count=2):
        has(team, "one", 2, gpumem=1000)
        has(team, "two", 2, gpumem=1000)
        team.creates(part_of("slice", gpumem=1000))
        assert given(team.bound("slice")) == [3]


def test_memory_that_hami_lends_twice_is_counted_as_it_says(team: Team) -> None:
    """With ``deviceMemoryScaling`` the plugin registers more memory than the card has."""
    with each_card_with(team.admin, devmem=2 * MEMORY_MIB):
        has(team, "seen", 0, gpumem=2 * MEMORY_MIB - 1000)  # HAMi has read the register
        has(team, "other", 2, gpumem=MEMORY_MIB - 1000)
        team.creates(part_of("slice", gpumem=MEMORY_MIB - 1000))
        assert given(team.bound("slice")) == [2]


def test_memory_that_no_plugin_lends_twice_sends_the_same_slice_to_the_partner(team: Team) -> None:
    has(team, "other", 2, gpumem=MEMORY_MIB - 1000)
    team.creates(part_of("slice", gpumem=MEMORY_MIB - 1000))
    assert given(team.bound("slice")) == [3]


@pytest.mark.parametrize("policy", ["topology-aware", "binpack"])
def test_hamis_policy_of_cards_chooses_no_others(team: Team, policy: str) -> None:
    has(team, "other", 0, gpumem=1000)
    body = part_of("slices", 2, gpumem=1000)
    body["metadata"]["annotations"]["hami.io/gpu-scheduler-policy"] = policy
    assert is_gated(team.creates(body))
    bound = team.bound("slices")
    assert (given(bound), pinned(bound)) == ([0, 1], [0, 1])


def test_slices_of_many_pods_leave_a_pair_for_whole_cards(team: Team) -> None:
    for number in range(4):
        team.creates(part_of(f"slice-{number}", gpumem_percentage=45))
    cards = [given(team.bound(f"slice-{number}")) for number in range(4)]
    taken = {card for each in cards for card in each}
    assert taken in ({0, 1}, {2, 3})
    team.creates(train("whole"))
    assert given(team.bound("whole")) == sorted({0, 1, 2, 3} - taken)


def test_a_single_card_breaks_no_pair(team: Team) -> None:
    has(team, "other", 2, gpumem=1000)
    assert is_gated(team.creates(part_of("single")))
    assert given(team.bound("single")) == [3]


def test_without_room_the_pod_says_so_and_gets_the_first_that_is_given_back(team: Team) -> None:
    for card in range(4):
        has(team, f"other-{card}", card, gpumem_percentage=60)
    team.creates(part_of("slice", gpumem_percentage=50))
    until(placed_as(team, "slice", "NoFreeCards"), "a slice that waits for room")
    condition = [each for each in team.pod("slice")["status"]["conditions"] if each["type"] == "gpu.topology/Placed"]
    assert condition[0]["message"].startswith("GT658: no node has room for the pod on 1 cards: ")
    team.deletes("other-2")
    assert given(team.bound("slice")) == [2]


def test_a_quota_is_hamis_and_a_pod_beyond_it_goes_to_the_scheduler(planner: Planner, new_team: NewTeam) -> None:
    assert planner.leads()
    team = new_team(injection="enabled", quota="slices")
    team.changed = True
    hard = {"limits.nvidia.com/gpumem": "3000"}
    quota: Any = {"metadata": {"name": "memory"}, "spec": {"hard": hard}}
    team.admin.create_namespaced_resource_quota(team.namespace, quota)
    more = part_of("more", gpumem=4000)
    until(lambda: team.asks_for(more, dry_run=True).status == 403, "HAMi's knowledge of the quota")
    team.creates(part_of("within", gpumem=2000))
    assert len(given(team.bound("within"))) == 1
    team.creates(part_of("beyond", gpumem_percentage=10))  # HAMi's webhook does not count percentages
    until(has_label(team, "beyond", "released"), "a pod that HAMi's quota refuses")
    assert pinned(team.pod("beyond")) == []
