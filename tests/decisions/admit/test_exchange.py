"""Pods that look like one side of an exchange of GPU memory are warned of, with the way that leads to NVLink."""

from typing import Any

import pytest

from tests.judge import TEAM_A, judge
from tests.pods import ALL_ALLOWED, container, pod, team_a
from webhook.objects.pod import Namespace

SGLANG = (
    "sleep 30 && python3 -m sglang.launch_server --host 0.0.0.0 --disaggregation-mode prefill "
    "--disaggregation-transfer-backend nixl --tp-size 2"
)
NIXL_BETWEEN_PODS = "GT570: prefill seems to exchange GPU memory (SGLang nixl); peers have no way to it"
NODE_WAY = (
    "GT571: set gpu.topology/profile: node-peers and one gpu.topology/group on all peers, or gpu.topology/peers: none"
)
POD_WAY = "GT572: set gpu.topology/profile: pod-peers, or gpu.topology/peers: none if its containers exchange none"


def side(name: str = "prefill", gpus: int | None = 2, **fields: Any) -> dict[str, Any]:
    """A container of SGLang, as one side of prefill and decode."""
    return container(name, gpus, command=["bash", "-c", SGLANG], **fields)


def told(manifest: dict[str, Any], namespace: Namespace = ALL_ALLOWED) -> list[str]:
    """The warnings about an exchange."""
    outcome, _ = judge(manifest, namespace)
    return [warning for warning in outcome.warnings if warning.startswith("GT57")]


def test_a_side_of_an_exchange_is_told_the_profile_the_group_and_what_the_namespace_lacks() -> None:
    needs = "GT573: for node-peers: kubectl label ns team-a"
    assert told(pod(side()), TEAM_A) == [
        f"{NIXL_BETWEEN_PODS} in profile exclusive",
        NODE_WAY,
        f"{needs} gpu.topology/allow-node-gpus=true gpu.topology/allow-host-ipc=true",
        f"{needs} gpu.topology/allow-host-pid=true",
    ]


def test_labels_that_the_namespace_has_are_not_told() -> None:
    assert told(pod(side())) == [f"{NIXL_BETWEEN_PODS} in profile exclusive", NODE_WAY]
    granted = {"gpu.topology/allow-host-ipc": "true", "gpu.topology/allow-host-pid": "true"}
    some = Namespace("team-a", TEAM_A.labels | granted)
    assert told(pod(side()), some)[2:] == [
        "GT573: for node-peers: kubectl label ns team-a gpu.topology/allow-node-gpus=true"
    ]


def test_a_long_name_of_a_namespace_gets_one_label_a_warning() -> None:
    long = Namespace("n" * 63, TEAM_A.labels)
    manifest = pod(side())
    manifest["metadata"]["namespace"] = long.name
    assert len(told(manifest, long)) == 5


def test_two_containers_of_one_pod_are_told_pod_peers_and_no_label() -> None:
    both, first = [side(), side("decode")], f"{NIXL_BETWEEN_PODS} in profile exclusive"
    assert told(pod(*both), TEAM_A) == [first, POD_WAY]
    assert told(pod(side(), container("decode")), TEAM_A) == [first, POD_WAY]


def test_a_pod_with_one_card_is_told_that_it_is_left_alone() -> None:
    assert told(pod(side(gpus=1))) == [f"{NIXL_BETWEEN_PODS} without a profile for peers", NODE_WAY]
    assert told(pod(side(gpus=1), side("decode", 1)))[-1] == POD_WAY


@pytest.mark.parametrize("profile", ["pod-peers", "node-peers"])
def test_a_profile_of_peers_is_the_way(profile: str) -> None:
    assert told(pod(side(), side("decode"), annotations={"gpu.topology/profile": profile})) == []


@pytest.mark.parametrize("gpus", [1, 2])
def test_peers_none_says_that_it_is_not_meant(gpus: int) -> None:
    assert told(pod(side(gpus=gpus), annotations={"gpu.topology/peers": "none"})) == []
    assert told(pod(side(gpus=gpus)), team_a({"gpu.topology/peers": "none"})) == []
    assert told(pod(side(gpus=gpus), annotations={"gpu.topology/peers": "auto"})) != []


def test_a_wrong_value_of_peers_is_refused() -> None:
    outcome, _ = judge(pod(side(), annotations={"gpu.topology/peers": "node"}), ALL_ALLOWED)
    assert 'expected one of auto, none, found "node"' in outcome.message


def test_containers_without_gpus_and_init_containers_exchange_nothing() -> None:
    assert told(pod(container("train"), side("router", None))) == []
    assert told(pod(container("train"), initContainers=[side("prepare")])) == []


def test_a_slice_and_a_pod_without_the_label_of_its_namespace_are_not_told() -> None:
    slice_ = container("prefill", 1, command=["bash", "-c", SGLANG])
    slice_["resources"]["limits"]["nvidia.com/gpumem"] = 1000
    assert told(pod(slice_)) == []
    assert told(pod(side()), Namespace("team-a", {})) == []


def test_a_pod_that_is_only_observed_is_told_too() -> None:
    assert told(pod(side(), annotations={"gpu.topology/profile": "observe"}))[0].endswith("in profile exclusive")


@pytest.mark.parametrize("gpus", [1, 2])
def test_the_signs_change_no_patch(gpus: int) -> None:
    says = [{"gpu.topology/peers": value} for value in ("auto", "none")]
    sleeping = container("prefill", gpus, command=["bash", "-c", "sleep 30"])
    with_sign, without = (judge(pod(side(gpus=gpus), annotations=said), ALL_ALLOWED)[0] for said in says)
    plain, _ = judge(pod(sleeping, annotations=says[0]), ALL_ALLOWED)
    assert len(with_sign.warnings) > len(without.warnings)
    assert with_sign.operations == without.operations == plain.operations
    assert (with_sign.kind, with_sign.reason) == (without.kind, without.reason) == (plain.kind, plain.reason)
