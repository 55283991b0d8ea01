"""A round has a budget of work, which namespaces share; an answer that still holds is not looked for again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.place.cluster import PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged, h20
from webhook.decisions.place.memory import Memory
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.reasons import PlaceReason
from webhook.decisions.place.shares import BUDGET, MOST_OF_A_NAMESPACE, Shares

DENY = {"on-violation": "deny"}


def busy_cluster(nodes: int = 16) -> PlacedCluster:
    """Nodes of four cards with different cards in use; of the last one all are free."""
    names = [f"n{number:02}" for number in range(nodes)]
    cluster = PlacedCluster(*(named(a100_pcie_bridged(), name) for name in names))
    for number, node in enumerate(names):
        for index in (index for index in range(4) if not number >> index & 1):
            cluster.create(f"{node}-{index}", 1, gated=False)
            cluster.give(f"{node}-{index}", node, (f"GPU-{node}.{index}",))
    return cluster


def odd(cluster: PlacedCluster, count: int, namespace: str = "team", first: int = 1000, **spec: Any) -> list[str]:
    """Pods that each ask for a bandwidth of their own, which no pair has."""
    found = [f"{namespace}-odd-{number:04}" for number in range(count)]
    for number, name in enumerate(found):
        options = {"min-bandwidth": str(first + number), **DENY}
        cluster.create(name, 2, options=options, namespace=namespace, **spec)
    return found


def work(cluster: PlacedCluster) -> int:
    """The work of the last round."""
    return cluster.planner._scene.chooser.work  # noqa: SLF001 - the figure that the budget is about


@pytest.mark.long
def test_a_stranger_s_pod_is_decided_at_once_whatever_others_ask() -> None:
    cluster = busy_cluster()
    odd(cluster, 400, priority=1000)
    for _ in range(3):
        cluster.round()
    cluster.now += 1
    cluster.create("stranger", 2, namespace="other", options={"min-bandwidth": "20", **DENY})
    cluster.round()
    assert len(cluster.pinned("stranger")) == 2


@pytest.mark.slow
def test_of_thousands_of_pods_that_wait_some_are_told_in_each_round_and_all_in_the_end() -> None:
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"))
    names = [f"pod-{number}" for number in range(2 * MOST_OF_A_NAMESPACE + 1)]
    for name in names:
        cluster.create(name, 8, options=DENY)
    cluster.create("stranger", 8, namespace="other", options=DENY)
    told = []
    for _ in range(3):
        cluster.round()
        told.append(sum(cluster.why(name)[0] != "" for name in names))
        assert cluster.why("stranger")[0] == "NeverFits"
        cluster.now += 1
    assert told == [MOST_OF_A_NAMESPACE, 2 * MOST_OF_A_NAMESPACE, 2 * MOST_OF_A_NAMESPACE + 1]


@pytest.mark.slow
def test_of_thousands_of_new_pods_some_are_read_in_each_round_and_all_in_the_end() -> None:
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"))
    for number in range(2 * MOST_OF_A_NAMESPACE + 1):
        cluster.create(f"pod-{number}", 8, options=DENY)
    cluster.create("stranger", 8, namespace="other", options=DENY)
    read = []
    for _ in range(4):
        cluster.round()
        waiting = cluster.planner.report.waiting
        assert waiting.total() == 2 * MOST_OF_A_NAMESPACE + 2
        read.append(waiting[PlaceReason.NEVER_FITS])
        cluster.now += 1
    assert read == [
        MOST_OF_A_NAMESPACE + 1,
        2 * MOST_OF_A_NAMESPACE + 1,
        2 * MOST_OF_A_NAMESPACE + 2,
        2 * MOST_OF_A_NAMESPACE + 2,
    ]


def test_the_pod_of_the_greatest_priority_comes_first_across_namespaces() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    cluster.create("low", 8, namespace="one")
    cluster.create("high", 8, namespace="other", priority=1000)
    cluster.round()
    assert (cluster.pinned("low"), len(cluster.pinned("high"))) == ((), 8)


@pytest.mark.slow
def test_within_a_namespace_each_pod_is_looked_at_in_its_turn() -> None:
    cluster = busy_cluster()
    names = odd(cluster, 200)
    looked_at, rounds = 0, 0
    while looked_at < len(names):
        looked_at += len(cluster.round())
        rounds += 1
        assert rounds < 20
    assert rounds > 1
    assert {cluster.why(name)[0] for name in names} == {"RequirementNotMet"}


@pytest.mark.long
def test_a_round_costs_no_more_than_its_budget_and_the_last_search() -> None:
    cluster = busy_cluster()
    for number in range(30):
        odd(cluster, 20, namespace=f"team-{number}", first=1000 + 20 * number)
    for _ in range(4):
        cluster.round()
        assert BUDGET < work(cluster) < 1.1 * BUDGET


@pytest.mark.long
def test_pods_of_many_priorities_cost_no_more_than_the_budget_and_nothing_once_they_are_answered() -> None:
    names = [f"n{number:02}" for number in range(30)]
    cluster = PlacedCluster(*(named(a100_pcie_bridged(), name) for name in names))
    for node in names:
        for number in range(20):
            using(cluster, f"{node}-{number}", cpus=1, priority=number, nodeName=node)
        using(cluster, f"{node}-high", cpus=150, priority=10_000, nodeName=node)
    waiting = [f"p{number}" for number in range(400)]
    for number, name in enumerate(waiting):
        using(cluster, name, cpus=100, cards=2, priority=1000 + number)
    rounds = 0
    while not all(cluster.why(name)[0] for name in waiting):
        cluster.now += 1
        cluster.round()
        rounds += 1
        assert work(cluster) < 1.1 * BUDGET
        assert rounds < 60
    assert rounds > 1
    cluster.round()
    assert work(cluster) == 0
    cluster.delete("n07-high")
    cluster.round()
    assert cluster.pinned(waiting[-1]) == ("GPU-n07.0", "GPU-n07.1")


def using(cluster: PlacedCluster, name: str, *, cpus: int, cards: int = 0, priority: int = 0, **spec: Any) -> None:
    """A pod that denies, with CPU, cards and a priority."""
    limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpucores": "100"} if cards else {}
    container = {"name": "c", "resources": {"limits": limits, "requests": {"cpu": str(cpus)}}}
    cluster.create(name, options=DENY, gated=cards > 0, priority=priority, containers=[container], **spec)


@pytest.mark.long
def test_no_namespace_is_left_without_a_turn() -> None:
    cluster = busy_cluster()
    for number in range(120):
        odd(cluster, 3, namespace=f"team-{number:03}", first=1000 + 3 * number)
    for _ in range(4):
        cluster.round()
    assert [number for number in range(120) if not cluster.why(f"team-{number:03}-odd-0000")[0]] == []


def test_an_answer_that_still_holds_costs_nothing_and_a_free_card_is_seen_at_once() -> None:
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"))
    for index in range(1, 4):
        cluster.create(f"s{index}", 1, gated=False)
        cluster.give(f"s{index}", "a", (f"GPU-a.{index}",))
    cluster.create("train", 2, options={"require-nvlink": "true", **DENY})
    cluster.create("other", 2, nodeSelector={"disk": "fast"})
    cluster.round()
    assert work(cluster) > 0
    for _ in range(3):
        cluster.now += 1
        assert (cluster.round(), work(cluster)) == ([], 0)
    cluster.delete("s1")
    cluster.round()
    assert cluster.cards("train") == ["a:0", "a:1"]
    cluster.nodes["a"]["metadata"]["labels"]["disk"] = "fast"
    cluster.tell_node("a")
    cluster.delete("s2")
    cluster.delete("s3")
    cluster.schedule()
    cluster.round()
    assert cluster.cards("other") == ["a:2", "a:3"]


def test_a_pod_that_asks_for_less_is_asked_again() -> None:
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"))
    cluster.create("train", 4, options={"require-nvlink": "true", **DENY})
    cluster.round()
    assert cluster.pinned("train") == ()
    cluster.pods["train"]["metadata"]["annotations"]["gpu.topology/require-nvlink"] = "false"
    cluster.tell("train")
    cluster.round()
    assert len(cluster.pinned("train")) == 4


def test_the_options_of_its_namespace_are_asked_again() -> None:
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"), namespace={"gpu.topology/require-nvlink": "true"})
    cluster.create("train", 4, options=DENY)
    cluster.round()
    assert cluster.pinned("train") == ()
    cluster.namespace = type(cluster.namespace)("team", cluster.namespace.labels, {})
    cluster.round()
    assert len(cluster.pinned("train")) == 4


def test_a_pod_that_only_warns_is_let_go_in_time_although_nothing_changes() -> None:
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"), settings={"fullSeconds": 60})
    cluster.create("all", 4, gated=False)
    cluster.give("all", "a", tuple(f"GPU-a.{index}" for index in range(4)))
    cluster.create("train", 2)
    for _ in range(59):
        cluster.now += 1
        cluster.round()
    assert cluster.label("train") == "waiting"
    cluster.now += 2
    cluster.round()
    assert cluster.label("train") == "released"


def pod(namespace: str, name: str) -> PodRecord:
    return PodRecord(namespace, name, f"{namespace}-{name}", "", False, {}, (), "", "", None)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, BUDGET)), max_size=40), st.integers(1, 4))
def test_each_pod_has_one_turn_in_each_round(wishes: list[tuple[str, int]], rounds: int) -> None:
    memory, pods = Memory(), [pod(namespace, str(number)) for number, (namespace, _) in enumerate(wishes)]
    for _ in range(rounds):
        done = [0]
        shares = Shares(memory, lambda done=done: done[0])  # type: ignore[misc]
        memory.begin_turns()
        seen, served = [], set()
        for each in shares.in_turn(pods):
            seen.append(each.name)
            if shares.has_time:
                served.add(each.namespace)
                done[0] += wishes[int(each.name)][1]
            else:
                memory.pass_over(each)
        assert sorted(seen) == sorted(each.name for each in pods)
        assert done[0] < 2 * BUDGET
        assert not pods or served
        assert not served & memory.without_turn.keys()
