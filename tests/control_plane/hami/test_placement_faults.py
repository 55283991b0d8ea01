"""What goes wrong between choice and Binding, with the real HAMi: the pod gets other cards, or says why it waits."""

import json
import time
from typing import Any
from uuid import uuid4

import pytest
from kubernetes.client import CoreV1Api

from tests.control_plane.hami.cluster import BRIDGED, H20, Cluster, topologies
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.placed import (
    DENY,
    UUIDS,
    choice,
    given,
    has_label,
    is_gated,
    own_list,
    pinned,
    placed_as,
    slice_of,
    splits_both_pairs,
    train,
    waits_for_better,
)
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, annotations_of, cards_of
from tests.control_plane.protection import Tenant, tenant, unprotected
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration")]

FOREIGN = [gpu.uuid for gpu in topologies()[0].gpus]
UNKNOWN = "GPU-ffffffff-0000-0000-0000-000000000000"


def test_cards_that_a_pod_without_a_gate_takes_after_the_choice_are_replaced(cluster: Cluster, team: Team) -> None:
    with cluster.hami.scheduling.away():
        team.creates(train())
        until(has_label(team, "train", "pinned"), "a pin")
        chosen = pinned(team.pod("train"))
        rival = train("rival", options={"place": "off"} | own_list(*chosen))
        cluster.hami.binds(team.creates(rival), BRIDGED)
    bound = team.bound("train")
    assert given(bound) == [card for card in range(4) if card not in chosen]
    assert annotations_of(bound)["gpu.topology/link"] == "NVLink"
    assert choice(bound)["attempt"] > 1
    assert "refused" not in choice(bound)


@pytest.fixture
def user(cluster: Cluster, team: Team) -> Tenant:
    """Who may edit the pods of the team; it is the pod ``train`` that it writes to."""
    return tenant(cluster.control_plane, team.admin, team.namespace, "train", f"user-{uuid4().hex}")


@pytest.mark.long
def test_a_list_that_a_user_writes_onto_a_waiting_pod_is_obeyed(team: Team, user: Tenant) -> None:
    splits_both_pairs(team)
    waits_for_better(team)
    assert user.patches(own_list(0, 2)).status_code == 200
    bound = team.bound("train")
    assert given(bound) == [0, 2]
    assert "names its cards itself" in team.told("train", "GT627")


@pytest.mark.long
def test_users_change_neither_pin_nor_record(cluster: Cluster, team: Team, user: Tenant) -> None:
    with cluster.hami.scheduling.away():
        team.creates(train())
        until(has_label(team, "train", "pinned"), "a pin")
        stored = team.pod("train")
        for forged in (
            own_list(2, 3),
            {"nvidia.com/use-gpuuuid": None},
            {"gpu.topology/placed": "{}"},
            {"gpu.topology/placed": None},
        ):
            assert user.patches(forged).status_code == 422
        assert user.sends({"metadata": {"labels": {"gpu.topology/placement": "waiting"}}}).status_code == 422
    assert given(team.bound("train")) == pinned(stored)


@pytest.mark.long
@pytest.mark.parametrize("cards", [FOREIGN[:2], [UNKNOWN, UUIDS[0]], [UUIDS[0], UUIDS[1]]], ids=str)
def test_without_the_policy_a_forged_choice_gets_no_card_of_another_pod(
    cluster: Cluster, team: Team, user: Tenant, cards: list[str]
) -> None:
    team.creates(train("owner", options={"place": "off"} | own_list(0, 1)))
    team.bound("owner")
    team.creates(slice_of(3))
    team.bound("slice-3")
    team.creates(train(options=DENY))
    until(placed_as(team, "train", "NoFreeCards"), "a pod that waits")
    forged = {"node": BRIDGED, "cards": cards, "link": "NVLink", "bandwidth": 1, "share": 1, "attempt": 1, "at": ""}
    with unprotected(cluster.control_plane, guarded(cluster, team)):
        record = {"gpu.topology/placed": json.dumps(forged), "nvidia.com/use-gpuuuid": ",".join(cards)}
        assert user.patches(record).status_code == 200
        until(placed_as(team, "train", "CardsLost"), "a pod that lost its cards")
    assert cards_of(team.pod("train")) == []
    team.deletes("slice-3")
    assert given(team.bound("train")) == [2, 3]


def guarded(cluster: Cluster, team: Team) -> Tenant:
    """Whose forgeries tell whether the policy is in force."""
    team.creates(pod("guarded", container()))
    return tenant(cluster.control_plane, team.admin, team.namespace, "guarded", f"prober-{uuid4().hex}")


@pytest.mark.long
def test_a_pod_of_two_nodes_goes_to_the_other_when_its_own_is_cordoned(cluster: Cluster, team: Team) -> None:
    with cluster.hami.scheduling.away():
        team.creates(pod("train", container(gpus=2)))
        until(has_label(team, "train", "pinned"), "a pin")
        chosen = choice(team.pod("train"))["node"]
        cordon(team.admin, chosen, on=True)
        until(lambda: choice(team.pod("train"))["node"] != chosen, "a pin to the other node")
    try:
        bound = team.bound("train")
    finally:
        cordon(team.admin, chosen, on=False)
    assert {chosen, bound["spec"]["nodeName"]} == {H20, BRIDGED}
    assert choice(bound)["attempt"] == 2


def cordon(admin: CoreV1Api, node: str, *, on: bool) -> None:
    """As ``kubectl cordon`` and ``uncordon`` do."""
    body: Any = {"spec": {"unschedulable": on}}
    admin.patch_node(node, body)


@pytest.mark.long
def test_a_pod_goes_to_the_other_node_when_the_memory_of_its_own_is_taken(cluster: Cluster, team: Team) -> None:
    wanted = container(gpus=2)
    wanted["resources"]["limits"]["memory"] = "1Ti"
    with cluster.hami.scheduling.away():
        team.creates(pod("train", wanted))
        until(has_label(team, "train", "pinned"), "a pin")
        chosen = choice(team.pod("train"))["node"]
        hog = container(resources={"requests": {"memory": "1536Gi"}})
        team.creates(pod("hog", hog, nodeName=chosen, schedulerName="other"))
    bound = team.bound("train")
    assert {chosen, bound["spec"]["nodeName"]} == {H20, BRIDGED}
    assert annotations_of(bound)["gpu.topology/link"] in {"NVLink", "NVSwitch"}


@pytest.mark.long
@pytest.mark.usefixtures("planner")
def test_a_pod_that_hamis_quota_keeps_out_is_let_go_and_runs_when_there_is_room(
    cluster: Cluster, new_team: NewTeam
) -> None:
    # A namespace of its own: HAMi 2.9 counts some pods of others twice, and for ever.
    team = new_team(**{"injection": "enabled", "example.org/quota": "cards"})
    quota: Any = {"metadata": {"name": "cards"}, "spec": {"hard": {"limits.nvidia.com/gpucores": "200"}}}
    team.admin.create_namespaced_resource_quota(team.namespace, quota)
    try:
        with cluster.hami.scheduling.away():  # HAMi's webhook asks only what is allocated already
            team.creates(train("first"))
            until(has_label(team, "first", "pinned"), "a pin")
            team.creates(train("second"))
        team.bound("first")
        until(placed_as(team, "second", "GivenUp"), "a pod that is let go")
        team.deletes("first")
        until(lambda: is_bound_by_and_by(team, "second"), "a pod with cards")
    finally:
        team.admin.delete_namespaced_resource_quota("cards", team.namespace)


def is_bound_by_and_by(team: Team, name: str) -> bool:
    """Whether the pod has a node; a kubelet reports meanwhile, because quota that HAMi gets back wakes no pod."""
    time.sleep(0.5)
    body: Any = {"metadata": {"annotations": {"example.org/reported": f"{time.monotonic()}"}}}
    team.admin.patch_node(BRIDGED, body)
    return "nodeName" in team.pod(name)["spec"]


SIDECAR: dict[str, Any] = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("containers", "spec"),
    [
        ([container("one", gpus=1), container("three", gpus=3)], {}),
        ([container("two", gpus=2), container("log"), container("one", gpus=1)], {}),
        ([container("two", gpus=2)], {"initContainers": [container("fetch")]}),
        ([container("two", gpus=2)], {"initContainers": [container("proxy", **SIDECAR), container("fetch")]}),
    ],
    ids=["one-and-three", "two-nothing-one", "init", "sidecar-and-init"],
)
def test_all_containers_together_get_the_chosen_cards(
    team: Team, containers: list[dict[str, Any]], spec: dict[str, Any]
) -> None:
    assert is_gated(team.creates(pod("train", *containers, node=BRIDGED, **spec)))
    bound = team.bound("train")
    counts = [int(each["resources"]["limits"]["nvidia.com/gpu"]) for each in containers if "resources" in each]
    assert [len(cards) for cards in cards_of(bound)] == counts
    assert given(bound) == pinned(bound)
    assert choice(bound)["attempt"] == 1
