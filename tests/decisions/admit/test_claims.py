"""What admission says of pods whose GPUs come by resource claims, each case beside its opposite."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.judge import HAMI_2_9, TEAM_A, judge, policy
from tests.pods import ALL_ALLOWED, Manifest, find_container, pod, team_a
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.objects.claims import ClaimSpec
from webhook.objects.pod import Namespace
from webhook.words.outcome import Kind, Outcome, Reason
from webhook.words.version import Version

ENABLED = policy(claims={"enabled": True})
SERVED = ClusterFacts(hami=Version(2, 9), kubernetes=Version(1, 36), claimed=frozenset({"nvidia.com/gpu"}))
HOST_NAMESPACES = Namespace(
    "team-a", {**TEAM_A.labels, "gpu.topology/allow-host-ipc": "true", "gpu.topology/allow-host-pid": "true"}
)
ASKS = {"gpu.topology/inject": "true"}
POD_PEERS, NODE_PEERS = {"gpu.topology/profile": "pod-peers"}, {"gpu.topology/profile": "node-peers"}
TEMPLATE = {"name": "gpus", "resourceClaimTemplateName": "four"}
SHARED = {"name": "gpus", "resourceClaimName": "ours"}


def spec(count: int = 4, device_class: str = "gpu.nvidia.com", **fields: Any) -> ClaimSpec:
    """Of a claim for so many devices."""
    exactly = {"deviceClassName": device_class, "count": count, **fields}
    return msgspec.convert({"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}, ClaimSpec)


def user(name: str = "train", *entries: str, **fields: Any) -> Manifest:
    """A container that uses these entries."""
    claims = [{"name": entry} for entry in entries or ("gpus",)]
    return {"name": name, "image": "registry.local/train:1", "resources": {"claims": claims}, **fields}


def claiming(*containers: Manifest, claims: list[Manifest] | None = None, **fields: Any) -> Manifest:
    """A pod of these containers; by default of one that uses a claim from a template."""
    return pod(*(containers or (user(),)), resourceClaims=claims or [TEMPLATE], **fields)


def admitted(
    manifest: Manifest,
    namespace: Namespace = TEAM_A,
    cluster: ClusterFacts = HAMI_2_9,
    rules: AdmitPolicy = ENABLED,
    specs: Mapping[str, ClaimSpec | None] | None = None,
) -> tuple[Outcome, Manifest]:
    """The outcome, and the pod afterwards."""
    return judge(manifest, namespace, cluster, rules, claim_specs={"gpus": spec()} if specs is None else specs)


def codes(outcome: Outcome) -> list[str]:
    """Of the warnings, or of the refusal."""
    return [text.partition(":")[0] for text in (outcome.warnings or [outcome.message])]


def test_pods_that_share_a_claim_on_purpose_are_not_warned() -> None:
    outcome, _ = admitted(claiming(claims=[SHARED], annotations=NODE_PEERS), HOST_NAMESPACES)
    assert (outcome.kind, codes(outcome)) == (Kind.PATCH, [""])


@pytest.mark.parametrize(
    ("hami", "who", "found"),
    [
        (Version(2, 9), "auto", ["GT288"]),
        (Version(2, 9), "claims", [""]),
        (None, "auto", [""]),
    ],
)
def test_where_hami_may_serve_the_count_as_well_that_is_said(hami: Version | None, who: str, found: list[str]) -> None:
    rules = policy(claims={"enabled": True}, cluster={"extendedResources": who})
    outcome, _ = admitted(pod(), cluster=msgspec.structs.replace(SERVED, hami=hami), rules=rules)
    assert (outcome.kind, codes(outcome)) == (Kind.PATCH, found)


def test_a_count_that_a_device_class_is_named_after_is_a_claim_too() -> None:
    limits = {"limits": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "2"}}
    outcome, after = admitted(pod({"name": "train", "resources": limits}))
    assert outcome.reason is Reason.INJECTED
    container = find_container(after, "train")
    assert container["resources"] == limits
    assert "CUDA_DISABLE_CONTROL" not in [entry["name"] for entry in container["env"]]


def test_the_affinity_of_a_group_is_added_unless_a_claim_brings_the_pods_together() -> None:
    grouped = {**ASKS, "gpu.topology/group": "serving"}
    _, alone = admitted(claiming(annotations=grouped))
    _, shared = admitted(claiming(claims=[SHARED], annotations=grouped))
    assert alone["metadata"]["labels"] == shared["metadata"]["labels"] == {"gpu.topology/group": "serving"}
    assert "podAffinity" in alone["spec"]["affinity"]
    assert "affinity" not in shared["spec"]


def test_a_shared_claim_that_gives_no_gpu_does_not_bring_them_together() -> None:
    claims = [TEMPLATE, {"name": "nic", "resourceClaimName": "nics"}]
    specs = {"gpus": spec(), "nic": spec(device_class="nic.example.com")}
    manifest = claiming(user("train", "gpus", "nic"), claims=claims, annotations={"gpu.topology/group": "serving"})
    _, after = admitted(manifest, specs=specs)
    assert "podAffinity" in after["spec"]["affinity"]


def test_a_runtime_class_is_for_device_plugins() -> None:
    rules = policy(claims={"enabled": True}, remap={"runtimeClassName": "nvidia"})
    _, by_claim = admitted(claiming(), rules=rules)
    _, by_count = admitted(pod(), cluster=SERVED, rules=rules)
    assert "runtimeClassName" not in by_claim["spec"]
    assert by_count["spec"]["runtimeClassName"] == "nvidia"


def test_where_the_remap_container_is_to_see_no_gpu_it_refers_to_no_claim() -> None:
    _, seeing = admitted(claiming())
    _, blind = admitted(claiming(), rules=policy(claims={"enabled": True}, remap={"seesGpus": False}))
    claims = [after["spec"]["initContainers"][0]["resources"].get("claims") for after in (seeing, blind)]
    assert claims == [[{"name": "gpus"}], None]


def test_one_request_of_a_claim_is_not_named_beside_all_of_it() -> None:
    one = user("helper")
    one["resources"]["claims"] = [{"name": "gpus", "request": "gpus"}]
    _, after = admitted(claiming(one, user()))
    assert after["spec"]["initContainers"][0]["resources"]["claims"] == [{"name": "gpus"}]


def test_long_names_of_claims_are_written_in_full() -> None:
    """They are longer than what is kept of the remap containers of other pods."""
    names = [f"{number}-{'x' * 50}" for number in range(30)]
    claims = [{"name": name, "resourceClaimTemplateName": "one"} for name in names]
    _, after = admitted(claiming(user("train", *names), claims=claims), specs={name: spec(1) for name in names})
    assert after["spec"]["initContainers"][0]["resources"]["claims"] == [{"name": name} for name in names]


def test_a_container_that_only_looks_like_the_remap_container_counts_as_one_with_gpus() -> None:
    other = user("gpu-topology-remap", command=["gpu-topology", "explain"])
    _, after = admitted(claiming(initContainers=[other]), specs={"gpus": spec()})
    assert [container["name"] for container in after["spec"]["initContainers"]] == [
        "gpu-topology-remap-2",
        "gpu-topology-remap",
    ]
    assert "GPU_TOPOLOGY_PROFILE" in [entry["name"] for entry in find_container(after, "gpu-topology-remap")["env"]]


def test_a_container_that_pretends_to_be_the_remap_container_becomes_it() -> None:
    """It counts for no GPU, so it must not keep what it has."""
    own = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    forged = user("gpu-topology-remap", command=["gpu-topology", "remap"], image="evil", env=own)
    _, honest = admitted(claiming())
    _, after = admitted(claiming(initContainers=[forged]))
    assert after["spec"]["initContainers"] == honest["spec"]["initContainers"]


def test_an_earlier_remap_container_is_brought_to_the_claims_that_its_pod_has_now() -> None:
    _, after = admitted(claiming())
    claims = [TEMPLATE, {"name": "more", "resourceClaimTemplateName": "four"}]
    after["spec"]["resourceClaims"] = claims
    after["spec"]["containers"][0]["resources"]["claims"].append({"name": "more"})
    _, again = admitted(after, specs={"gpus": spec(), "more": spec()})
    (remap,) = again["spec"]["initContainers"]
    assert remap["resources"]["claims"] == [{"name": "gpus"}, {"name": "more"}]


@pytest.mark.parametrize(
    ("value", "reason"), [("exclusive", Reason.INJECTED), ("pod-peers", Reason.CONTRADICTS_PROFILE)]
)
def test_the_profile_that_bind_reads_is_not_the_users_to_choose(value: str, reason: Reason) -> None:
    outcome, _ = admitted(claiming(user(env=[{"name": "GPU_TOPOLOGY_PROFILE", "value": value}])))
    assert outcome.reason is reason


def test_a_command_may_divide_the_gpus_of_one_claim() -> None:
    """Peers see each other's GPUs by the claim, and no list of ours could be overridden."""
    command = ["sh", "-c", "CUDA_VISIBLE_DEVICES=0,1 exec train"]
    denying = {**POD_PEERS, "gpu.topology/on-violation": "deny"}
    by_claim, _ = admitted(claiming(user(command=command), user("decode"), annotations=denying))
    by_count, _ = admitted(pod({**pod()["spec"]["containers"][0], "command": command}, annotations=denying))
    assert (by_claim.reason, by_count.reason) == (Reason.INJECTED, Reason.CONTRADICTS_PROFILE)


def test_the_device_list_strategy_is_one_of_device_plugins() -> None:
    rules = policy(claims={"enabled": True}, cluster={"deviceListStrategy": "cdi-cri"})
    by_claim, _ = admitted(claiming(annotations=POD_PEERS), rules=rules)
    by_count, _ = admitted(pod(annotations=POD_PEERS), rules=rules)
    assert (by_claim.reason, by_count.reason) == (Reason.INJECTED, Reason.DEVICE_LIST_STRATEGY)


def test_an_own_list_of_gpus_needs_the_permission_all_the_same() -> None:
    """A runtime may heed it in a container without a claim."""
    helper = {"name": "helper", "image": "x", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    refused, _ = admitted(claiming(user(), helper))
    allowed, _ = admitted(claiming(user(), helper), ALL_ALLOWED)
    assert (refused.reason, allowed.reason) == (Reason.MISSING_PERMISSION, Reason.INJECTED)


def test_no_pod_with_claims_waits_for_the_planner() -> None:
    rules = policy(claims={"enabled": True}, placement={"mode": "on"})
    planned = msgspec.structs.replace(HAMI_2_9, has_planner=True)
    wish = {**ASKS, "gpu.topology/group-size": "2"}
    outcome, by_claim = admitted(claiming(annotations=wish), cluster=planned, rules=rules)
    _, by_count = admitted(pod(annotations=wish), cluster=planned, rules=rules)
    assert "schedulingGates" not in by_claim["spec"]
    assert by_count["spec"]["schedulingGates"] == [{"name": "gpu.topology/place"}]
    assert [warning for warning in outcome.warnings if "resource claims" in warning]


@pytest.mark.parametrize(("claimed", "is_warned"), [(spec(4), True), (spec(1), False), (None, True)])
def test_several_gpus_and_an_open_count_are_worth_a_warning_of_what_takes_nvlink_away(
    claimed: ClaimSpec | None, is_warned: bool
) -> None:
    off = [{"name": "NCCL_P2P_DISABLE", "value": "1"}]
    outcome, _ = admitted(claiming(user(env=off), annotations=ASKS), specs={"gpus": claimed})
    assert outcome.kind is Kind.PATCH
    assert bool(outcome.warnings) is is_warned


def test_a_claim_that_cannot_be_read_is_left_alone_whatever_the_namespace_says() -> None:
    """It may be for a NIC."""
    outcome, _ = admitted(claiming(), team_a({"gpu.topology/inject": "true"}), specs={"gpus": None})
    assert (outcome.reason, codes(outcome)) == (Reason.RESOURCE_CLAIMS, ["GT281"])


def test_with_claims_disabled_every_claim_is_left_alone() -> None:
    outcome, _ = admitted(claiming(annotations=ASKS), rules=policy())
    assert (outcome.reason, codes(outcome)) == (Reason.RESOURCE_CLAIMS, ["GT161"])


def test_the_allocation_that_a_pod_brings_is_not_believed() -> None:
    brought = {**ASKS, "gpu.topology/claimed-gpus": "train=GPU-1", "hami.io/vgpu-node": "n1"}
    _, after = admitted(claiming(annotations=brought))
    assert "gpu.topology/claimed-gpus" not in after["metadata"]["annotations"]


def test_a_variable_that_reads_the_allocation_is_empty_until_bind() -> None:
    reads = {"fieldRef": {"fieldPath": "metadata.annotations['gpu.topology/claimed-gpus']"}}
    train = user(env=[{"name": "GPUS", "valueFrom": reads}])
    _, after = admitted(claiming(train, annotations={**ASKS, "gpu.topology/claimed-gpus": "train=GPU-1"}))
    assert after["metadata"]["annotations"]["gpu.topology/claimed-gpus"] == ""


def test_an_observed_pod_is_told_why_its_claim_does_not_do() -> None:
    observing = team_a({"gpu.topology/profile": "pod-peers"})
    claims = [TEMPLATE, {"name": "more", "resourceClaimTemplateName": "four"}]
    manifest = claiming(user(), user("decode", "more"), claims=claims, annotations={"gpu.topology/profile": "observe"})
    outcome, _ = admitted(manifest, observing, specs={"gpus": spec(), "more": spec()})
    assert outcome.reason is Reason.OBSERVED
    assert [warning for warning in outcome.warnings if "GT284" in warning]
