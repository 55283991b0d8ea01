"""What a pod asks of a node, beside k8s.io/component-helpers scheduling/corev1: nodeaffinity.go, helpers.go."""

import json
from typing import Any

import msgspec
import pytest

from webhook.decisions.place.scheduling import MOST_EXPRESSIONS, NodeNeeds, Shortage, node_needs, shortage
from webhook.objects.node import Taint

LABELS = {"zone": "a", "cards": "8", "spare": "", "odd": "1_000", "huge": "9" * 40}
NOTHING = msgspec.Raw()


def raw(value: object) -> msgspec.Raw:
    """As it stands in the pod."""
    return msgspec.Raw(json.dumps(value).encode())


def with_terms(*terms: dict[str, Any]) -> NodeNeeds:
    """A pod whose required node affinity has these terms."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return node_needs(NOTHING, raw({"nodeAffinity": required}), NOTHING)


def may_run(needs: NodeNeeds, *taints: Taint, name: str = "n1", unschedulable: bool = False) -> bool:
    """On the node with the labels above."""
    return not needs.refusal(name, LABELS, taints, unschedulable=unschedulable)


def says(key: str, operator: str, *values: str) -> dict[str, Any]:
    """One expression."""
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        (says("zone", "In", "b", "a"), True),
        (says("zone", "In", "b"), False),
        (says("other", "In", "a"), False),
        (says("spare", "In", ""), True),
        (says("zone", "NotIn", "b"), True),
        (says("zone", "NotIn", "b", "a"), False),
        (says("other", "NotIn", "a"), True),
        (says("zone", "Exists"), True),
        (says("spare", "Exists"), True),
        (says("other", "Exists"), False),
        (says("zone", "DoesNotExist"), False),
        (says("spare", "DoesNotExist"), False),
        (says("other", "DoesNotExist"), True),
        (says("cards", "Gt", "7"), True),
        (says("cards", "Gt", "8"), False),
        (says("cards", "Gt", "-1"), True),
        (says("cards", "Lt", "9"), True),
        (says("cards", "Lt", "8"), False),
        (says("zone", "Gt", "7"), False),
        (says("other", "Lt", "7"), False),
        (says("cards", "Gt", "few"), False),
        (says("cards", "Gt", "1", "2"), False),
        (says("cards", "Gt"), False),
        (says("odd", "Gt", "7"), False),
        (says("huge", "Gt", "7"), False),
        (says("cards", "Lt", "9" * 40), False),
        (says("cards", "Lt", " 9"), False),
        (says("zone", "Near", "a"), False),
    ],
)
def test_an_expression_holds_as_for_kube_scheduler(expression: dict[str, Any], holds: bool) -> None:
    assert may_run(with_terms({"matchExpressions": [expression]})) is holds


@pytest.mark.parametrize(
    ("terms", "holds"),
    [
        ([{}], False),
        ([{"matchExpressions": [], "matchFields": None}], False),
        ([], False),
        ([{}, {"matchExpressions": [says("zone", "Exists")]}], True),
        ([{"matchExpressions": [says("zone", "In", "a"), says("cards", "In", "4")]}], False),
        ([{"matchExpressions": [says("zone", "In", "a"), says("cards", "In", "8")]}], True),
        (
            [
                {"matchExpressions": [says("cards", "In", "4")]},
                {"matchExpressions": [says("zone", "In", "a")]},
            ],
            True,
        ),
        ([{"matchFields": [says("metadata.name", "In", "n1")]}], True),
        ([{"matchFields": [says("metadata.name", "In", "n2")]}], False),
        ([{"matchFields": [says("metadata.name", "NotIn", "n2")]}], True),
        ([{"matchFields": [says("metadata.name", "NotIn", "n1")]}], False),
        ([{"matchFields": [says("spec.unschedulable", "NotIn", "n1")]}], False),
        ([{"matchFields": [says("metadata.name", "In", "n1")], "matchExpressions": [says("zone", "In", "b")]}], False),
    ],
)
def test_one_term_must_match_and_an_empty_one_matches_nothing(terms: list[dict[str, Any]], holds: bool) -> None:
    assert may_run(with_terms(*terms)) is holds


def test_preferences_and_the_affinity_to_pods_are_not_looked_at() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
    assert may_run(node_needs(NOTHING, raw({"nodeAffinity": preferred, "podAffinity": {"a": [1]}}), NOTHING))
    assert may_run(node_needs(raw(None), raw(None), raw(None)))


@pytest.mark.parametrize(("selector", "holds"), [({"zone": "a"}, True), ({"zone": "b"}, False), ({"none": ""}, False)])
def test_every_label_of_the_node_selector_is_there(selector: dict[str, str], holds: bool) -> None:
    assert may_run(node_needs(raw(selector), NOTHING, NOTHING)) is holds


TAINT = Taint("key", "NoSchedule", "value")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({"key": "key", "operator": "Equal", "value": "value", "effect": "NoSchedule"}, True),
        ({"key": "key", "value": "value"}, True),
        ({"key": "key", "operator": "", "value": "value"}, True),
        ({"key": "key", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "key", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "key", "operator": "Equal", "value": "other"}, False),
        ({"key": "key", "operator": "Equal"}, False),
        ({"key": "key", "operator": "Gt", "value": "1"}, False),
        ({}, False),
    ],
)
def test_a_toleration_covers_a_taint_as_for_kube_scheduler(toleration: dict[str, str], covers: bool) -> None:
    needs = node_needs(NOTHING, NOTHING, raw([{"key": "else", "operator": "Exists"}, toleration]))
    assert may_run(needs, TAINT) is covers
    assert may_run(needs)


def test_only_taints_that_keep_pods_away_count() -> None:
    needs = node_needs(NOTHING, NOTHING, NOTHING)
    assert may_run(needs, Taint("key", "PreferNoSchedule"))
    assert not may_run(needs, Taint("key", "NoExecute"))
    assert needs.refusal("n1", LABELS, (TAINT,), unschedulable=False) == "has the taint key"


def test_a_cordoned_node_takes_pods_that_tolerate_it() -> None:
    key = "node.kubernetes.io/unschedulable"
    tolerant = node_needs(NOTHING, NOTHING, raw([{"key": key, "operator": "Exists", "effect": "NoSchedule"}]))
    assert may_run(tolerant, unschedulable=True)
    assert not may_run(node_needs(NOTHING, NOTHING, NOTHING), unschedulable=True)


@pytest.mark.parametrize("text", [b"{", b'"text"', b"[1]", b'{"nodeAffinity": 1}', b"[" * 5000])
def test_a_field_that_cannot_be_read_asks_for_what_no_node_has(text: bytes) -> None:
    assert not may_run(node_needs(NOTHING, msgspec.Raw(text), NOTHING))
    assert not may_run(node_needs(msgspec.Raw(text), NOTHING, NOTHING))


@pytest.mark.parametrize(("terms", "holds"), [(MOST_EXPRESSIONS // 2, True), (MOST_EXPRESSIONS // 2 + 1, False)])
def test_an_affinity_without_end_matches_no_node(terms: int, holds: bool) -> None:
    assert may_run(with_terms(*[{"matchExpressions": [says("zone", "In", "a")]}] * terms)) is holds


def test_pods_of_one_template_have_equal_needs_and_others_do_not() -> None:
    first, second = (node_needs(raw({"zone": "a"}), NOTHING, NOTHING) for _ in range(2))
    assert first == second
    assert node_needs(raw({"zone": "b"}), NOTHING, NOTHING) != first
    assert node_needs(NOTHING, raw({"zone": "a"}), NOTHING) != first


@pytest.mark.parametrize(
    ("needed", "used", "pods", "lack"),
    [
        ({"cpu": 1000}, {"cpu": 3000}, 0, None),
        ({"cpu": 1001}, {"cpu": 3000}, 0, Shortage("cpu", 1000)),
        ({"cpu": 1}, {"cpu": 5000}, 0, Shortage("cpu", 0)),
        ({"cpu": 0}, {"cpu": 5000}, 0, None),
        ({"example.com/nic": 1}, {}, 0, Shortage("example.com/nic", 0)),
        ({"example.com/nic": 0}, {}, 0, None),
        ({}, {}, 9, None),
        ({}, {}, 10, Shortage("pods", 0)),
    ],
)
def test_a_node_lacks_what_is_not_left(
    needed: dict[str, int], used: dict[str, int], pods: int, lack: Shortage | None
) -> None:
    assert shortage(needed, {"cpu": 4000, "pods": 10}, used, pods) == lack


def test_a_node_that_says_nothing_of_pods_takes_none() -> None:
    assert shortage({}, {}, {}, 0) == Shortage("pods", 0)
