"""Pods of high priority that lack only CPU: the real scheduler evicts others for them, with the planner as without."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from kubernetes.client import ApiException, SchedulingV1Api, V1ObjectMeta, V1PriorityClass

from tests.control_plane.hami.cluster import BRIDGED, Cluster
from tests.control_plane.hami.placed import DENY, choice, given, has_label, is_gated, pinned, placed_as, reason, train
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration", "priorities"), pytest.mark.long]

URGENT, NEVER, SOME = "urgent", "urgent-never", "some"


@pytest.fixture
def priorities(cluster: Cluster) -> None:
    """Priorities above that of all other pods, of which one evicts nobody."""
    with cluster.control_plane.client() as client:
        api = SchedulingV1Api(client)
        for name, value, policy in ((URGENT, 1000, None), (NEVER, 1000, "Never"), (SOME, 10, None)):
            metadata = V1ObjectMeta(name=name)
            try:
                api.create_priority_class(V1PriorityClass(metadata=metadata, value=value, preemption_policy=policy))
            except ApiException as error:
                if error.status != 409:  # an earlier test made it
                    raise


def hog(team: Team, name: str = "hog", node: str = BRIDGED, **spec: Any) -> None:
    """A pod without cards that takes most of the CPU of a node."""
    resources = {"requests": {"cpu": "180"}}
    team.creates(pod(name, container(resources=resources), nodeName=node, schedulerName="other", **spec))


def wants_room(name: str = "train", *, options: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of two cards of the bridged node, and of more CPU than is left beside a hog."""
    written = train(name, options=options, **spec)
    written["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "100"}
    return written


def is_evicted(team: Team, name: str = "hog") -> Callable[[], bool]:
    """Whether the pod is being deleted. No kubelet stops it here."""
    return lambda: "deletionTimestamp" in team.pod(name)["metadata"]


def nominated(stored: Mapping[str, Any]) -> str:
    """The node on which the scheduler makes room for the pod."""
    return str(stored.get("status", {}).get("nominatedNodeName", ""))


def condition(stored: Mapping[str, Any]) -> str:
    """What the planner says of the pod."""
    found = [each for each in stored["status"].get("conditions", ()) if each["type"] == "gpu.topology/Placed"]
    return str(found[0]["message"]) if found else ""


@pytest.mark.parametrize("options", [{}, DENY], ids=["warn", "deny"])
def test_with_the_planner_it_evicts_too_and_the_pod_keeps_its_cards_meanwhile(
    team: Team, options: dict[str, str]
) -> None:
    hog(team)
    assert is_gated(team.creates(wants_room(options=options, priorityClassName=URGENT)))
    until(is_evicted(team), "an eviction")
    until(lambda: nominated(team.pod("train")) == BRIDGED, "a nomination")
    until(lambda: condition(team.pod("train")).startswith("GT652"), "the word of the planner, which follows its patch")
    stored = team.pod("train")
    assert choice(stored)["preempts"] is True
    cards = pinned(stored)
    assert cards in ([0, 1], [2, 3])
    team.creates(train("second", options=options, priorityClassName=URGENT))
    until(has_label(team, "second", "pinned"), "a pin to other cards")
    team.deletes("hog")
    bound, second = team.bound("train"), team.bound("second")
    assert given(bound) == cards
    assert given(second) == [card for card in range(4) if card not in cards]
    assert choice(bound)["attempt"] == choice(second)["attempt"] == 1


def test_nobody_is_evicted_for_cards_nor_by_a_pod_of_equal_priority_or_that_may_not(team: Team) -> None:
    hog(team)
    team.creates(wants_room("equal", options=DENY))
    team.creates(wants_room("never", options=DENY, priorityClassName=NEVER))
    until(placed_as(team, "equal", "NoNode"), "a pod of equal priority that waits")
    until(placed_as(team, "never", "NoNode"), "a pod that may evict nobody")
    assert "cpu left" in condition(team.pod("equal"))
    assert "preemptionPolicy" in condition(team.pod("never"))
    team.creates(train("owner", gpus=4, options={"place": "off"}))
    team.bound("owner")
    team.creates(train("urgent", options=DENY, priorityClassName=URGENT))
    until(placed_as(team, "urgent", "NoFreeCards"), "a pod that waits for cards")
    team.creates(wants_room("both", options=DENY, priorityClassName=URGENT))
    until(lambda: reason(team.pod("both")) in ("NoNode", "NoFreeCards"), "a pod that waits for cards and room")
    assert all(is_gated(team.pod(name)) for name in ("equal", "never", "urgent", "both"))
    assert not is_evicted(team)()
    assert not is_evicted(team, "owner")()
