"""Rules of HAMi that our code takes for granted (``tests/facts/hami.toml``), with pods that our webhook never saw."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from tests.control_plane.hami.cluster import H20, topologies
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.device_plugin import PHASE
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, annotations_of, cards_of
from tests.programs.server.conftest import until
from webhook.objects.failed_creation import Cause, failed_creation
from webhook.words.names import (
    DEFAULT_SCHEDULER,
    HAMI_DEVICE_CORDON,
    HAMI_DEVICES_ALLOCATED,
    HAMI_NODE_REGISTER,
    HAMI_SCHEDULER_POLICY,
)

pytestmark = pytest.mark.cluster

HAMI_WEBHOOK, HAMI_SCHEDULER = "vgpu.hami.io", "hami-scheduler"
PRIVILEGED = container("shell", securityContext={"privileged": True})
CARDS = topologies()[0].gpus
NUMA_NODES = {gpu.uuid: gpu.numa_node for gpu in CARDS}


@pytest.fixture
def team(new_team: NewTeam) -> Team:
    return new_team()


@contextmanager
def cordoned(admin: CoreV1Api, *uuids: str) -> Iterator[None]:
    """HAMi's cordon of the H20 names these cards until the end of the block, and the register has another order.

    HAMi looks at the cordon when it reads the register anew, which it does when the text of that has changed. Its
    device plugin writes the cards in another order each time (plugin/register.go).
    """
    stored: Any = admin.read_node(H20)
    register = json.loads(stored.metadata.annotations[HAMI_NODE_REGISTER])
    orders = {",".join(uuids): register[::-1], None: register}
    for value, cards in orders.items():
        body: Any = {"metadata": {"annotations": {HAMI_DEVICE_CORDON: value, HAMI_NODE_REGISTER: json.dumps(cards)}}}
        admin.patch_node(H20, body)
        if value is not None:
            yield


def train(gpus: int, annotations: Mapping[str, str], *, name: str = "train") -> dict[str, Any]:
    return pod(name, container(gpus=gpus), node=H20, annotations=annotations)


def scheduled(team: Team, name: str) -> str | None:
    """The reason why the scheduler has found no node; empty for a pod that HAMi has served, None if it is not known."""
    stored = team.pod(name)
    if stored["metadata"].get("annotations", {}).get(PHASE) == "success":
        return ""
    conditions = {each["type"]: each for each in stored["status"].get("conditions", ())}
    reason: str | None = conditions.get("PodScheduled", {}).get("reason")
    return reason


def finds_no_node(team: Team, name: str = "train") -> None:
    """Returns once the scheduler has looked for a node in vain."""
    until(lambda: scheduled(team, name) == "Unschedulable", f"no node for {name}")


@pytest.mark.parametrize("word", ["h20", "H20"])
def test_a_type_of_card_is_a_part_of_its_name_in_any_case(team: Team, word: str) -> None:
    team.creates(train(1, {"nvidia.com/use-gputype": word}))
    assert len(cards_of(team.bound("train"))[0]) == 1


@pytest.mark.long
def test_a_pod_bound_to_a_numa_node_gets_no_more_cards_than_one_has(team: Team) -> None:
    largest = max(list(NUMA_NODES.values()).count(each) for each in NUMA_NODES.values())
    assert largest < len(CARDS)
    team.creates(train(largest, {"nvidia.com/numa-bind": "true"}))
    (cards,) = cards_of(team.bound("train"))
    assert len({NUMA_NODES[uuid] for uuid in cards}) == 1
    team.creates(train(largest + 1, {"nvidia.com/numa-bind": "true"}, name="larger"))
    finds_no_node(team, "larger")


@pytest.mark.long
@pytest.mark.parametrize("release", ["2.10.0"], indirect=True)
def test_hami_2_10_gives_no_card_that_is_cordoned(team: Team) -> None:
    first, *others = [card.uuid for card in CARDS]
    only_first = {"nvidia.com/use-gpuuuid": first}

    def is_refused() -> bool:
        """Whether HAMi, which looks every 15 seconds, gives the card to no pod."""
        team.creates(train(1, only_first))
        until(lambda: scheduled(team, "train") is not None, "an answer of the scheduler")
        refused = scheduled(team, "train") == "Unschedulable"
        team.deletes("train")
        until(lambda: team.has_no_pods(""), "no pod")
        return refused

    assert not is_refused()
    with cordoned(team.admin, first):
        until(is_refused, "a refusal of the cordoned card")
        team.creates(train(len(others), {}))
        assert set(cards_of(team.bound("train"))[0]) == set(others)
        team.deletes("train")
        until(lambda: team.has_no_pods(""), "no pod")
    until(lambda: not is_refused(), "the card is given again")


def test_hami_names_its_scheduler_in_pods_with_gpus_and_leaves_those_of_others_alone(team: Team) -> None:
    def scheduler(asked: dict[str, Any]) -> str:
        answer = team.asks_for(asked, dry_run=True)
        assert answer.status == 201, answer.message
        found: str = answer.body["spec"]["schedulerName"]
        return found

    assert scheduler(pod("train", container(gpus=1))) == HAMI_SCHEDULER
    assert scheduler(pod("train", container(gpus=1), schedulerName="volcano")) == "volcano"
    assert scheduler(pod("train", container())) == DEFAULT_SCHEDULER


def test_hami_refuses_a_pod_with_gpus_whose_node_is_set(team: Team) -> None:
    refused = team.asks_for(pod("train", container(gpus=1), nodeName=H20), dry_run=True)
    said = failed_creation(refused.message)
    assert refused.status == 403
    assert said is not None
    assert (said.cause, said.webhook) == (Cause.REFUSED, HAMI_WEBHOOK)
    assert team.asks_for(pod("train", container(), nodeName=H20), dry_run=True).status == 201


def test_hami_2_10_refuses_a_privileged_container_beside_gpus_and_2_9_does_not(team: Team, release: str) -> None:
    # An API server that starts like that of the tests refuses privileged containers too, after all webhooks.
    in_its_own_words = 422
    answer = team.asks_for(pod("train", container(gpus=1), PRIVILEGED), dry_run=True)
    assert answer.status == {"2.9.0": in_its_own_words, "2.10.0": 403}[release], answer.message
    assert (HAMI_WEBHOOK in answer.message) == (release == "2.10.0")
    assert team.asks_for(pod("train", PRIVILEGED), dry_run=True).status == in_its_own_words


def test_a_quota_of_cards_is_told_as_such(new_team: NewTeam) -> None:
    team = new_team(quota="cards")
    hard = {"requests.nvidia.com/gpu": "1"}
    quota: Any = {"metadata": {"name": "cards"}, "spec": {"hard": hard}}
    team.admin.create_namespaced_resource_quota(team.namespace, quota)
    team.changed = True
    # What kube-controller-manager counts, which does not run.
    counted: Any = {"status": {"hard": hard, "used": {"requests.nvidia.com/gpu": "0"}}}
    team.admin.patch_namespaced_resource_quota_status("cards", team.namespace, counted)
    until(lambda: team.asks_for(pod("train", container(gpus=2)), dry_run=True).status == 403, "the quota")
    said = failed_creation(team.asks_for(pod("train", container(gpus=2)), dry_run=True).message)
    assert said is not None
    assert said.cause is Cause.QUOTA
    assert said.said.startswith("cards, requested: requests.nvidia.com/gpu=2")


def memory_of(team: Team, **resources: int) -> int:
    """The MiB of the only card that HAMi writes down for a pod with these resources."""
    limits = {f"nvidia.com/{name.replace('_', '-')}": str(amount) for name, amount in resources.items()}
    team.creates(pod("train", container(resources={"limits": {"nvidia.com/gpu": "1"} | limits}), node=H20))
    (device,) = annotations_of(team.bound("train"))[HAMI_DEVICES_ALLOCATED].rstrip(";:").split(":")
    return int(device.split(",")[2])


def test_memory_in_mib_wins_over_the_percentage(team: Team) -> None:
    assert memory_of(team, gpumem=20000, gpumem_percentage=50) == 20000


def test_without_it_the_percentage_counts(team: Team) -> None:
    assert memory_of(team, gpumem_percentage=50) == CARDS[0].memory_mib // 2


@pytest.mark.long
@pytest.mark.parametrize("release", ["2.10.0"], indirect=True)
@pytest.mark.parametrize("policy", ["mutex", "binpack"])
def test_mutex_gives_idle_cards_only(team: Team, policy: str) -> None:
    part = container(resources={"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2000"}})
    on_first = {"nvidia.com/use-gpuuuid": CARDS[0].uuid}
    team.creates(pod("there", part, node=H20, annotations=on_first))
    team.bound("there")
    team.creates(pod("train", part, node=H20, annotations=on_first | {HAMI_SCHEDULER_POLICY: policy}))
    if policy == "mutex":
        finds_no_node(team)
    else:
        assert cards_of(team.bound("train")) == [[CARDS[0].uuid]]


@pytest.mark.long
def test_hami_2_9_adds_the_cards_of_init_containers_and_2_10_takes_the_greater_number(team: Team, release: str) -> None:
    every = len(CARDS)
    team.creates(pod("train", container(gpus=every), node=H20, initContainers=[container("setup", gpus=every)]))
    if release == "2.9.0":
        finds_no_node(team)
    else:
        assert [len(cards) for cards in cards_of(team.bound("train"))] == [every, every]
