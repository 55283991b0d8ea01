"""Limiting a pod behind a gate to some nodes, by an independent library that applies the patch."""

from typing import Any

import jsonpatch
import msgspec
import pytest

from tests.decisions.place.cluster import PlacedCluster, named
from tests.hardware.topology.machines import h20
from tests.pods import pod
from webhook.decisions.place.narrowing import narrow
from webhook.objects.pod import Pod

OURS = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "b"]}
ZONE = {"key": "zone", "operator": "In", "values": ["x"]}
FIELD = {"key": "metadata.name", "operator": "In", "values": ["a"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def narrowed(affinity: dict[str, Any] | None) -> Any:
    """The node affinity of a pod after the patch."""
    manifest = pod(**({"affinity": affinity} if affinity is not None else {}))
    found = msgspec.json.decode(msgspec.json.encode(manifest), type=Pod)
    after = jsonpatch.apply_patch(manifest, msgspec.json.encode(narrow(found, ["a", "b"])).decode())
    return after["spec"]["affinity"]


def terms(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(entries)}}}


@pytest.mark.parametrize("present", [None, {}, {"nodeAffinity": {}}, {"nodeAffinity": {REQUIRED: {}}}, terms()])
def test_a_pod_without_terms_gets_one(present: dict[str, Any] | None) -> None:
    assert narrowed(present) == terms({"matchExpressions": [OURS]})


def test_each_term_gets_one_more_expression_behind_its_own() -> None:
    before = terms({"matchExpressions": [ZONE]}, {"matchFields": [FIELD]})
    assert narrowed(before) == terms(
        {"matchExpressions": [ZONE, OURS]}, {"matchFields": [FIELD], "matchExpressions": [OURS]}
    )


def test_what_pods_say_of_each_other_stays() -> None:
    company = {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}
    assert narrowed(company) == company | terms({"matchExpressions": [OURS]})


@pytest.mark.parametrize(("nodes", "limited"), [(100, False), (101, True)])
def test_only_where_the_scheduler_looks_at_a_part_of_the_nodes(*, nodes: int, limited: bool) -> None:
    cluster = PlacedCluster(*(named(h20(), f"n{k:03}") for k in range(nodes)))
    cluster.create("train", 2)
    cluster.round()
    assert cluster.cards("train")[0] == "n000:0"
    affinity = cluster.pods["train"]["spec"].get("affinity")
    assert (affinity is not None) is limited
    if affinity:
        (term,) = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        hosts = term["matchExpressions"][0]["values"]
        assert (len(hosts), hosts[0]) == (100, "n000")


def test_a_pod_that_selects_few_nodes_is_not_limited_further() -> None:
    cluster = PlacedCluster(*(named(h20(), f"n{k:03}") for k in range(101)))
    cluster.create("train", 2, nodeSelector={"kubernetes.io/hostname": "n050"})
    cluster.round()
    assert cluster.cards("train")[0] == "n050:0"
    assert "affinity" not in cluster.pods["train"]["spec"]


@pytest.mark.parametrize("step", [1, -1])
def test_of_equal_nodes_those_of_the_first_names_are_left_in_whatever_order_they_came(step: int) -> None:
    cluster = PlacedCluster(*(named(h20(), f"n{k:03}") for k in range(120)[::step]))
    for k in range(120)[::step]:  # of every second node other cards are free
        cluster.create(f"holds-{k}", 4, gated=False)
        cluster.give(f"holds-{k}", f"n{k:03}", tuple(f"GPU-n{k:03}.{card + 4 * (k % 2)}" for card in range(4)))
        cluster.world.refresh()  # the planner has looked, and knows the nodes in this order
    cluster.create("train", 2)
    cluster.round()
    (term,) = cluster.pods["train"]["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == [f"n{k:03}" for k in range(100)]
