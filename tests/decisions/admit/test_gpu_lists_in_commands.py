"""Commands that set GPU lists, containers that see every card, variables that take NVLink away: who is told what."""

from typing import Any

import pytest

from tests.judge import HAMI_2_9, HAMI_2_10_0, judge
from tests.pods import ALL_ALLOWED, Manifest, container, pod
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.words.outcome import Kind, Outcome, Reason
from webhook.words.version import Version

SETS: dict[str, Any] = {"command": ["bash", "-c", "sleep 30 && CUDA_VISIBLE_DEVICES=0,1 train"]}
READS: dict[str, Any] = {"command": ["bash", "-c", "echo $CUDA_VISIBLE_DEVICES; train"]}
PRIVILEGED: dict[str, Any] = {"securityContext": {"privileged": True}}
PEERS = ["pod-peers", "node-peers"]


def admitted(*containers: Manifest, cluster: ClusterFacts = HAMI_2_9, **annotations: str) -> Outcome:
    """Annotations are ``profile="pod-peers"``, ``on_violation="deny"``."""
    ours = {f"gpu.topology/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return judge(pod(*containers, annotations=ours), ALL_ALLOWED, cluster)[0]


def codes(outcome: Outcome) -> list[str]:
    """Of the warnings that have one."""
    return [warning.partition(":")[0] for warning in outcome.warnings if warning.startswith("GT")]


def test_in_exclusive_a_command_has_none_but_its_own_gpus_in_sight() -> None:
    outcome = admitted(container(**SETS), profile="exclusive", on_violation="deny")
    assert (outcome.kind, outcome.warnings) == (Kind.PATCH, [])


def test_unless_the_container_is_privileged() -> None:
    outcome = admitted(container(**SETS, **PRIVILEGED), profile="exclusive", on_violation="deny")
    assert (outcome.kind, codes(outcome)) == (Kind.PATCH, ["GT226", "GT404"])


def test_containers_without_gpus_and_those_that_are_left_out_may_set_what_they_like() -> None:
    helper = container("helper", None, **SETS)
    assert admitted(container(), helper, profile="pod-peers", on_violation="deny").kind is Kind.PATCH
    left_out = admitted(
        container(), container("other", **SETS), profile="pod-peers", containers="train", on_violation="deny"
    )
    assert (left_out.kind, codes(left_out)) == (Kind.PATCH, [])


def test_a_profile_that_only_observes_says_it_too() -> None:
    namespace = ALL_ALLOWED
    manifest = pod(container(**SETS), annotations={"gpu.topology/profile": "observe"})
    observed = type(namespace)("team-a", namespace.labels, {"gpu.topology/profile": "pod-peers"})
    outcome, _ = judge(manifest, observed)
    assert outcome.reason is Reason.OBSERVED
    assert "GT404" in codes(outcome)


VERSIONS = [ClusterFacts(hami=Version(*hami), kubernetes=Version(1, 33)) for hami in ((2, 5), (2, 8), (2, 9))]


@pytest.mark.parametrize("cluster", [*VERSIONS, HAMI_2_10_0, ClusterFacts()])
@pytest.mark.parametrize("profile", ["exclusive", *PEERS])
def test_a_privileged_gpu_container_is_warned_of_on_every_version(profile: str, cluster: ClusterFacts) -> None:
    assert "GT226" in codes(admitted(container(**PRIVILEGED), cluster=cluster, profile=profile))
    assert "GT226" not in codes(admitted(container(), cluster=cluster, profile=profile))
    helper = container("helper", None, **PRIVILEGED)
    assert "GT226" not in codes(admitted(container(), helper, cluster=cluster, profile=profile))


def test_the_numbers_of_a_privileged_container_are_set_where_the_profile_sets_numbers() -> None:
    for profile in PEERS:
        _, after = judge(pod(container(**PRIVILEGED), annotations={"gpu.topology/profile": profile}), ALL_ALLOWED)
        env = {entry["name"]: entry for entry in after["spec"]["containers"][0]["env"]}
        path = env["CUDA_VISIBLE_DEVICES"]["valueFrom"]["fieldRef"]["fieldPath"]
        assert path == "metadata.annotations['gpu.topology/cuda-visible-devices.0']"


def variable(name: str, value: str) -> dict[str, Any]:
    return {"env": [{"name": name, "value": value}]}


OFF = [
    ("NCCL_P2P_DISABLE", "1", "GT406"),
    ("NCCL_P2P_DISABLE", " 01", "GT406"),
    ("NCCL_P2P_LEVEL", "LOC", "GT407"),
    ("NCCL_P2P_LEVEL", "0", "GT407"),
    ("NCCL_SHM_DISABLE", "1", "GT408"),
    ("NCCL_HOSTID", "", "GT409"),
    ("NCCL_GRAPH_FILE", "", "GT425"),
    ("NCCL_GRAPH_FILE", "/graph.xml", ""),
    ("NCCL_P2P_DISABLE", "0", ""),
    ("NCCL_P2P_DISABLE", "true", ""),
    ("NCCL_P2P_DISABLE", "$(OFF)", ""),
    ("NCCL_P2P_LEVEL", "NVL", ""),
    ("NCCL_P2P_LEVEL", "SYS", ""),
    ("NCCL_SHM_DISABLE", "0", ""),
    ("UCX_TLS", "tcp", ""),
]


@pytest.mark.parametrize(("name", "value", "code"), OFF)
def test_a_container_that_takes_nvlink_away_from_itself_is_told(name: str, value: str, code: str) -> None:
    outcome = admitted(container(**variable(name, value)))
    kept = "GT401"  # a variable of ours that the container sets itself
    assert [found for found in codes(outcome) if found != kept] == ([code] if code else [])


@pytest.mark.parametrize(
    ("value", "expected"), [("tcp,cuda_copy", ["GT426"]), ("cuda_ipc,tcp", []), ("^cuda", ["GT426"])]
)
def test_ucx_without_cuda_ipc_matters_to_peers(value: str, expected: list[str]) -> None:
    assert codes(admitted(container(**variable("UCX_TLS", value)), profile="pod-peers")) == expected


def test_a_value_that_is_not_ours_to_see_is_never_repeated() -> None:
    outcome = admitted(container(**variable("NCCL_P2P_DISABLE", "1  s3cr3t")))
    assert codes(outcome) == ["GT406"]
    assert not any("s3cr3t" in warning for warning in outcome.warnings)


def test_a_single_gpu_by_itself_has_no_nvlink_to_lose() -> None:
    one = container(gpus=1, **variable("NCCL_P2P_DISABLE", "1"))
    assert codes(admitted(one, profile="exclusive")) == []
    assert codes(admitted(one, profile="pod-peers")) == ["GT406"]


def test_shared_memory_is_not_missed_where_the_pod_goes_nowhere_without_nvlink() -> None:
    held = container(**variable("NCCL_SHM_DISABLE", "1"))
    assert codes(admitted(held, policy="nvlink", on_violation="deny")) == ["GT656"]
    assert codes(admitted(held, policy="nvlink")) == ["GT408"]


def test_an_annotation_that_takes_nvlink_away_is_told_of_as_well() -> None:
    outcome, _ = judge(pod(annotations={"gpu.topology/env.NCCL_P2P_DISABLE": "1"}))
    assert codes(outcome) == ["GT406"]
