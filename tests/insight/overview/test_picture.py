"""What the picture says of nodes, cards and pods."""

from typing import Any

import pytest

from tests.insight.analyze.clusters import Cluster, running
from tests.insight.analyze.faults import FAULTS, mixture
from tests.insight.overview.scenes import (
    annotate_node,
    claims,
    cordoned,
    deny,
    fault,
    mig,
    node_of,
    pinned,
    pod_of,
    ran,
    seen,
    states,
    without_nodes,
)
from webhook.insight.explain.start import Verified
from webhook.insight.overview.groups import Joined, groups
from webhook.insight.overview.model import CardState, Health, Overview
from webhook.insight.overview.picture import overview


def test_in_a_healthy_cluster_cards_are_held_or_free_and_pods_have_the_best() -> None:
    found = seen(Cluster())
    assert found.at == "2026-11-22T12:00:00Z"
    assert states(node_of(found, "paired")) == ["held", "held", "free", "free"]
    assert states(node_of(found, "switched")) == ["held"] * 4 + ["free"] * 4
    pair = pod_of(found, "pair")
    assert (pair.node, pair.cards, pair.wanted, pair.profile) == ("paired", (0, 1), 2, "exclusive")
    assert (pair.link, pair.bandwidth, pair.best) == ("NV12", 240.0, 240.0)
    assert {card.health for node in found.nodes for card in node.cards} == {Health.OK}
    assert [pod.name for pod in found.pods] == ["pair", "train"], "the pod without GPUs is not in it"


def test_pairs_and_switches_are_groups() -> None:
    found = seen(Cluster())
    assert [(each.joined, each.indices) for each in groups(node_of(found, "paired"))] == [
        (Joined.ALL, (0, 1)),
        (Joined.ALL, (2, 3)),
    ]
    assert [each.indices for each in groups(node_of(found, "switched"))] == [tuple(range(8))]


def test_a_card_with_a_slice_is_shared() -> None:
    cluster = Cluster()
    fault("slice on a pair")(cluster)
    found = seen(cluster)
    card = node_of(found, "paired").cards[2]
    assert (card.state, card.holders) == (CardState.SHARED, ("team-a/rerank",))
    assert pod_of(found, "rerank").bandwidth is None


def test_a_pod_with_worse_cards_is_compared_with_the_best_of_its_node() -> None:
    cluster = Cluster()
    fault("worse cards")(cluster)
    unlucky = pod_of(seen(cluster), "unlucky")
    assert (unlucky.link, unlucky.bandwidth, unlucky.best) == ("SYS", 6.0, 40.0)
    assert "GT330" in {each.code for each in unlucky.findings}


def test_a_card_with_links_down_says_how_many() -> None:
    cluster = Cluster()
    fault("links down")(cluster)
    node = node_of(seen(cluster), "degraded")
    assert node.nvlink == "degraded"
    assert node.cards[5].health is Health.LINKS_DOWN
    assert "6 of 18" in node.cards[5].why
    assert [card.index for card in node.cards if card.health is not Health.OK] == [5]


def test_a_lost_card_is_broken_and_stays_in_the_picture() -> None:
    cluster = Cluster()
    fault("lost GPU")(cluster)
    node = node_of(seen(cluster), "lossy")
    assert len(node.cards) == 8
    assert (node.cards[6].health, node.cards[6].why) == (Health.BROKEN, "GPU is lost")


def test_what_hami_takes_for_ill_is_broken() -> None:
    cluster = Cluster()
    annotate_node(cluster, "paired", health=False)
    assert {card.health for card in node_of(seen(cluster), "paired").cards} == {Health.BROKEN}


def test_cordons_of_nodes_and_of_cards_are_told_apart() -> None:
    cluster = Cluster()
    cordoned(cluster)
    found = seen(cluster)
    assert [node.is_schedulable for node in found.nodes] == [True, False]
    assert [card.health for card in node_of(found, "paired").cards] == [*([Health.OK] * 3), Health.CORDONED]


def test_a_card_in_mig_mode_has_no_links() -> None:
    cluster = Cluster()
    mig(cluster)
    node = node_of(seen(cluster), "cut")
    assert [card.is_mig for card in node.cards] == [False, False, False, True]
    assert all(3 not in (link.one, link.other) for link in node.links)


def test_of_a_silent_agent_cards_are_known_and_links_are_not() -> None:
    cluster = Cluster()
    fault("silent agent")(cluster)
    node = node_of(seen(cluster), "silent")
    assert (node.nvlink, node.best, node.links) == ("unknown", 0.0, ())
    assert node.problem
    assert {card.health for card in node.cards} == {Health.UNKNOWN}


ROLE = (
    "GT864: your rights do not allow all that was to be read. "
    "Have an administrator bind the ClusterRole gpu-topology-reader of the chart to you"
)


def test_nodes_that_may_not_be_listed_are_told_with_the_role() -> None:
    cluster = Cluster()
    without_nodes(cluster)
    found = seen(cluster)
    assert (found.nodes, found.nodes_problem) == ((), "list nodes: you may not (403)")
    assert found.unread == ("nodes: list nodes: you may not (403)",)
    assert found.remedy == ROLE


@pytest.mark.parametrize(
    ("kind", "resource", "remedy"),
    [("Lease", "leases", ROLE), ("gpu-topology-webhook-tls", "secrets", "")],
    ids=["the role has Leases", "no role has Secrets"],
)
def test_with_nodes_the_role_is_told_if_it_has_what_is_missing(kind: str, resource: str, remedy: str) -> None:
    cluster = Cluster()
    deny(cluster, kind, resource)
    found = seen(cluster)
    assert (len(found.nodes), found.nodes_problem, found.remedy) == (2, "", remedy)


def test_what_fails_for_another_reason_than_rights_names_no_role() -> None:
    cluster = Cluster()
    cluster.read.remove("Lease")
    cluster.unread.append({"what": "leases", "problem": "list leases: the request is odd (400)"})
    found = seen(cluster)
    assert (found.unread, found.remedy) == (("leases: list leases: the request is odd (400)",), "")


def test_chosen_cards_are_those_of_the_pod_that_waits() -> None:
    cluster = Cluster()
    pinned(cluster)
    found = seen(cluster)
    waiting = pod_of(found, "pinned")
    assert (waiting.node, waiting.cards, waiting.bandwidth) == ("paired", (2, 3), 240.0)
    assert "chosen" in waiting.waits_for
    assert states(node_of(found, "paired")) == ["held", "held", "chosen", "chosen"]


def test_cards_by_claims_are_those_that_bind_wrote_down() -> None:
    cluster = Cluster()
    claims(cluster)
    found = seen(cluster)
    claimed = pod_of(found, "claimed")
    assert (claimed.cards, claimed.wanted, claimed.link) == ((2, 3), None, "NV12")
    assert node_of(found, "claimable").cards[2].holders == ("team-a/claimed",)


@pytest.mark.parametrize(
    ("status", "expected", "why"),
    [
        ({"state": {"terminated": {"exitCode": 0}}}, Verified.YES, ""),
        ({"started": True, "state": {"running": {}}}, Verified.YES, ""),
        ({"started": False, "state": {"running": {}}}, Verified.UNKNOWN, ""),
        ({"state": {"terminated": {"exitCode": 12, "message": "other GPUs"}}}, Verified.NO, "other GPUs"),
        (
            {"state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 11, "message": "gone"}}},
            Verified.NO,
            "gone",
        ),
        ({"state": {"waiting": {}}}, Verified.UNKNOWN, ""),
        ({"state": "odd"}, Verified.UNKNOWN, ""),
    ],
)
def test_whether_a_pod_was_verified_is_seen_by_how_its_program_did(
    status: dict[str, Any], expected: Verified, why: str
) -> None:
    cluster = Cluster()
    ran(cluster, "pair", **status)
    found = pod_of(seen(cluster), "pair")
    assert (found.verified, found.why) == (expected, why)


GATED = {
    "type": "PodScheduled",
    "status": "False",
    "message": "Scheduling is blocked due to non-empty scheduling gates.",
}
"""What the API server says of a pod with gates, and what stays until the scheduler has looked at the pod."""


@pytest.mark.parametrize(
    ("gates", "conditions", "expected"),
    [
        (["gpu.topology/place"], [], "the planner (gate gpu.topology/place)"),
        (
            ["gpu.topology/place"],
            [{"type": "gpu.topology/Placed", "status": "False", "message": "no 8 cards are free."}],
            "the planner (gate gpu.topology/place): no 8 cards are free",
        ),
        (["other/gate"], [], "its scheduling gate other/gate"),
        ([], [], "the scheduler"),
        ([], [GATED | {"reason": "SchedulingGated"}], "the scheduler"),
        ([], [GATED | {"reason": "Unschedulable"}], f"the scheduler: {GATED['message'].rstrip('.')}"),
        (
            [],
            [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes\x1b[31m are available."}],
            r"the scheduler: 0/2 nodes\x1b[31m are available",
        ),
    ],
)
def test_what_a_pod_waits_for(gates: list[str], conditions: list[dict[str, str]], expected: str) -> None:
    cluster = Cluster()
    fault("waits for long")(cluster)
    patient = cluster.get("Pod", "patient", "team-a")
    patient["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    patient["status"] = {"phase": "Pending", "conditions": conditions}
    assert pod_of(seen(cluster), "patient").waits_for == expected


def test_without_the_pods_of_all_namespaces_no_card_is_called_free() -> None:
    snapshot = Cluster().snapshot()
    found = overview(snapshot, None, are_all_pods=False)
    assert not found.are_judged
    assert states(node_of(found, "paired")) == ["held", "held", "unknown", "unknown"]


def test_findings_stand_at_their_objects_or_name_them() -> None:
    cluster = Cluster()
    for name in ("not registered", "links down", "not opted in", "namespace not allowed"):
        fault(name)(cluster)
    found = seen(cluster)
    assert [each.code for each in node_of(found, "degraded").findings] == ["GT701"]
    assert "GT103" in {each.code for each in pod_of(found, "notebook").findings}
    about = {each.about for each in found.findings}
    assert "MutatingWebhookConfiguration gpu-topology-webhook" in about
    assert any(each.startswith("Namespace ") for each in about)
    assert "" not in about


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_between_the_snapshot_and_the_picture(seed: int) -> None:
    cluster = Cluster()
    for each in mixture(seed):
        each.make(cluster)
    pinned(cluster)
    found = seen(cluster)
    check_laws(found)
    assert len(cluster.analyzed()) == sum(
        len(each)
        for each in (
            found.findings,
            *(node.findings for node in found.nodes),
            *(pod.findings for pod in found.pods),
        )
    )


@pytest.mark.long
@pytest.mark.parametrize("name", [each.name for each in FAULTS])
def test_the_laws_hold_with_each_fault(name: str) -> None:
    cluster = Cluster()
    fault(name)(cluster)
    check_laws(seen(cluster))


def check_laws(found: Overview) -> None:
    """Cards and pods tell the same of each other; nothing is better than the best; everything is in order."""
    assert [node.name for node in found.nodes] == sorted(node.name for node in found.nodes)
    assert [pod.key for pod in found.pods] == sorted(pod.key for pod in found.pods)
    holders = {(key, node.name, card.index) for node in found.nodes for card in node.cards for key in card.holders}
    assert holders == {(pod.key, pod.node, index) for pod in found.pods for index in pod.cards}
    for node in found.nodes:
        indices = [card.index for card in node.cards]
        assert indices == sorted(set(indices))
        assert sorted(index for group in groups(node) for index in group.indices) == indices
        for card in node.cards:
            assert bool(card.holders) == (card.state in (CardState.HELD, CardState.SHARED, CardState.CHOSEN))
        for link in node.links:
            assert link.active <= link.count
            assert link.other is None or link.one < link.other
    for pod in found.pods:
        assert (pod.bandwidth is None) == (pod.best is None) == (not pod.link)
        assert pod.bandwidth is None or pod.best is None or pod.bandwidth <= pod.best


def test_two_pods_on_one_card_share_it_and_a_card_that_is_gone_belongs_to_no_pod() -> None:
    cluster = Cluster()
    cluster.add(running("second", "paired", 1, 2))
    strange = running("strange", "paired", 2, 3)
    strange["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = "GPU-gone,NVIDIA,1,1:;"
    cluster.add(strange)
    found = seen(cluster)
    assert node_of(found, "paired").cards[1].holders == ("team-a/pair", "team-a/second")
    assert node_of(found, "paired").cards[1].state is CardState.SHARED
    assert pod_of(found, "strange").cards == ()
    check_laws(found)
