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
from webhook.decisions.place.shares import BUDGET, Shares

DENY = {"on-violation": "deny"}
TICK = BUDGET / 400


def busy_cluster(nodes: int = 16) -> PlacedCluster:
    """Nodes of four cards with different cards in use; of the last one all are free."""
    names = [f"n{number:02}" for number in range(nodes)]
    cluster = PlacedCluster(*(named(a100_pcie_bridged(), name) for name in names))
    for number, node in enumerate(names):
        for index in (index for index in range(4) if not number >> index & 1):
            cluster.create(f"{node}-{index}", 1, gated=False)
            cluster.give(f"{node}-{index}", node, (f"GPU-{node}.{index}",))
    cluster.tick = TICK
    return cluster


def odd(cluster: PlacedCluster, count: int, namespace: str = "team", first: int = 1000, **spec: Any) -> list[str]:
    """Pods that each ask for a bandwidth of their own, which no pair has."""
    found = [f"{namespace}-odd-{number:04}" for number in range(count)]
    for number, name in enumerate(found):
        options = {"min-bandwidth": str(first + number), **DENY}
        cluster.create(name, 2, options=options, namespace=namespace, **spec)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("priority", [0, 1000])
def test_a_stranger_s_pod_is_decided_at_once_whatever_others_ask(priority: int) -> None:
    cluster = busy_cluster()
    odd(cluster, 300, priority=priority)
    cluster.round()
    cluster.now += 1
    cluster.create("stranger", 2, namespace="other", options={"min-bandwidth": "20", **DENY})
    cluster.round()
    assert len(cluster.pinned("stranger")) == 2
    assert cluster.planner.report.waiting[PlaceReason.SOON] > 0


@pytest.mark.slow
def test_a_round_ends_at_its_budget_and_each_pod_has_its_turn_in_the_end() -> None:
    cluster = busy_cluster()
    names = odd(cluster, 300)
    told, rounds = 0, 0
    while told < len(names):
        told += len(cluster.round())
        rounds += 1
        assert told <= rounds * BUDGET / TICK
    assert rounds > 2
    assert {cluster.why(name)[0] for name in names} == {"RequirementNotMet"}


def test_no_namespace_is_left_without_a_turn() -> None:
    cluster = busy_cluster()
    for number in range(60):
        odd(cluster, 3, namespace=f"team-{number:02}", first=1000 + 3 * number)
    for _ in range(3):
        cluster.round()
    assert [number for number in range(60) if not cluster.why(f"team-{number:02}-odd-0000")[0]] == []


def test_within_a_namespace_the_pod_of_the_greatest_priority_comes_before_those_that_wait_for_their_turn() -> None:
    cluster = busy_cluster()
    odd(cluster, 200)
    cluster.round()
    cluster.create("urgent", 2, options=DENY, priority=1000)
    cluster.round()
    assert len(cluster.pinned("urgent")) == 2


def test_the_pod_of_the_greatest_priority_comes_first_across_namespaces() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    cluster.create("low", 8, namespace="one")
    cluster.create("high", 8, namespace="other", priority=1000)
    cluster.round()
    assert (cluster.pinned("low"), len(cluster.pinned("high"))) == ((), 8)


def test_an_answer_that_still_holds_needs_no_time_and_a_free_card_is_seen_at_once() -> None:
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"))
    for index in range(1, 4):
        cluster.create(f"s{index}", 1, gated=False)
        cluster.give(f"s{index}", "a", (f"GPU-a.{index}",))
    cluster.create("train", 2, options={"require-nvlink": "true", **DENY})
    cluster.create("other", 2, nodeSelector={"disk": "fast"})
    cluster.round()
    cluster.tick = 10 * BUDGET
    for _ in range(3):
        cluster.now += 1
        assert cluster.round() == []
        assert PlaceReason.SOON not in cluster.planner.report.waiting
    cluster.tick = 0
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


@pytest.mark.parametrize("terms", [1, 250])
def test_an_answer_holds_although_the_pod_says_it(terms: int) -> None:
    """Requirements that were read again are the same ones, however long they are."""
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"))
    found = [{"matchExpressions": [{"key": "rank", "operator": "In", "values": [f"r{term}"]}]} for term in range(terms)]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}}
    cluster.create("train", 2, options=DENY, affinity=affinity)
    cluster.round()
    assert cluster.why("train")[0] == "NoNode"
    cluster.tick = 10 * BUDGET
    cluster.now += 1
    cluster.round()
    assert PlaceReason.SOON not in cluster.planner.report.waiting


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


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, BUDGET)), max_size=40), st.integers(1, 4))
def test_each_pod_has_one_turn_in_each_round(wishes: list[tuple[str, float]], rounds: int) -> None:
    memory, pods = Memory(), [pod(namespace, str(number)) for number, (namespace, _) in enumerate(wishes)]
    for _ in range(rounds):
        done = [0.0]
        shares = Shares(memory, lambda done=done: done[0])  # type: ignore[misc]
        memory.begin_turns()
        shares.begin()
        seen, served = [], set()
        for each in shares.in_turn(pods):
            seen.append(each.name)
            if shares.has_time:
                served.add(each.namespace)
                done[0] += wishes[int(each.name)][1]
            else:
                memory.pass_over(each)
        assert sorted(seen) == sorted(each.name for each in pods)
        assert done[0] <= 2 * BUDGET
        assert not pods or served
        assert not served & memory.without_turn.keys()
