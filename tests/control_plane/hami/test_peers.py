"""Containers and pods that exchange GPU memory: each computes on its own cards and sees those of the others."""

from typing import Any

import pytest

from tests.control_plane.hami.cluster import H20, topologies
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.pods import CUDA, container, owned_by, pod
from tests.control_plane.hami.team import PERMISSIONS, annotations_of, cards_of, variables_of

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration")]

PEERS = {"profile": "node-peers"}
APART = {"hami.io/node-scheduler-policy": "spread"}
"""Has HAMi choose the emptiest node."""


def half(name: str, annotations: dict[str, str], **fields: Any) -> dict[str, Any]:
    """One pod of a pair of Deployments, as a ReplicaSet creates it."""
    written = pod(name, container(gpus=2), annotations=annotations, **fields)
    return owned_by("ReplicaSet", f"{name}-5d9c7b8f64", written)


def indices_on(node: str, cards: list[str]) -> list[int]:
    """NVML indices on that node, in order."""
    (topology,) = (each for each in topologies() if each.node == node)
    return sorted(gpu.index for gpu in topology.gpus if gpu.uuid in cards)


def written_out(indices: list[int]) -> str:
    return ",".join(map(str, indices))


def test_each_half_of_a_pair_gets_the_indices_of_its_own_cards_on_one_node(new_team: NewTeam) -> None:
    team = new_team(injection="enabled", **PERMISSIONS)
    bound = []
    for name in ("prefill", "decode"):
        team.creates(half(name, {**PEERS, **APART, "group": "qwen"}))
        bound.append(team.bound(name))
    (node,) = {each["spec"]["nodeName"] for each in bound}
    cards = [cards_of(each)[0] for each in bound]
    assert len({card for pair in cards for card in pair}) == 4
    for each, own in zip(bound, cards, strict=True):
        assert annotations_of(each)[f"{CUDA}.0"] == written_out(indices_on(node, own))
        variables = variables_of(each["spec"]["containers"][0])
        assert variables["NVIDIA_VISIBLE_DEVICES"] == "all"
        assert variables["CUDA_VISIBLE_DEVICES"] == f"metadata.annotations['{CUDA}.0']"
        assert variables["NCCL_HOSTID"] == "spec.nodeName"
        assert (each["spec"]["hostIPC"], each["spec"]["hostPID"]) == (True, True)


def test_without_a_group_hami_puts_the_halves_on_two_nodes(new_team: NewTeam) -> None:
    team = new_team(injection="enabled", **PERMISSIONS)
    nodes = []
    for name in ("prefill", "decode"):
        team.creates(half(name, {**PEERS, **APART}))
        nodes.append(team.bound(name)["spec"]["nodeName"])
    assert len(set(nodes)) == 2


@pytest.mark.parametrize("sidecar", [False, True], ids=["two-containers", "with-init-container-and-sidecar"])
def test_containers_of_one_pod_share_the_list_and_keep_their_own_positions(new_team: NewTeam, *, sidecar: bool) -> None:
    team = new_team(injection="enabled")
    before = [container("fetch"), container("mesh", restartPolicy="Always")] if sidecar else []
    halves = [container("prefill", gpus=2), container("router"), container("decode", gpus=2)]
    team.creates(pod("pair", *halves, node=H20, annotations={"profile": "pod-peers"}, initContainers=before))
    bound = team.bound("pair")
    first, second = (indices_on(H20, cards) for cards in cards_of(bound))
    union = sorted(first + second)
    annotations = annotations_of(bound)
    assert len(union) == len(set(union)) == 4
    assert annotations[f"{CUDA}.0"] == written_out([union.index(index) for index in first])
    assert annotations[f"{CUDA}.1"] == written_out([union.index(index) for index in second])
    assert indices_on(H20, annotations["gpu.topology/visible-uuids"].split(",")) == union
    assert bound["spec"]["shareProcessNamespace"] is True
    names = [each["name"] for each in bound["spec"]["initContainers"]]
    assert names == ["gpu-topology-remap", *(["fetch", "mesh"] if sidecar else [])]
    for each in (*bound["spec"]["initContainers"], *bound["spec"]["containers"]):
        assert variables_of(each)["CUDA_DISABLE_CONTROL"] == "true"
