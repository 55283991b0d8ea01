"""What goes wrong between choice and Binding, with the real HAMi: the pod gets other cards, or says why it waits."""

from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from tests.control_plane.hami.cluster import BRIDGED, H20, Cluster
from tests.control_plane.hami.placed import (
    choice,
    given,
    has_label,
    is_gated,
    own_list,
    pinned,
    train,
)
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, annotations_of, cards_of
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration")]


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
