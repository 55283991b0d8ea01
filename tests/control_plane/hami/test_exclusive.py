"""One container, four GPUs: from its creation to the values that the kubelet reads, by the real HAMi."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.control_plane.hami.cluster import H20, Cluster
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.scheduler import USER
from tests.control_plane.hami.team import annotations_of, cards_of, variables_of
from tests.control_plane.installation import registered
from tests.hardware.topology.machines import H20_UUIDS

pytestmark = pytest.mark.cluster

WHOLE = {"nvidia.com/gpu": "4", "nvidia.com/gpucores": "100", "nvidia.com/gpumem-percentage": "100"}


def indices_of(cards: list[str]) -> list[int]:
    return sorted(H20_UUIDS.index(card) for card in cards)


def worker_of(stored: dict[str, Any]) -> Any:
    (worker,) = (each for each in stored["spec"]["containers"] if each["name"] == "worker")
    return worker


@pytest.mark.parametrize("order", ["ours-first", pytest.param("hami-first", marks=pytest.mark.long)])
def test_a_pod_with_four_gpus_gets_whole_cards_and_true_values(cluster: Cluster, new_team: NewTeam, order: str) -> None:
    # The API server asks in the order of the names of the configurations.
    name = {"ours-first": "gpu-topology-webhook", "hami-first": "z-gpu-topology-webhook"}[order]
    with registered(cluster.ours, cluster.ours.registration(name, scheduler=USER)):
        team = new_team(injection="enabled")
        created = team.creates(pod("train", container(gpus=4), node=H20))
        bound = team.bound("train")
    assert created["spec"]["schedulerName"] == "hami-scheduler"
    worker = worker_of(bound)
    assert worker["resources"] == {"limits": WHOLE, "requests": WHOLE}
    assert variables_of(worker)["CUDA_DISABLE_CONTROL"] == "true"
    assert variables_of(worker)["NCCL_P2P_LEVEL"] == "metadata.annotations['gpu.topology/nccl-p2p-level']"
    (cards,) = cards_of(bound)
    assert len(set(cards)) == 4
    annotations = annotations_of(bound)
    assert bound["spec"]["nodeName"] == H20
    assert sorted(map(int, annotations["gpu.topology/ring-order"].split(","))) == indices_of(cards)
    assert annotations["gpu.topology/link"] == "NVSwitch"
    assert annotations["gpu.topology/nccl-p2p-level"] == "auto"
    assert annotations["gpu.topology/satisfied"] == "true"


def test_without_our_webhook_the_same_pod_has_nothing_of_it(new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    team.creates(pod("train", container(gpus=4), node=H20))
    bound = team.bound("train")
    assert len(cards_of(bound)[0]) == 4
    assert variables_of(worker_of(bound)) == {}
    assert not [key for key in annotations_of(bound) if key.startswith("gpu.topology/")]
    assert [each["name"] for each in bound["spec"].get("initContainers", [])] == []


Written = Callable[[], dict[str, Any]]


@pytest.mark.usefixtures("registration")
@pytest.mark.parametrize(
    ("labels", "written"),
    [
        ({}, lambda: pod("train", container(gpus=4), node=H20)),
        ({"injection": "enabled"}, lambda: pod("cpu", container())),
    ],
    ids=["not-opted-in", "no-gpu"],
)
def test_whoever_did_not_ask_for_us_gets_nothing_from_us(
    new_team: NewTeam, labels: dict[str, str], written: Written
) -> None:
    team = new_team(**labels)
    asked = written()
    name = asked["metadata"]["name"]
    created = team.creates(asked)
    stored = team.bound(name) if name != "cpu" else created
    assert not [key for key in annotations_of(stored) if key.startswith("gpu.topology/")]
    assert "initContainers" not in stored["spec"]
    assert "CUDA_DISABLE_CONTROL" not in variables_of(worker_of(stored))


@pytest.mark.usefixtures("registration")
def test_a_slice_stays_a_slice_in_the_eyes_of_hami(new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "20000", "nvidia.com/gpucores": "30"}
    team.creates(pod("slice", container(resources={"limits": limits}), node=H20))
    allocated = annotations_of(team.bound("slice"))["hami.io/vgpu-devices-allocated"]
    assert allocated.split(",")[2:] == ["20000", "30:;"]
