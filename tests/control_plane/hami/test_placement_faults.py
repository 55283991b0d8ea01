"""What goes wrong between choice and Binding, with the real HAMi: the pod gets other cards, or says why it waits."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from kubernetes.client import CoordinationV1Api, CoreV1Api

from tests.control_plane.control_plane import REQUEST_TIMEOUT_S
from tests.control_plane.hami.cluster import BRIDGED, H20, Cluster, topologies
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.nodes import untaint
from tests.control_plane.hami.placed import (
    DENY,
    UUIDS,
    choice,
    given,
    has_label,
    is_gated,
    is_refused,
    own_list,
    pinned,
    placed_as,
    slice_of,
    splits_both_pairs,
    train,
    waits_for_a_pair,
    waits_for_better,
)
from tests.control_plane.hami.planning import Planner
from tests.control_plane.hami.pods import container, owned_by, pod
from tests.control_plane.hami.team import Team, annotations_of, cards_of
from tests.control_plane.installation import NAMESPACE
from tests.control_plane.load.nodes import create_nodes, machines
from tests.control_plane.protection import Tenant, tenant, unprotected
from tests.programs.server.conftest import until
from webhook.words.node_names import config_map_name

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration")]

FOREIGN = [gpu.uuid for gpu in topologies()[0].gpus]
UNKNOWN = "GPU-ffffffff-0000-0000-0000-000000000000"


def test_a_pod_that_is_deleted_while_it_waits_leaves_its_turn_to_the_next(team: Team) -> None:
    splits_both_pairs(team)
    waits_for_a_pair(team, "first")
    waits_for_a_pair(team, "second")
    team.deletes("first")
    team.deletes("slice-1")
    assert given(team.bound("second")) == [0, 1]


def test_a_pod_that_stays_keeps_its_turn(team: Team) -> None:
    splits_both_pairs(team)
    waits_for_a_pair(team, "first")
    waits_for_a_pair(team, "second")
    team.deletes("slice-1")
    assert given(team.bound("first")) == [0, 1]
    assert is_gated(team.pod("second"))


def test_the_cards_of_a_pod_that_is_deleted_while_it_is_pinned_are_free_at_once(cluster: Cluster, team: Team) -> None:
    with cluster.hami.scheduling.away():
        team.creates(train("first", gpus=4))
        until(has_label(team, "first", "pinned"), "a pin")
        team.creates(train("second", gpus=4, options={"on-violation": "deny"}))
        until(placed_as(team, "second", "NoFreeCards"), "a pod that waits for the cards of the other")
        team.deletes("first")
        until(has_label(team, "second", "pinned"), "the other's pin")
    assert given(team.bound("second")) == [0, 1, 2, 3]


def test_a_pod_that_is_deleted_while_it_is_pinned_holds_no_cards_though_a_finalizer_keeps_it(
    cluster: Cluster, team: Team
) -> None:
    """Quotas do not count such a pod. ``test_a_pod_that_stays_keeps_its_turn`` has the opposite."""
    kept = train("first", gpus=4)
    kept["metadata"]["finalizers"] = ["example.com/for-ever"]
    with cluster.hami.scheduling.away():
        team.creates(kept)
        until(has_label(team, "first", "pinned"), "a pin")
        team.creates(train("second", gpus=4, options={"on-violation": "deny"}))
        until(placed_as(team, "second", "NoFreeCards"), "a pod that waits for the cards of the other")
        team.deletes("first")
        assert team.pod("first")["metadata"]["deletionTimestamp"]
        until(has_label(team, "second", "pinned"), "the other's pin")
    assert given(team.bound("second")) == [0, 1, 2, 3]
    team.admin.patch_namespaced_pod("first", team.namespace, {"metadata": {"finalizers": None}})


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


def test_a_list_of_the_users_own_is_not_replaced(team: Team) -> None:
    team.creates(train("rival", options=own_list(0, 1)))
    team.bound("rival")
    created = team.creates(train(options=own_list(0, 1)))
    assert not is_gated(created)
    until(lambda: is_refused(team.pod("train")), "a pod without cards")
    team.creates(train("other"))
    assert given(team.bound("other")) == [2, 3]
    stored = team.pod("train")
    assert pinned(stored) == [0, 1]
    assert "gpu.topology/placed" not in annotations_of(stored)


@pytest.fixture
def user(cluster: Cluster, team: Team) -> Tenant:
    """Who may edit the pods of the team; it is the pod ``train`` that it writes to."""
    return tenant(cluster.control_plane, team.admin, team.namespace, "train", f"user-{uuid4().hex}")


def test_a_list_that_a_user_writes_onto_a_waiting_pod_is_obeyed(team: Team, user: Tenant) -> None:
    splits_both_pairs(team)
    waits_for_better(team)
    assert user.patches(own_list(0, 2)).status_code == 200
    bound = team.bound("train")
    assert given(bound) == [0, 2]
    assert "names its cards itself" in team.told("train", "GT627")


def test_a_gate_that_a_user_removes_leaves_the_choice_to_hami(team: Team, user: Tenant) -> None:
    splits_both_pairs(team)
    waits_for_better(team)
    assert user.sends({"spec": {"schedulingGates": None}}).status_code == 200
    bound = team.bound("train")
    assert given(bound) == [0, 2]
    assert pinned(bound) == []


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


def test_without_the_policy_a_pin_that_a_user_changes_is_the_users(cluster: Cluster, team: Team, user: Tenant) -> None:
    with unprotected(cluster.control_plane, guarded(cluster, team)), cluster.hami.scheduling.away():
        team.creates(train())
        until(has_label(team, "train", "pinned"), "a pin")
        others = [card for card in range(4) if card not in pinned(team.pod("train"))]
        assert user.patches(own_list(*others)).status_code == 200
    assert given(team.bound("train")) == others


def test_without_the_policy_a_pin_that_a_user_removes_leaves_the_choice_to_hami(
    cluster: Cluster, team: Team, user: Tenant
) -> None:
    with unprotected(cluster.control_plane, guarded(cluster, team)), cluster.hami.scheduling.away():
        team.creates(train())
        until(has_label(team, "train", "pinned"), "a pin")
        assert user.patches({"nvidia.com/use-gpuuuid": None, "gpu.topology/placed": "\x00 no JSON"}).status_code == 200
    assert len(given(team.bound("train"))) == 2


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


def test_cards_are_held_for_the_pods_of_a_group_that_come_later(team: Team) -> None:
    def member(name: str) -> dict[str, Any]:
        written = train(name, options={"group-size": "2"})
        written["metadata"]["labels"] = {"gpu.topology/group": "pd"}
        return owned_by("StatefulSet", "pd", written)

    team.creates(member("first"))
    first = team.bound("first")
    team.told("first", "GT638")
    waits_for_a_pair(team, "other", "NoFreeCards")
    team.creates(member("second"))
    second = team.bound("second")
    assert sorted([*given(first), *given(second)]) == [0, 1, 2, 3]
    assert choice(first)["later"]["sets"] == [{"node": BRIDGED, "cards": choice(second)["cards"]}]
    team.deletes("first")
    assert given(team.bound("other")) == given(first)


def guarded(cluster: Cluster, team: Team) -> Tenant:
    """Whose forgeries tell whether the policy is in force."""
    team.creates(pod("guarded", container()))
    return tenant(cluster.control_plane, team.admin, team.namespace, "guarded", f"prober-{uuid4().hex}")


def test_cards_that_no_node_has_disturb_nobody_else(team: Team) -> None:
    lost = team.creates(train("lost", options={"nvidia.com/use-gpuuuid": f"{UNKNOWN},{FOREIGN[0]}"}))
    assert not is_gated(lost)
    until(lambda: is_refused(team.pod("lost")), "a pod without cards")
    claims = {"hami.io/vgpu-node": BRIDGED, "hami.io/vgpu-devices-allocated": f"{UNKNOWN},NVIDIA,81920,100:;"}
    team.creates(pod("ghost", container(), annotations=claims))
    team.creates(train())
    assert len(given(team.bound("train"))) == 2


def test_pods_that_say_they_are_on_every_node_make_none_full(team: Team) -> None:
    """``test_a_pod_goes_to_the_other_node_when_the_memory_of_its_own_is_taken`` has the opposite."""
    for node in (BRIDGED, H20):
        ghost = pod(f"ghost-{node}", container(), annotations={"hami.io/vgpu-node": node})
        ghost["spec"] |= {"schedulerName": "none"}
        ghost["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100000", "memory": "900Ti"}}
        assert not is_gated(team.creates(ghost))
    team.creates(train())
    bound = team.bound("train")
    assert (choice(bound)["node"], len(given(bound))) == (BRIDGED, 2)


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


@pytest.fixture
def third_node(cluster: Cluster) -> Iterator[str]:
    """The name of one more node with eight cards, which a test may take away."""
    (topology,) = machines(1)
    with cluster.control_plane.client() as client:
        admin, leases = CoreV1Api(client), CoordinationV1Api(client)
        create_nodes(cluster.control_plane, [topology])
        untaint(admin, topology.node)
        yield topology.node
        # In a whole cluster the garbage collector takes what belongs to a Node.
        admin.delete_namespaced_config_map(config_map_name(topology.node), NAMESPACE)
        leases.delete_namespaced_lease(config_map_name(topology.node), NAMESPACE)


def test_a_pod_goes_to_another_node_when_its_own_disappears(cluster: Cluster, team: Team, third_node: str) -> None:
    with cluster.hami.scheduling.away():
        cordon(team.admin, H20, on=True)
        team.creates(pod("train", container(gpus=8)))
        until(has_label(team, "train", "pinned"), "a pin")
        cordon(team.admin, H20, on=False)
        assert choice(team.pod("train"))["node"] == third_node
        team.admin.delete_node(third_node)
    bound = team.bound("train")
    assert bound["spec"]["nodeName"] == choice(bound)["node"] == H20
    assert len(cards_of(bound)[0]) == 8


def test_a_pod_whose_only_node_is_cordoned_is_let_go_and_runs_afterwards(cluster: Cluster, team: Team) -> None:
    with cluster.hami.scheduling.away():
        team.creates(train())
        until(has_label(team, "train", "pinned"), "a pin")
        cordon(team.admin, BRIDGED, on=True)
    try:
        until(placed_as(team, "train", "GivenUp"), "a pod that is let go")
    finally:
        cordon(team.admin, BRIDGED, on=False)
    assert pinned(team.bound("train")) == []


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


@pytest.mark.parametrize("restart", [{}, SIDECAR], ids=["init", "sidecar"])
def test_a_pod_whose_init_container_has_cards_does_not_wait(team: Team, restart: dict[str, Any]) -> None:
    init = container("fetch", gpus=1, **restart)
    created = team.creates(pod("train", container(gpus=2), node=BRIDGED, initContainers=[init]))
    assert not is_gated(created)
    assert "nvidia.com/use-gpuuuid" not in annotations_of(team.bound("train"))


def test_a_pod_that_is_created_anew_under_its_name_gets_cards_of_its_own(cluster: Cluster, team: Team) -> None:
    with cluster.hami.scheduling.away():
        for _ in range(20):
            team.creates(train("web-0"))
            team.deletes("web-0")
        last = team.creates(train("web-0"))
        until(has_label(team, "web-0", "pinned"), "a pin")
        team.creates(train("web-1"))
    bound = [team.bound(name) for name in ("web-0", "web-1")]
    assert bound[0]["metadata"]["uid"] == last["metadata"]["uid"]
    assert [choice(each)["attempt"] for each in bound] == [1, 1]
    assert sorted(given(bound[0]) + given(bound[1])) == [0, 1, 2, 3]


def test_all_pods_are_released_by_hand(cluster: Cluster, team: Team, planner: Planner) -> None:
    splits_both_pairs(team)
    with cluster.hami.scheduling.away():
        team.creates(pod("pinned", container(gpus=2), node=H20))
        until(has_label(team, "pinned", "pinned"), "a pin")
        waits_for_a_pair(team, "waiting")
        team.creates(pod("own", container(gpus=2), node=H20, annotations={"nvidia.com/use-gpuuuid": FOREIGN[7]}))
        planner.stop()
        printed = released(cluster, team)
        assert [line.split() for line in printed.splitlines()[1:]] == [
            [team.namespace, "pinned", "pin", "removed"],
            [team.namespace, "waiting", "gate", "opened"],
        ]
        for name in ("pinned", "waiting"):
            stored = team.pod(name)
            assert (is_gated(stored), annotations_of(stored).get("nvidia.com/use-gpuuuid")) == (False, None)
        assert annotations_of(team.pod("own"))["nvidia.com/use-gpuuuid"] == FOREIGN[7]
    assert "the scheduler chooses without the planner" in team.told("waiting", "GT685")
    team.bound("pinned")
    assert released(cluster, team) == "no pod waits for its cards or is pinned to some\n"


def released(cluster: Cluster, team: Team) -> str:
    """What the command prints about the pods of the team."""
    command = [sys.executable, "-m", "webhook", "place", "release", "--all", "--namespace", team.namespace]
    command += ["--kubeconfig", str(cluster.ours.planner)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=REQUEST_TIMEOUT_S, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    return found.stdout
