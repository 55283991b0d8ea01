"""Pods of ``node-peers`` without namespaces of the host: what they get, what they need, and what they are told."""

from typing import Any

import pytest

from tests.judge import judge
from tests.pods import ALL_ALLOWED, container, effective_env, pod, team_a
from webhook.words.outcome import Kind, Outcome, Reason

SEES_NODE = team_a(None, **{"gpu.topology/allow-node-gpus": "true", "pod-security.kubernetes.io/enforce": "baseline"})
"""A namespace that gives no host namespace, neither by a permission nor by its Pod Security level."""
VLLM = '--kv-transfer-config={{"kv_connector":"{}","kv_role":"kv_producer"}}'


def isolated(*containers: dict[str, Any], namespace: Any = SEES_NODE, **fields: Any) -> tuple[Outcome, dict[str, Any]]:
    options = {"gpu.topology/profile": "node-peers", "gpu.topology/isolation": "isolated"} | fields.pop("options", {})
    return judge(pod(*containers or (container("serve", 1),), annotations=options, **fields), namespace)


def test_the_namespace_may_say_it() -> None:
    namespace = team_a(
        {"gpu.topology/profile": "node-peers", "gpu.topology/isolation": "isolated"},
        **{"gpu.topology/allow-node-gpus": "true"},
    )
    outcome, after = judge(pod(container("serve", 2)), namespace)
    assert (outcome.kind, after["spec"]["shareProcessNamespace"]) == (Kind.PATCH, True)


def test_it_still_needs_the_permission_to_see_the_gpus_of_the_node() -> None:
    outcome, _ = isolated(namespace=team_a())
    assert outcome.reason is Reason.MISSING_PERMISSION
    assert 'gpu.topology/allow-node-gpus: "true"' in outcome.message
    assert "host" not in outcome.message


def test_another_value_is_refused() -> None:
    outcome, _ = isolated(options={"gpu.topology/isolation": "none"})
    assert outcome.reason is Reason.BAD_ANNOTATION
    assert 'expected one of host, isolated, found "none"' in outcome.message


@pytest.mark.parametrize(
    ("options", "spec", "code"),
    [
        ({"gpu.topology/remap": "binding"}, {}, "GT515"),
        ({}, {"shareProcessNamespace": False}, "GT516"),
    ],
)
def test_what_keeps_its_process_ids_from_being_its_own_is_refused(
    options: dict[str, str], spec: dict[str, Any], code: str
) -> None:
    outcome, _ = isolated(options=options, **spec)
    assert outcome.reason is Reason.CONTRADICTS_PROFILE
    assert outcome.message.startswith(code)
    accepted, _ = isolated(options=options | {"gpu.topology/isolation": "host"}, namespace=ALL_ALLOWED, **spec)
    assert accepted.kind is not Kind.REFUSE


@pytest.mark.parametrize(
    ("field", "told"), [("ipc", "hostIPC all the same"), ("pid", "hostPID all the same")], ids=["ipc", "pid"]
)
def test_a_host_namespace_that_an_option_asks_for_is_given_and_told(field: str, told: str) -> None:
    outcome, after = isolated(options={f"gpu.topology/host-{field}": "true"}, namespace=ALL_ALLOWED)
    (warning,) = outcome.warnings
    assert warning.startswith("GT518")
    assert told in warning
    assert after["spec"][f"host{field.upper()}"] is True
    with_own_ids = "GPU_TOPOLOGY_ISOLATION" in effective_env(after, "gpu-topology-remap")
    assert with_own_ids is after["spec"].get("shareProcessNamespace", False) is (field == "ipc")


@pytest.mark.parametrize("profile", ["exclusive", "pod-peers"])
def test_in_another_profile_it_has_no_effect_and_the_pod_that_says_it_is_told(profile: str) -> None:
    options = {"gpu.topology/profile": profile}
    outcome, after = judge(pod(annotations=options | {"gpu.topology/isolation": "isolated"}))
    plain, without = judge(pod(annotations=options))
    assert outcome.warnings == [f"GT514: gpu.topology/isolation has no effect in profile {profile}, only in node-peers"]
    assert plain.warnings == []
    assert after["spec"] == without["spec"]
    by_namespace, _ = judge(pod(annotations=options), team_a({"gpu.topology/isolation": "isolated"}))
    assert by_namespace.warnings == []


@pytest.mark.parametrize(
    ("fields", "sign"),
    [
        ({"args": [VLLM.format("P2pNcclConnector")]}, "P2pNcclConnector"),
        ({"command": ["torchrun", "--nnodes=2", "train.py"]}, "mpirun, torchrun or the like"),
        ({"env": [{"name": "NCCL_HOSTID", "value": "one"}]}, "NCCL_HOSTID"),
        ({"args": [VLLM.format("NixlConnector")]}, ""),
        ({"env": [{"name": "UCX_TLS", "value": "cuda_ipc,cuda_copy,sm,self,tcp"}]}, ""),
    ],
    ids=["nccl-connector", "ranks", "host-id", "nixl", "ucx"],
)
def test_nccl_between_pods_is_told_and_nixl_and_ucx_are_not(fields: dict[str, Any], sign: str) -> None:
    outcome, _ = isolated(container("serve", 2, **fields))
    expected = f"GT517: serve seems to use NCCL between pods ({sign}), but isolated pods share no /dev/shm"
    assert outcome.warnings == [expected] * bool(sign)
