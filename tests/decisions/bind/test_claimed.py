"""Bindings of pods that got their GPUs by resource claims."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.decisions.bind.test_binding import H20, to
from tests.hardware.topology import machines
from tests.judge import TEAM_A, policy
from tests.pods import container, pod
from webhook.decisions.allocation.model import Allocation, Device
from webhook.decisions.bind.binding import begin, finish
from webhook.decisions.bind.pod_to_bind import PodToBind
from webhook.decisions.claims.allocations import NOTHING_GIVEN, GivenGpus
from webhook.decisions.claims.pod import EXTENDED, ClaimUse
from webhook.decisions.claims.requests import ClaimedGpus
from webhook.decisions.configuration import ClaimSettings
from webhook.decisions.resolve.resolve import Unresolved, UnresolvedError
from webhook.objects.binding import BindOutcome, BindReason
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Namespace, Pod
from webhook.words.catalogue.claims import CLAIM_IS_NO_PARTITION, CLAIM_NOT_ALLOCATED
from webhook.words.outcome import Kind

U = machines.H20_UUIDS
RULES = msgspec.structs.replace(policy(), claims=ClaimSettings(enabled=True))


def injected(*names: str, profile: str = "exclusive", annotations: dict[str, str] | None = None, **spec: Any) -> Pod:
    """A pod as admission leaves it, with GPUs by claims in these containers."""
    variables = {"GPU_TOPOLOGY_PROFILE": profile, "NCCL_P2P_LEVEL": "auto", "NCCL_NVLS_ENABLE": "2"}
    env = [{"name": name, "value": value} for name, value in variables.items()]
    containers = [{**container(name), "resources": {"claims": [{"name": "gpus"}]}, "env": env} for name in names]
    spec["resourceClaims"] = [{"name": "gpus", "resourceClaimName": "train-gpus"}]
    manifest = pod(*containers, annotations=annotations or {}, **spec)
    manifest["metadata"]["uid"] = "uid-1"
    return msgspec.json.decode(to_json(manifest), type=Pod)


def given(entry: str = "gpus", shared_with: int = 0, **containers: list[int]) -> GivenGpus:
    """What claims gave: the numbers of GPUs, by container."""
    return GivenGpus(
        containers={
            name: ClaimedGpus(uses=(ClaimUse(entry, ""),), count=len(gpus)) for name, gpus in containers.items()
        },
        allocation=Allocation(
            segments=tuple(tuple(Device(uuid=U[gpu]) for gpu in gpus) for gpus in containers.values()),
            containers=tuple(containers),
        ),
        shared_with=shared_with,
    )


def of_all(names: Sequence[str]) -> GivenGpus:
    """What one claim of all GPUs gave to containers of any names."""
    devices = tuple(Device(uuid=uuid) for uuid in U)
    return GivenGpus(
        containers={name: ClaimedGpus(uses=(ClaimUse("gpus", ""),), count=len(devices)) for name in names},
        allocation=Allocation(segments=(devices,) * len(names), containers=tuple(names)),
    )


def decide(found: Pod, gpus: GivenGpus, namespace: Namespace = TEAM_A) -> BindOutcome:
    begun = begin(found, to(), namespace, RULES, gpus)
    return finish(begun, RULES, H20) if isinstance(begun, PodToBind) else begun


def test_a_claimed_pod_gets_its_values() -> None:
    outcome = decide(injected("main"), given(main=[0, 1]))
    assert (outcome.kind, outcome.reason) == (Kind.PATCH, BindReason.RESOLVED)
    assert outcome.annotations["gpu.topology/link"] == "NVSwitch"
    assert outcome.annotations["gpu.topology/claimed-gpus"] == f"main={U[0]},{U[1]}"
    assert "gpu.topology/visible-uuids" not in outcome.annotations
    assert outcome.warnings == []


def test_without_claims_it_was_not_injected() -> None:
    """Its containers ask for nothing that is known."""
    assert decide(injected("main"), NOTHING_GIVEN).reason is BindReason.NOT_INJECTED


def test_a_pod_without_our_variables_was_not_injected() -> None:
    manifest = pod({**container("main"), "resources": {"claims": [{"name": "gpus"}]}})
    manifest["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimName": "train-gpus"}]
    manifest["metadata"]["uid"] = "uid-1"
    found = msgspec.json.decode(to_json(manifest), type=Pod)
    assert decide(found, given(main=[0, 1])).reason is BindReason.NOT_INJECTED


def test_containers_that_share_a_claim_share_its_gpus() -> None:
    """The claim shows both the same GPUs, so no numbers are written."""
    outcome = decide(injected("a", "b", profile="pod-peers"), given(a=[0, 1], b=[0, 1]))
    assert outcome.kind is Kind.PATCH
    assert outcome.annotations["gpu.topology/claimed-gpus"] == f"a={U[0]},{U[1]};b={U[0]},{U[1]}"
    assert not any(key.startswith("gpu.topology/cuda-visible-devices") for key in outcome.annotations)


def test_pods_that_share_a_claim_need_no_gpu_but_its_own() -> None:
    """With HAMi a pod of ``node-peers`` sees every GPU of the node, and what the others have matters."""
    found = injected("main", profile="node-peers", annotations={"gpu.topology/group": "g"})
    begun = begin(found, to(), TEAM_A, RULES, given(main=[0, 1], shared_with=1))
    assert isinstance(begun, PodToBind)
    assert begun.group is None
    outcome = finish(begun, RULES, H20)
    assert outcome.kind is Kind.PATCH
    assert outcome.warnings == []


@pytest.mark.parametrize(("others", "codes"), [(0, []), (2, ["GT258"])])
def test_a_claim_that_others_use_too_is_not_exclusive(others: int, codes: list[str]) -> None:
    outcome = decide(injected("main"), given(main=[0, 1], shared_with=others))
    assert [warning[:5] for warning in outcome.warnings] == codes


@pytest.mark.parametrize("is_prepared", [False, True])
def test_gpus_that_the_driver_does_not_prepare_are_told_and_the_pod_is_bound(is_prepared: bool) -> None:
    no_partition = None if is_prepared else CLAIM_IS_NO_PARTITION.say(claim="train-gpus", count=2)
    outcome = decide(injected("main"), msgspec.structs.replace(given(main=[0, 1]), no_partition=no_partition))
    assert (outcome.kind, outcome.reason) == (Kind.PATCH, BindReason.RESOLVED)
    assert [warning[:5] for warning in outcome.warnings] == ([] if is_prepared else ["GT276"])
    assert (outcome.event.reason if outcome.event else None) == (None if is_prepared else "NoPartition")


def _required(entry: str) -> BindOutcome:
    annotations = {"gpu.topology/min-bandwidth": "100000", "gpu.topology/on-violation": "deny"}
    return decide(injected("main", annotations=annotations), given(entry=entry, main=[0, 1]))


def test_a_refusal_says_that_the_claim_keeps_its_gpus() -> None:
    outcome = _required("gpus")
    assert (outcome.kind, outcome.reason) == (Kind.REFUSE, BindReason.REQUIREMENT_NOT_MET)
    assert outcome.message.startswith("GT257: ")
    assert "and the claim keeps these GPUs" in outcome.message


def test_a_claim_for_an_extended_resource_is_made_anew() -> None:
    assert _required(EXTENDED).message.startswith("GT310: ")


def test_what_is_not_known_of_the_claims_is_said() -> None:
    problem = UnresolvedError(Unresolved.NO_ALLOCATION, CLAIM_NOT_ALLOCATED.say(claim="train-gpus"))
    unknown = msgspec.structs.replace(given(main=[0, 1]), allocation=Allocation(), problem=problem)
    outcome = decide(injected("main"), unknown)
    assert (outcome.kind, outcome.reason) == (Kind.DEGRADED, BindReason.NO_ALLOCATION)
    assert outcome.message == "GT264: pod team-a/train: ResourceClaim train-gpus is not allocated"


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["main"], None),
        ([f"{number:063}" for number in range(160)], None),
        (["Main_1"], 'segment 1: expected another container with its GPUs, such as "main=GPU-5c3f", found "Main_1='),
        ([f"{number:063}" for number in range(180)], 'expected at most 65536 characters, found "70559 characters"'),
    ],
)
def test_gpus_that_the_annotation_has_no_place_for_are_not_known(names: list[str], found: str | None) -> None:
    """Containers of such names are not stored; 128 that share a claim of 16 GPUs are."""
    outcome = decide(injected(*names), of_all(names))
    if found is None:
        assert (outcome.kind, outcome.reason) == (Kind.PATCH, BindReason.RESOLVED)
        assert outcome.annotations["gpu.topology/claimed-gpus"].count(U[7]) == len(names)
        return
    assert (outcome.kind, outcome.reason) == (Kind.DEGRADED, BindReason.BAD_ALLOCATION)
    assert outcome.message.startswith("GT351: pod team-a/train: the allocation cannot be used: the allocation: ")
    assert found in outcome.message
    assert "gpu.topology/claimed-gpus" not in outcome.annotations


def test_mig_instances_are_left_alone() -> None:
    devices = (Device(uuid=U[0], mig="gpu-0-mig-1g24gb-19-0"),)
    part = msgspec.structs.replace(given(main=[0]), allocation=Allocation(segments=(devices,), containers=("main",)))
    assert decide(injected("main"), part).reason is BindReason.MIG_ALLOCATION


def test_the_annotation_is_not_believed() -> None:
    """Whoever may patch the pod may write it; the claims say what is true."""
    forged = {"gpu.topology/claimed-gpus": f"main={U[6]},{U[7]}"}
    outcome = decide(injected("main", annotations=forged), given(main=[0, 1]))
    assert outcome.annotations["gpu.topology/claimed-gpus"] == f"main={U[0]},{U[1]}"


def test_a_profile_in_a_variable_counts_for_claims_alone() -> None:
    gpus = {"limits": {"nvidia.com/gpu": 2}}
    variables = {"GPU_TOPOLOGY_PROFILE": "node-peers", "NCCL_P2P_LEVEL": "auto", "NCCL_NVLS_ENABLE": "2"}
    env = [{"name": name, "value": value} for name, value in variables.items()]
    manifest = pod({**container("main"), "resources": gpus, "env": env})
    manifest["metadata"]["uid"] = "uid-1"
    found = msgspec.json.decode(to_json(manifest), type=Pod)
    assert decide(found, NOTHING_GIVEN).reason is BindReason.NOT_INJECTED
