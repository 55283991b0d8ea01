"""What admission warns of in the settings of a pod: lists of GPUs, switches, and what peers would refuse."""

from typing import Any

import pytest

from tests.judge import TEAM_A, judge, policy
from tests.pods import ALL_ALLOWED, SHARED_MEMORY, Manifest, container, pod

NIXL = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
SERVER = '{"kv_connector":"LMCacheMPConnector","kv_connector_extra_config":{"lmcache.mp.host":"10.0.0.1"}}'
PEERS = {"gpu.topology/profile": "pod-peers"}


def codes(manifest: Manifest, **rules: Any) -> list[str]:
    """The codes of the warnings of an admitted pod, without those about switches for all pods of these tests."""
    outcome, _ = judge(manifest, ALL_ALLOWED, rules=policy(**rules))
    assert outcome.allowed, outcome.message
    return [warning.partition(":")[0] for warning in outcome.warnings]


def setting(name: str, value: str, gpus: int = 2, **fields: Any) -> Manifest:
    return pod(container(gpus=gpus, env=[{"name": name, "value": value}]), **fields)


@pytest.mark.parametrize(
    ("value", "warned"),
    [("4,5", True), ("0", True), ("", True), ("0,0", True), ("0,1", False), ("1,0", False), ("GPU-1,GPU-2", False)],
)
def test_numbers_with_which_cuda_does_not_use_all_gpus(value: str, *, warned: bool) -> None:
    assert codes(setting("CUDA_VISIBLE_DEVICES", value)) == (["GT228"] if warned else [])


def test_numbers_of_one_gpu() -> None:
    asked = {"gpu.topology/inject": "true"}
    assert "GT228" in codes(setting("CUDA_VISIBLE_DEVICES", "1", gpus=1, annotations=asked))
    assert "GT228" not in codes(setting("CUDA_VISIBLE_DEVICES", "0", gpus=1, annotations=asked))


@pytest.mark.parametrize(
    ("value", "strategy", "warned"),
    [
        ("all", "envvar", True),
        ("0,1", "envvar", True),
        ("none", "envvar", False),
        ("all", "volume-mounts", False),
        ("0,1", "cdi-cri", False),
    ],
)
def test_an_own_list_of_the_runtime_replaces_the_given_gpus_with_envvar(
    value: str, strategy: str, *, warned: bool
) -> None:
    found = codes(setting("NVIDIA_VISIBLE_DEVICES", value), cluster={"deviceListStrategy": strategy})
    assert found == (["GT229"] if warned else [])


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("export NCCL_P2P_DISABLE=1; torchrun train.py", True),
        ("mpirun -x NCCL_P2P_DISABLE=1 train", True),
        ("NCCL_P2P_LEVEL=LOC vllm serve m", True),
        ("export NCCL_P2P_DISABLE=0; torchrun train.py", False),
        ("export NCCL_P2P_DISABLE=$OFF; torchrun train.py", False),
        ("# export NCCL_P2P_DISABLE=1\ntorchrun train.py", False),
    ],
)
def test_a_switch_in_a_command(text: str, *, warned: bool) -> None:
    assert codes(pod(container(command=["bash", "-c", text]))) == (["GT427"] if warned else [])
    hook = {"exec": {"command": ["sh", "-c", text]}}
    assert codes(pod(container(livenessProbe=hook))) == []


def test_a_command_does_not_switch_hamis_library_off() -> None:
    _, after = judge(pod(container(command=["sh", "-c", "export CUDA_DISABLE_CONTROL=true; train"])))
    (main,) = after["spec"]["containers"]
    assert {"name": "CUDA_DISABLE_CONTROL", "value": "true"} in main["env"]


def decode(config: str = NIXL, **fields: Any) -> Manifest:
    return container("decode", 2, args=["--kv-transfer-config", config], **fields)


def test_what_the_profile_of_peers_refuses_is_said_with_the_profile() -> None:
    own = decode(
        env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"}],
        volumeMounts=[{"name": "shm", "mountPath": SHARED_MEMORY}],
    )
    outcome, _ = judge(pod(own, volumes=[{"name": "shm", "emptyDir": {}}]))
    said = [warning for warning in outcome.warnings if warning.startswith("GT576: node-peers refuses this pod")]
    assert ["CUDA_VISIBLE_DEVICES" in said[0], "volume shm" in said[1], len(said)] == [True, True, 2]
    assert "GT576" not in codes(pod(decode()))


def test_a_client_of_lmcaches_server_is_told_what_the_server_needs() -> None:
    assert "GT577" in codes(pod(decode(SERVER)))
    assert "GT577" not in codes(pod(decode()))


def test_kai_may_refuse_a_pod_whose_containers_get_the_list_of_the_runtime() -> None:
    assert "GT278" in codes(pod(schedulerName="kai-scheduler"))
    assert "GT278" not in codes(pod(schedulerName="kai-scheduler", annotations={"gpu.topology/remap": "binding"}))
    assert "GT278" not in codes(pod())


def test_one_refusal_stays_as_it_is() -> None:
    outcome, _ = judge(setting("CUDA_DISABLE_CONTROL", "false"), TEAM_A)
    assert outcome.message == (
        "GT213: container train sets CUDA_DISABLE_CONTROL itself, but whole cards need the literal true. Remove the "
        "variable, or opt out of injection"
    )
