"""Which pods are moved, where they go, and what comes back; each rule with its opposite."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.defrag.moves import Running, filled, said
from tests.hardware.topology.machines import a100_pcie_bridged, dgx1_v100, h20, l40s
from webhook.decisions.defrag.budgets import Budgets
from webhook.decisions.defrag.movable import Stays
from webhook.decisions.defrag.plan import LinkedSets

PAIRS = a100_pcie_bridged()
"""Four cards, of which 0-1 and 2-3 are bridged."""


def split(**changes: Any) -> Running:
    """A node whose two pairs are each broken by a pod of one card."""
    cluster = Running({"a": PAIRS})
    cluster.run("first", "a", (0,), **changes)
    cluster.run("second", "a", (2,), **changes)
    return cluster


def test_a_single_card_goes_to_the_pair_that_is_broken_already() -> None:
    plan = split(owner="StatefulSet").plan()
    assert said(plan) == ["first: a:0 -> a:3"]
    assert (plan.before, plan.after) == (LinkedSets(0, 0, 0), LinkedSets(1, 0, 0))
    assert plan.moves[0].back == LinkedSets(1, 0, 0)


def test_the_pod_is_moved_whose_successor_goes_to_the_right_card() -> None:
    # While a pod of a Deployment still has its card, the planner takes card 1 of the cards 1 and 3, as of equal ones.
    assert said(split(owner="ReplicaSet").plan()) == ["second: a:2 -> a:1"]


def test_nothing_is_moved_where_nothing_comes_back() -> None:
    cluster = Running({"a": PAIRS, "b": PAIRS})
    cluster.run("first", "a", (0,))
    cluster.run("second", "b", (0, 1))
    assert said(cluster.plan()) == []
    cluster = Running({"a": l40s()})
    cluster.run("first", "a", (0,))
    cluster.run("second", "a", (5,))
    assert said(cluster.plan()) == []


def test_a_pair_goes_to_another_node_so_that_a_board_comes_back() -> None:
    cluster = Running({"a": h20(), "b": h20()})
    cluster.run("pair", "a", (0, 1))
    cluster.run("six", "b", (0, 1, 2, 3, 4, 5))
    plan = cluster.plan()
    assert said(plan) == ["pair: a:0,1 -> b:6,7"]
    assert plan.moves[0].back == LinkedSets(0, 1, 1)


def test_two_pods_are_moved_where_one_alone_gives_nothing_back() -> None:
    cluster = Running({"a": h20(), "b": h20(), "c": h20()})
    for card in (0, 1):
        cluster.run(f"single-{card}", "a", (card,))
    for node in "bc":
        cluster.run(f"seven-on-{node}", node, range(7), options={"move": "false"})
    plan = cluster.plan()
    assert said(plan) == ["single-0: a:0 -> b:7", "single-1: a:1 -> c:7"]
    assert [move.back for move in plan.moves] == [LinkedSets(0, 0, 0), LinkedSets(1, 1, 1)]
    assert said(cluster.plan(evictions=1)) == []


def test_a_pod_never_gets_worse_cards() -> None:
    cluster = Running({"a": dgx1_v100(), "slow": l40s()})
    cluster.run("pair", "a", (0, 3))
    assert said(cluster.plan()) == []


@pytest.mark.parametrize(
    ("owner", "moves"),
    [
        # The new pod of a StatefulSet comes when the old one is gone, and may have its cards.
        ("StatefulSet", ["train: a:0,2 -> a:0,1"]),
        # The new pod of a Deployment comes first, and card 0 is not free yet.
        ("ReplicaSet", []),
    ],
)
def test_the_new_pod_gets_only_cards_that_are_free_when_it_comes(owner: str, moves: list[str]) -> None:
    cluster = Running({"a": PAIRS})
    cluster.run("train", "a", (0, 2), owner=owner)
    assert said(cluster.plan()) == moves


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"owner": ""}, Stays.NO_CONTROLLER),
        ({"owner": "Job"}, Stays.LOSES_WORK),
        ({"owner": "DaemonSet"}, Stays.NOT_CHOSEN),
        ({"placement": ""}, Stays.NOT_PLACED),
        ({"placement": "released"}, Stays.NOT_PLACED),
        ({"phase": "Pending"}, Stays.NOT_RUNNING),
        ({"options": {"move": "false"}}, Stays.SWITCHED_OFF),
        ({"options": {"on-violation": "deny"}}, Stays.DENIES),
        ({"labels": {"gpu.topology/group": "ring"}}, Stays.GROUP),
        ({"options": {"group-size": "2", "group": "ring"}}, Stays.GROUP),
        ({"priority": 1}, Stays.PRIORITY),
        ({"created": "2026-11-22T23:55:00Z"}, Stays.YOUNG),
        ({"created": ""}, Stays.YOUNG),
        ({"options": {"place": "off"}}, Stays.NOT_CHOSEN),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else value.name.lower(),
)
def test_a_pod_that_may_not_be_moved_stays(changes: dict[str, Any], reason: Stays) -> None:
    plan = split(**changes).plan()
    assert said(plan) == []
    assert dict(plan.staying) == {reason: 2}


@pytest.mark.parametrize(
    ("changes", "limits"),
    [
        ({"owner": "StatefulSet"}, {}),
        ({"owner": "Job", "options": {"move": "true"}}, {}),
        ({"options": {"on-violation": "warn", "move": "true"}}, {}),
        ({"priority": 1}, {"priority": 1}),
        ({"created": "2026-11-22T23:55:00Z"}, {"age": 5}),
    ],
)
def test_and_one_that_may_is_moved(changes: dict[str, Any], limits: dict[str, Any]) -> None:
    assert len(split(**changes).plan(**limits).moves) == 1


def test_a_pod_with_slices_stays_and_so_does_one_that_is_being_deleted() -> None:
    cluster = split()
    first, second = (cluster.cluster.pods[name] for name in ("first", "second"))
    first["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpucores"] = "30"
    second["metadata"]["deletionTimestamp"] = "2026-11-22T23:00:00Z"
    for name in ("first", "second"):
        cluster.cluster.tell(name)
    assert dict(cluster.plan().staying) == {Stays.NOT_CHOSEN: 1, Stays.NOT_RUNNING: 1}


def budget(allowed: int, *pods: str) -> Budgets:
    return Budgets({"team/budget": allowed}, {f"team/{pod}": ["team/budget"] for pod in pods})


def two_nodes() -> Running:
    """Two nodes as ``split`` has one, so that two moves are worth it."""
    cluster = Running({"a": PAIRS, "b": PAIRS})
    for node in "ab":
        for card in (0, 2):
            cluster.run(f"{node}-{card}", node, (card,))
    return cluster


@pytest.mark.parametrize(
    ("budgets", "moves"),
    [
        (Budgets(), 2),
        (budget(2, "a-0", "a-2", "b-0", "b-2"), 2),
        (budget(1, "a-0", "a-2", "b-0", "b-2"), 1),
        (budget(0, "a-0", "a-2", "b-0", "b-2"), 0),
        (budget(0, "a-0", "b-0"), 2),
        (
            Budgets(
                {"team/x": 9, "team/y": 9},
                {f"team/{node}-{card}": ["team/x", "team/y"] for node in "ab" for card in "02"},
            ),
            0,
        ),
        (Budgets(unknown={"team"}), 0),
        (Budgets(unknown={"other"}), 2),
        (Budgets({}, {f"team/{node}-{card}": ["team/unknown"] for node in "ab" for card in "02"}), 0),
    ],
)
def test_no_disruption_budget_is_broken(budgets: Budgets, moves: int) -> None:
    assert len(two_nodes().plan(budgets=budgets).moves) == moves


@pytest.mark.parametrize("evictions", [1, 2, 3])
def test_no_more_pods_are_moved_than_allowed(evictions: int) -> None:
    assert len(two_nodes().plan(evictions=evictions).moves) == min(evictions, 2)


def test_pods_that_wait_for_cards_are_named() -> None:
    cluster = split()
    cluster.cluster.create("waits", 2)
    assert cluster.plan().waiting == ("team/waits",)


machines: list[Callable[[], Any]] = [a100_pcie_bridged, dgx1_v100, h20, l40s]


@given(
    seed=st.integers(0, 10**6),
    kinds=st.lists(st.sampled_from(machines), min_size=1, max_size=3),
    nodes=st.integers(1, 5),
    use=st.floats(0.2, 0.9),
    evictions=st.integers(1, 6),
    allowed=st.integers(0, 3),
)
def test_laws_of_every_plan(
    seed: int, kinds: list[Callable[[], Any]], nodes: int, use: float, evictions: int, allowed: int
) -> None:
    cluster = filled(seed, [kind() for kind in kinds], nodes=nodes, use=use)
    pods = cluster.pods()
    budgets = budget(allowed, *(pod.record.name for pod in pods if hash_of(pod.record.name) % 2))
    world = cluster.cluster.world
    worth = total_worth(cluster)
    plan = cluster.plan(evictions=evictions, budgets=budgets)

    assert len(plan.moves) <= evictions
    assert len({move.pod.record.uid for move in plan.moves}) == len(plan.moves), "a pod is moved once"
    assert sum(move.pod.record.key in budgets.of for move in plan.moves) <= allowed
    assert all(not move.pod.controller.startswith("Job/") for move in plan.moves)
    assert bool(plan.moves) == (sum(move.gain for move in plan.moves) > 0)
    assert bool(plan.moves) == (plan.after.total > plan.before.total)
    assert total_worth(cluster) == pytest.approx(worth + sum(move.gain for move in plan.moves)), "the gain is real"
    assert sum((move.back for move in plan.moves), plan.before) == plan.after
    held = [uuid for pod in world.pods.values() for uuid in pod.held]
    assert len(held) == len(set(held)), "no card has two pods"

    # The pods stand where the plan has put them: nothing leads back.
    for move in plan.moves:
        name = move.pod.record.name
        again = cluster.cluster.pods[name]
        cluster.cluster.give(name, move.node, move.to_uuids)
        assert again["spec"]["nodeName"] == move.node
    second = cluster.plan(evictions=evictions, budgets=budgets)
    before = {move.pod.record.name: (move.pod.record.node, move.cards) for move in plan.moves}
    assert not [move for move in second.moves if before.get(move.pod.record.name) == (move.node, move.to_cards)], (
        "a move is taken back"
    )


def hash_of(name: str) -> int:
    return sum(name.encode())


def total_worth(cluster: Running) -> float:
    world = cluster.cluster.world
    stocks = [world.free_of(name) for name in world.nodes]
    return sum(stock.build.worth(stock.free) for stock in stocks if stock)


def test_a_plan_changes_no_pod_of_its_input() -> None:
    cluster = split()
    before = [msgspec.json.encode(pod.pod) for pod in cluster.pods()]
    cluster.plan()
    assert [msgspec.json.encode(pod.pod) for pod in cluster.pods()] == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", machines)
@pytest.mark.parametrize("use", [0.4, 0.6])
def test_every_move_of_a_plan_holds_when_those_before_it_are_done(kind: Callable[[], Any], use: float) -> None:
    for seed in range(3):
        cluster = filled(seed, [kind()], nodes=12, use=use)
        moves = cluster.plan(evictions=5).moves
        for number, move in enumerate(moves):
            cluster.cluster.restart()
            assert cluster.defragmenter().holds(moves[number:], cluster.pods())
            cluster.cluster.give(move.pod.record.name, move.node, move.to_uuids)


def test_a_move_does_not_hold_where_its_card_is_taken_or_its_pod_is_gone() -> None:
    for change in ("taken", "gone", "kept"):
        cluster = split(owner="StatefulSet")
        moves = cluster.plan().moves
        cluster.cluster.restart()
        assert cluster.defragmenter().holds(moves, cluster.pods())
        if change == "taken":
            cluster.run("thief", "a", (3,))
        elif change == "gone":
            cluster.cluster.delete("first")
        else:
            cluster.cluster.pods["first"]["metadata"]["annotations"]["gpu.topology/move"] = "false"
            cluster.cluster.tell("first")
        cluster.cluster.restart()
        assert not cluster.defragmenter().holds(moves, cluster.pods())
