"""Pods of a group that are created only when the first is ready: cards are held for them, no more and no longer."""

import json
from itertools import chain
from typing import Any

import pytest
from msgspec.structs import replace

from tests.decisions.place.cluster import PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged, h20
from webhook.decisions.place.placed_annotation import (
    MOST_CARDS,
    MOST_CHARACTERS,
    CardsHeld,
    Later,
    Placed,
    fitted,
    format_placed,
    read_placed,
)

PLACED, PIN = "gpu.topology/placed", "nvidia.com/use-gpuuuid"
LABEL = {"gpu.topology/group": "ring"}
DENY = {"on-violation": "deny"}
FULL, RESERVE = 60, 600


def member(cluster: PlacedCluster, name: str, *, size: int = 3, cards: int = 2, denies: bool = False) -> None:
    """A pod of a StatefulSet, which the planner may not read."""
    options = {"group-size": str(size)} | (DENY if denies else {})
    cluster.create(name, cards, options=options, labels=LABEL, owner=cluster.stateful_set("ring"))


def begun(*nodes: str, size: int = 3, denies: bool = False) -> PlacedCluster:
    """A group of which one pod runs and the others are not there."""
    cluster = PlacedCluster(*(named(h20(), name) for name in nodes or ("a",)))
    member(cluster, "one", size=size, denies=denies)
    cluster.round()
    cluster.now += FULL
    cluster.round()
    cluster.schedule()
    cluster.round()
    return cluster


def later(cluster: PlacedCluster, name: str = "one") -> list[list[str]]:
    """The cards of the sets that stand on a pod."""
    placed = json.loads(cluster.pods[name]["metadata"]["annotations"][PLACED])
    return [held["cards"] for held in placed.get("later", {}).get("sets", [])]


def stranger(cluster: PlacedCluster, count: int, name: str = "stranger") -> bool:
    """Whether a pod of others gets so many cards now."""
    cluster.create(name, count, options=DENY)
    cluster.round()
    return len(cluster.pinned(name)) == count


@pytest.mark.slow
def test_others_get_what_is_not_held_and_no_more() -> None:
    assert stranger(begun(), 2)
    cluster = begun()
    assert not stranger(cluster, 3)
    assert cluster.why("stranger")[1].endswith("a has GPU6, GPU7; cards held for pods of groups that come later: 4")


def test_the_first_pod_says_what_is_held() -> None:
    cluster = begun()
    assert [len(cards) for cards in later(cluster)] == [2, 2]
    assert len({*cluster.pinned("one"), *chain(*later(cluster))}) == 6
    assert cluster.why("one")[1].startswith("GT638: node a: ")
    assert "4 for 2 pods" in cluster.why("one")[1]


def test_a_group_that_is_complete_holds_nothing_for_others() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    for name in ("one", "two", "three"):
        member(cluster, name)
    cluster.round()
    assert [later(cluster, name) for name in ("one", "two", "three")] == [[], [], []]
    for _ in range(4):
        cluster.schedule()
        cluster.round()
    assert stranger(cluster, 2)


def test_late_pods_get_what_is_held_one_after_the_other() -> None:
    cluster = begun()
    sets = later(cluster)
    member(cluster, "two")
    cluster.round()
    assert list(cluster.pinned("two")) in sets
    cluster.schedule()
    assert not stranger(cluster, 3)
    member(cluster, "three")
    cluster.round()
    assert sorted([list(cluster.pinned("two")), list(cluster.pinned("three"))]) == sorted(sets)


def test_nothing_is_held_any_more_when_all_pods_are_there() -> None:
    cluster = begun(size=2)
    member(cluster, "two", size=2)
    cluster.round()
    cluster.schedule()
    cluster.round()
    assert stranger(cluster, 4)


def test_a_late_pod_that_is_created_anew_gets_the_same_cards() -> None:
    cluster = begun(size=2)
    for _ in range(2):
        member(cluster, "two", size=2)
        cluster.round()
        assert [list(cluster.pinned("two"))] == later(cluster)
        cluster.schedule()
        cluster.delete("two")
        assert not stranger(cluster, 5)
        cluster.delete("stranger")


def test_cards_are_held_for_reserve_seconds() -> None:
    cluster = begun()
    cluster.now += RESERVE - 1
    assert not stranger(cluster, 6)
    cluster.now += 1
    cluster.round()
    assert len(cluster.pinned("stranger")) == 6


def test_what_was_held_for_long_enough_is_not_held_again() -> None:
    cluster = begun()
    cluster.now += RESERVE
    cluster.round()
    cluster.now += RESERVE
    cluster.round()
    assert stranger(cluster, 6)


def test_the_next_leader_knows_what_is_held() -> None:
    cluster = begun()
    cluster.restart()
    assert not stranger(cluster, 3)
    member(cluster, "two")
    cluster.round()
    assert list(cluster.pinned("two")) in later(cluster)


def test_cards_are_free_when_the_pod_that_names_them_is_gone() -> None:
    cluster = begun()
    assert not stranger(cluster, 8)
    cluster.delete("one")
    cluster.round()
    assert len(cluster.pinned("stranger")) == 8


def test_a_set_of_which_a_card_is_taken_is_held_no_more_and_the_others_are() -> None:
    cluster = begun()
    taken, held = later(cluster)
    cluster.create("slice", 1, gated=False)
    cluster.give("slice", "a", (taken[0],))
    assert stranger(cluster, 3)
    assert set(cluster.pinned("stranger")).isdisjoint(held)
    assert taken[1] in cluster.pinned("stranger")


def test_a_set_is_held_while_its_pod_waits_behind_the_gate_of_another_program() -> None:
    cluster = begun(size=2)
    gates = [{"name": "example.org/quota"}, {"name": "gpu.topology/place"}]
    options = {"gpu.topology/group-size": "2"}
    cluster.create("two", 2, gated=False, annotations=options, labels=LABEL, schedulingGates=gates)
    cluster.round()
    assert cluster.pinned("two") == ()
    assert not stranger(cluster, 5)


def test_a_late_pod_that_asks_for_more_gets_it_from_what_is_held() -> None:
    cluster = begun()
    member(cluster, "two", cards=6)
    cluster.round()
    assert len(cluster.pinned("two")) == 6


def test_a_choice_that_the_scheduler_refused_takes_what_is_held_along() -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"))
    member(cluster, "one", size=2)
    cluster.round()
    cluster.now += FULL
    cluster.round()
    sets = later(cluster)
    cluster.refuse("one")
    cluster.round()
    assert cluster.pods["one"]["metadata"]["annotations"][PLACED].count('"attempt":2') == 1
    assert later(cluster) == sets


def test_a_group_that_denies_waits_until_there_are_cards_for_all() -> None:
    cluster = begun(size=5, denies=True)
    assert cluster.pinned("one") == ()
    assert "the 5 pods of group ring need 10 free cards" in cluster.why("one")[1]
    cluster.add_node(named(h20(), "b"))
    cluster.round()
    assert len(cluster.pinned("one")) == 2
    assert len(later(cluster)) == 4


def test_a_group_that_warns_goes_on_and_holds_nothing_where_there_are_too_few() -> None:
    cluster = begun(size=5)
    assert len(cluster.pinned("one")) == 2
    assert later(cluster) == []
    assert stranger(cluster, 6)


def test_a_group_of_thousands_holds_as_many_cards_as_one_annotation_names() -> None:
    cluster = begun(*(f"n{number:02}" for number in range(40)), size=9999)
    assert sum(map(len, later(cluster))) == MOST_CARDS
    cluster.world.refresh()
    free = sum(len(stock.free) * len(names) for stock, names in cluster.world.stocks.items())
    assert free == 40 * 8 - 2 - MOST_CARDS


@pytest.mark.parametrize("width", [3, 63, 253])
def test_as_much_is_held_as_can_be_read_again(width: int) -> None:
    cluster = begun(*(f"n{number:02}".ljust(width, "x") for number in range(40)), size=9999)
    annotations = cluster.pods["one"]["metadata"]["annotations"]
    assert read_placed(annotations)
    sets = json.loads(annotations[PLACED])["later"]["sets"]
    room = MOST_CHARACTERS - len(annotations[PLACED])
    assert 2 * len(sets) == MOST_CARDS or 0 <= room <= len(json.dumps(sets[0]))


def test_nodes_that_refused_take_the_room_of_sets_that_are_held() -> None:
    sets = tuple(CardsHeld("a", (f"GPU-{number}",)) for number in range(MOST_CARDS))
    placed = Placed("a", ("GPU-a.0",), "", 0, 1, 1, "", later=Later(9999, sets))
    assert fitted(placed) == placed
    late = fitted(replace(placed, refused=tuple(str(number).rjust(253, "n") for number in range(100))))
    assert read_placed({PLACED: format_placed(late)}) == late
    assert late.later
    assert late.later.sets == sets[: len(late.later.sets)]
    none = fitted(replace(placed, refused=tuple(str(number).rjust(253, "n") for number in range(200))))
    assert none.later is None


def forged(**members: Any) -> dict[str, str]:
    """What a user wrote onto a pod."""
    placed = {"node": "a", "cards": ["GPU-a.0"], "link": "", "bandwidth": 0, "share": 1, "attempt": 1, "at": ""}
    sets = [{"node": "a", "cards": [f"GPU-a.{number}"]} for number in range(1, 8)]
    return {PIN: "GPU-a.0", PLACED: json.dumps(placed | {"later": {"size": 8, "sets": sets}} | members)}


@pytest.mark.parametrize(
    ("labels", "is_free"),
    [
        (LABEL | {"gpu.topology/placement": "pinned"}, False),
        (LABEL, True),
        (LABEL | {"gpu.topology/placement": "released"}, True),
        ({"gpu.topology/placement": "pinned"}, True),
    ],
)
def test_only_a_pod_of_a_group_that_the_planner_pinned_holds_cards_for_others(
    labels: dict[str, str], is_free: bool
) -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    cluster.create("forger", 1, gated=False, labels=labels, annotations=forged())
    cluster.give("forger", "a", ("GPU-a.0",))
    assert stranger(cluster, 7) is is_free


@pytest.mark.parametrize(
    "later",
    [
        {"size": 8, "sets": [{"node": "a", "cards": []}]},
        {"size": 8, "sets": [{"node": "a", "cards": ["GPU-a.1"]}] * (MOST_CARDS + 1)},
        {"size": 8, "sets": [{"node": "a", "cards": ["GPU-a.1"] * (MOST_CARDS + 1)}]},
        {"size": 8, "sets": [{"node": "a", "cards": ["GPU-a.1"], "amounts": {"cpu": -1}}]},
        {"size": 8, "sets": [{"node": "a", "cards": ["GPU-a.1"], "amounts": {"cpu": "1"}}]},
        {"size": 8},
        {"sets": []},
        {"size": "8", "sets": []},
        [],
    ],
)
def test_what_no_planner_can_have_held_is_not_read(later: Any) -> None:
    assert read_placed(forged()) is not None
    assert read_placed(forged(later=later)) is None


@pytest.mark.parametrize(
    "later",
    [
        {"size": 1, "sets": [{"node": "a", "cards": ["GPU-a.1"]}]},
        {"size": -1, "sets": [{"node": "a", "cards": ["GPU-a.1"]}]},
        {"size": 8, "sets": [{"node": "b", "cards": ["GPU-a.1"]}]},
        {"size": 8, "sets": [{"node": "nowhere", "cards": ["GPU-nowhere"]}]},
    ],
)
def test_what_cannot_be_held_is_free(later: Any) -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(a100_pcie_bridged(), "b"))
    labels = LABEL | {"gpu.topology/placement": "pinned"}
    cluster.create("forger", 1, gated=False, labels=labels, annotations=forged(later=later))
    cluster.give("forger", "a", ("GPU-a.0",))
    assert stranger(cluster, 7)
    assert "nowhere" not in cluster.world.nodes
