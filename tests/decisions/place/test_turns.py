"""Whose turn it is: pods that are pinned anew, that were let go, and what is told of those that wait."""

import pytest

from tests.decisions.place.cluster import BEGIN, PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged, h20
from webhook.decisions.place.writes import Write

LET_GO = {"gpu.topology/placement": "released"}


def let_go(cluster: PlacedCluster, *names: str, gpus: int = 8) -> None:
    """Pods past the gate that hold no cards, and that the scheduler refused."""
    for name in names:
        cluster.create(name, gpus, gated=False, labels=LET_GO)
        cluster.refuse(name)
    cluster.round()


def patched(writes: list[Write]) -> list[str]:
    """The names of the pods that are changed."""
    return sorted(write.name for write in writes if write.patch)


@pytest.mark.parametrize(("in_flight", "pinned"), [(1, ["p0"]), (2, ["p0", "p1"]), (9, ["p0", "p1", "p2"])])
def test_pods_that_were_let_go_are_pinned_as_many_at_once_as_others(in_flight: int, pinned: list[str]) -> None:
    cluster = PlacedCluster(*(named(h20(), name) for name in "abc"), settings={"inFlight": in_flight})
    let_go(cluster, "p0", "p1", "p2", "p3")
    cluster.now += 60
    assert patched(cluster.round()) == pinned
    assert patched(cluster.round()) == []
    cluster.schedule()
    cluster.round()
    assert len([name for name in cluster.pods if cluster.pinned(name)]) == min(3, 2 * in_flight)


def test_pods_that_were_let_go_are_looked_at_when_cards_become_free() -> None:
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"))
    cluster.create("all", 4, gated=False)
    cluster.give("all", "a", tuple(f"GPU-a.{index}" for index in range(4)))
    let_go(cluster, "p0", gpus=2)
    cluster.now += 1
    assert patched(cluster.round()) == []
    cluster.refuse("p0", "0/1 nodes are available: 1 Insufficient cpu.")
    cluster.now += 58
    assert patched(cluster.round()) == []
    cluster.delete("all")
    cluster.now += 1
    assert patched(cluster.round()) == ["p0"]


@pytest.mark.parametrize("mode", ["observe", "off"])
def test_without_placement_pods_that_were_let_go_are_left_alone(mode: str) -> None:
    cluster = PlacedCluster(named(h20(), "a"), settings={"mode": mode})
    let_go(cluster, "p0")
    cluster.now += 1000
    assert patched(cluster.round()) == []


def test_a_pod_that_the_scheduler_has_not_refused_is_left_to_it() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    cluster.create("p0", 8, gated=False, labels=LET_GO)
    cluster.round()
    cluster.now += 1000
    assert patched(cluster.round()) == []


def test_a_pod_that_is_pinned_anew_waits_until_another_has_left_the_way_to_its_node() -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"))
    cluster.create("eight", 8)
    cluster.round()
    cluster.create("pair", 2)
    cluster.round()
    assert (cluster.cards("eight")[0][0], cluster.cards("pair")[0][0]) == ("a", "b")
    cluster.delete("eight")
    cluster.create("next", 2)
    cluster.pods["next"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "a"}
    cluster.tell("next")
    cluster.round()
    assert cluster.cards("next")[0][0] == "a"
    cluster.refuse("pair", "volumes")
    assert patched(cluster.round()) == []
    cluster.give("next", "a", cluster.pinned("next"))
    assert patched(cluster.round()) == ["pair"]
    assert cluster.cards("pair")[0][0] == "a"


def test_a_node_that_a_pod_leaves_takes_no_other_before_the_write_is_done() -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"))
    cluster.create("first", 2)
    cluster.round()
    left = cluster.cards("first")[0][0]
    cluster.refuse("first", "volumes")
    cluster.create("second", 2, nodeSelector={"kubernetes.io/hostname": left})
    writes = cluster.planner.decide(cluster.now, BEGIN)
    assert patched(writes) == ["first"]
    for write in writes:
        cluster.apply(write)
    assert patched(cluster.round()) == ["second"]


def refused_and_bound(*, bound_first: bool) -> PlacedCluster:
    """A pod that was refused and is pinned anew at 10 s; another, pinned at 0 s or 20 s, is bound at 59 s."""
    cluster = PlacedCluster(*(named(h20(), name) for name in "abc"))
    cluster.create("other" if bound_first else "refused", 8)
    cluster.round()
    if bound_first:
        cluster.create("refused", 8)
        cluster.round()
    cluster.now += 10
    cluster.refuse("refused")
    cluster.round()
    cluster.now += 10
    if not bound_first:
        cluster.create("other", 8)
        cluster.round()
    cluster.now += 39
    cluster.give("other", cluster.cards("other")[0][0], cluster.pinned("other"))
    cluster.round()
    return cluster


def test_patience_begins_anew_when_hami_binds_a_pod_that_was_pinned_before() -> None:
    cluster = refused_and_bound(bound_first=True)
    cluster.now += 59
    assert patched(cluster.round()) == []
    cluster.now += 1
    assert patched(cluster.round()) == ["refused"]


def test_patience_begins_anew_only_once_when_hami_binds_pods_that_were_pinned_later() -> None:
    cluster = refused_and_bound(bound_first=False)
    cluster.now += 10
    cluster.create("third", 8)
    cluster.round()
    cluster.now += 49
    cluster.give("third", cluster.cards("third")[0][0], cluster.pinned("third"))
    assert patched(cluster.round()) == []
    cluster.now += 1
    assert patched(cluster.round()) == ["refused"]


def test_the_same_reason_is_told_again_only_after_half_a_minute() -> None:
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"))
    for index in range(3):
        cluster.create(f"s{index}", 1, gated=False)
        cluster.give(f"s{index}", "a", (f"GPU-a.{index}",))
    cluster.create("train", 4, options={"on-violation": "deny"})
    cluster.round()
    assert cluster.why("train")[1].endswith("a has GPU3")
    cluster.delete("s2")
    cluster.now += 29
    assert cluster.round() == []
    cluster.now += 1
    (write,) = cluster.round()
    assert (write.event, write.log, write.patch) == (None, {}, ())
    assert cluster.why("train")[1].endswith("a has GPU2, GPU3")


def test_another_reason_is_told_at_once() -> None:
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"))
    cluster.create("train", 5, options={"on-violation": "deny"})
    cluster.round()
    cluster.add_node(named(h20(), "b"), unschedulable=True)
    (write,) = cluster.round()
    assert write.event is not None
    assert cluster.why("train")[0] == "NoFreeCards"


@pytest.mark.parametrize(
    ("given", "result"), [(("GPU-a.0", "GPU-a.1"), "taken"), (("GPU-a.2", "GPU-a.1"), "missed"), ((), "missed")]
)
def test_it_is_told_when_hami_gave_other_cards(given: tuple[str, ...], result: str) -> None:
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"))
    cluster.create("train", 2)
    cluster.round()
    assert cluster.pinned("train") == ("GPU-a.0", "GPU-a.1")
    cluster.give("train", "a", given)
    (write,) = cluster.round()
    assert (write.result, write.event is None) == (result, result == "taken")


def hopeless(in_flight: int) -> PlacedCluster:
    """A pod on its way, and one that no node can hold, created at the same moment."""
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"), settings={"inFlight": in_flight})
    cluster.create("one", 2)
    cluster.round()
    cluster.create("nine", 9, options={"on-violation": "deny"})
    cluster.round()
    return cluster


def test_pods_behind_those_that_are_on_their_way_are_looked_at_once_a_second() -> None:
    cluster = hopeless(in_flight=1)
    assert cluster.why("nine") == ("", "")
    cluster.now += 0.5
    cluster.round()
    assert cluster.why("nine") == ("", "")
    cluster.now += 0.5
    cluster.round()
    assert cluster.why("nine")[0] == "NeverFits"


def test_while_pods_can_go_on_all_are_looked_at_in_each_round() -> None:
    assert hopeless(in_flight=2).why("nine")[0] == "NeverFits"


def test_the_next_pod_goes_on_at_once_when_another_has_its_node() -> None:
    cluster = hopeless(in_flight=1)
    cluster.create("two", 2)
    cluster.round()
    assert cluster.pinned("two") == ()
    cluster.schedule()
    cluster.round()
    assert len(cluster.pinned("two")) == 2


def test_what_was_not_looked_at_is_counted_as_it_was_told() -> None:
    cluster = hopeless(in_flight=1)
    assert dict(cluster.planner.report.waiting) == {"Soon": 1}
    cluster.now += 1
    for _ in range(2):
        cluster.round()
        assert dict(cluster.planner.report.waiting) == {"NeverFits": 1}


@pytest.mark.parametrize("mode", ["off", "observe"])
def test_switched_off_the_planner_lets_all_pods_go_in_one_round(mode: str) -> None:
    cluster = PlacedCluster(named(h20(), "a"), settings={"mode": mode, "inFlight": 1})
    cluster.round()
    for number in range(3):
        cluster.create(f"pod-{number}", 2)
    cluster.round()
    assert [cluster.gates(f"pod-{number}") for number in range(3)] == [[], [], []]


def test_a_node_that_is_too_small_is_not_kept() -> None:
    cluster = PlacedCluster(
        named(a100_pcie_bridged(), "small"), named(h20(), "large"), settings={"reserveSeconds": 100}
    )
    cluster.create("six", 6, gated=False)
    cluster.give("six", "large", tuple(f"GPU-large.{index}" for index in range(6)))
    cluster.create("eight", 8, options={"on-violation": "deny"})
    cluster.round()
    cluster.now += 100
    cluster.create("two", 2)
    cluster.round()
    assert cluster.cards("two") == ["small:0", "small:1"]


@pytest.mark.slow
def test_groups_that_never_fit_do_not_keep_others_from_their_turn() -> None:
    """Each is searched for member by member before it shows that a node gives too few."""
    cluster = PlacedCluster(*(named(h20(), f"node-{number}") for number in range(40)))
    hopeless = {"group-size": "40", "min-gpus-per-node": "9", "on-violation": "deny", "colocate": "preferred"}
    for number in range(20):
        for member in range(40):
            labels = {"gpu.topology/group": f"g{number}"}
            cluster.create(f"hopeless-{number}-{member}", 1, options=hopeless, labels=labels)
    cluster.now += 1
    good = {"group-size": "2", "colocate": "preferred"}
    for name in ("good", "fine"):
        cluster.create(name, 2, options=good, labels={"gpu.topology/group": "good"})
    cluster.round()
    cluster.now += 61
    cluster.round()
    for _ in range(3):
        cluster.now += 1
        cluster.round()
    assert all(map(cluster.pinned, ("good", "fine")))
    assert {cluster.why(f"hopeless-{number}-0")[0] for number in range(20)} == {"NoFreeCards"}


# Nodes that are kept for pods that wait, and tenants who wait only to have one kept.

RESERVE = 100
IMPOSSIBLE = {"min-bandwidth": "100000", "on-violation": "deny"}
POSSIBLE = {"require-nvlink": "true", "on-violation": "deny"}


def keeping(*, holds_a_card: bool = True) -> PlacedCluster:
    """One node of eight cards, of which a pod may have one for ever."""
    cluster = PlacedCluster(named(h20(), "a"), settings={"reserveSeconds": RESERVE})
    if holds_a_card:
        cluster.create("for-ever", 1, gated=False, namespace="third")
        cluster.give("for-ever", "a", ("GPU-a.0",))
    return cluster


def let_in(cluster: PlacedCluster, seconds: int, namespace: str = "stranger") -> list[bool]:
    """For each ten seconds, whether a pod of two cards got them; it ends at once."""
    found = []
    for number in range(seconds // 10):
        cluster.now += 10
        cluster.create(f"visit-{number}", 2, namespace=namespace)
        cluster.round()
        found.append(bool(cluster.pinned(f"visit-{number}")))
        cluster.delete(f"visit-{number}")
    return found


def test_no_node_is_kept_for_a_pod_that_none_could_serve() -> None:
    cluster = keeping()
    cluster.create("never", 2, options=IMPOSSIBLE)
    cluster.round()
    assert all(let_in(cluster, 4 * RESERVE))
    cluster = keeping()
    cluster.create("some-day", 8, options=POSSIBLE)
    cluster.round()
    assert let_in(cluster, 4 * RESERVE).count(False) == 2 * RESERVE // 10


@pytest.mark.parametrize(
    ("gpus", "options", "is_kept"), [(2, IMPOSSIBLE, False), (8, POSSIBLE, False), (4, POSSIBLE, True)]
)
def test_no_node_is_kept_for_a_group_that_none_could_serve(gpus: int, options: dict[str, str], is_kept: bool) -> None:
    cluster = keeping()
    for number in range(2):
        group = {"gpu.topology/group": "g"}
        cluster.create(f"never-{number}", gpus, options={"group-size": "2", **options}, labels=group)
    cluster.round()
    assert all(let_in(cluster, 4 * RESERVE)) is not is_kept


def test_pods_of_a_namespace_that_wait_in_turn_keep_a_node_for_half_of_the_time() -> None:
    cluster = keeping()
    for number in range(4):
        cluster.create(f"crowd-{number}", 8, options=POSSIBLE, priority=number)
        cluster.round()
        cluster.now += RESERVE / 2
    found = let_in(cluster, 8 * RESERVE)
    assert found.count(False) <= len(found) // 2 + 1


def test_each_namespace_has_its_own_half() -> None:
    cluster = keeping()
    cluster.create("first", 8, options=POSSIBLE, namespace="one")
    cluster.round()
    cluster.now += RESERVE
    cluster.create("second", 8, options=POSSIBLE, namespace="two")
    cluster.round()
    assert not any(let_in(cluster, 2 * RESERVE - 20))


def test_after_a_pod_got_what_was_kept_for_it_a_node_is_kept_for_the_next_of_its_namespace() -> None:
    cluster = keeping()
    for number in range(2):
        cluster.create(f"large-{number}", 8, options=POSSIBLE)
    cluster.round()
    cluster.now += RESERVE
    cluster.round()
    cluster.delete("for-ever")
    cluster.round()
    assert len(cluster.pinned("large-0")) == 8
    cluster.schedule()
    cluster.delete("large-0")
    cluster.create("small", 1, namespace="third", gated=False)
    cluster.give("small", "a", ("GPU-a.0",))
    cluster.round()
    cluster.now += RESERVE / 2
    assert not any(let_in(cluster, RESERVE // 2 - 20))
