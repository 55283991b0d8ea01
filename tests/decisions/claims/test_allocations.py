"""From the claims of a pod to its GPUs: every state that a claim can be in ends in a value or in a sentence."""

import msgspec
import pytest

from tests.decisions.claims.cases import SETTINGS, case
from webhook.decisions.claims.allocations import NOTHING_GIVEN, given_gpus
from webhook.decisions.claims.slices import Pools
from webhook.decisions.resolve.resolve import Unresolved
from webhook.objects.claims import ClaimAllocation, Consumer, Owner

UUID = "GPU-00000000-0000-0000-0000-00000000000{}"
PART_OF_HAMI = (
    "ResourceClaim {} has a part of GPU-00000000-0000-0000-0000-000000000003 (device hami-gpu-1): other claims may use "
    "the rest"
)

# By hand, from what the folders' README says and from the allocation and slices of each.
GIVEN = {
    "template-one": {"main": "3"},
    "direct-shared-by-pods": {"main": "30"},
    "two-containers-one-claim": {"prefill": "30", "decode": "30"},
    "two-requests-one-claim": {"prefill": "30", "decode": "2"},
    "first-available": {"main": "32"},
    "extended-resource": {"main": "30"},
    "extended-resource-init": {"proxy": "3", "main": "02", "eval": "1", "check": "302"},
    "gpu-and-nic": {"main": "3"},
    "hami-whole": {"main": "30"},
    "two-slices": {"main": "3"},
    "old-generation": {"main": "32"},
}
REFUSED = {
    "deallocated": (Unresolved.NO_ALLOCATION, "ResourceClaim kept is not allocated"),
    "unallocated": (Unresolved.NO_ALLOCATION, "ResourceClaim train-gpu-00001 is not allocated"),
    "no-claim-yet": (Unresolved.NO_ALLOCATION, "no ResourceClaim has been made for gpu yet"),
    "reserved-for-another": (Unresolved.STALE_ALLOCATION, "ResourceClaim taken is not reserved for the pod"),
    "missing-slices": (Unresolved.BAD_ALLOCATION, "driver gpu.nvidia.com publishes no pool a100-bridged"),
    "incomplete-generation": (
        Unresolved.BAD_ALLOCATION,
        "of the newest generation of pool a100-bridged of driver gpu.nvidia.com, 1 of 2 ResourceSlices are there",
    ),
    "device-gone": (
        Unresolved.BAD_ALLOCATION,
        "pool a100-bridged of driver gpu.nvidia.com has no device gpu-2: it was published anew since the allocation",
    ),
    "hami-shared": (
        Unresolved.SHARED_DEVICE,
        PART_OF_HAMI.format("train-gpu-00001"),
    ),
    "several-results-same-card": (
        Unresolved.SHARED_DEVICE,
        PART_OF_HAMI.format("train-gpus-00001"),
    ),
    "mps": (Unresolved.SHARED_DEVICE, "the claim has its GPUs shared by MPS"),
    "time-slicing": (Unresolved.SHARED_DEVICE, "the claim has its GPUs shared by TimeSlicing"),
}


@pytest.mark.parametrize("name", GIVEN)
def test_containers_get_the_gpus_that_the_allocation_names(name: str) -> None:
    given = case(name).given
    found = {
        container: [device.uuid for device in devices]
        for container, devices in zip(given.allocation.containers, given.allocation.segments, strict=True)
    }
    assert found == {container: [UUID.format(n) for n in numbers] for container, numbers in GIVEN[name].items()}
    assert given.problem is None
    assert {container: claimed.count for container, claimed in given.containers.items()} == {
        container: len(numbers) for container, numbers in GIVEN[name].items()
    }
    assert not any(claimed.part for claimed in given.containers.values())


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_known_is_said(name: str) -> None:
    given = case(name).given
    assert given.problem
    assert (given.problem.reason, str(given.problem)) == REFUSED[name]
    assert not given.allocation.devices


def test_a_look_at_the_gpus_of_others_gives_none() -> None:
    assert case("admin-access").given == NOTHING_GIVEN


def test_mig_instances_are_parts_of_their_gpu() -> None:
    given = case("mig").given
    [devices] = given.allocation.segments
    assert {device.uuid for device in devices} == {UUID.format(0)}
    assert [device.mig for device in devices] == ["gpu-2-mig-3g40gb-9-0", "gpu-2-mig-3g40gb-9-4"]
    part = given.containers["main"].part
    assert part
    assert part.code == "GT260"


@pytest.mark.parametrize(("share_id", "is_shared"), [("6de5d941", True), (None, False)])
def test_a_gpu_of_nvidias_driver_with_a_share_is_shared(share_id: str | None, *, is_shared: bool) -> None:
    found = case("template-one")
    [(name, claim)] = found.claims.items()
    status, devices = claim.status, claim.allocation
    assert status
    assert devices
    results = [msgspec.structs.replace(each, share_id=share_id) for each in devices.results or ()]
    allocation = ClaimAllocation(devices=msgspec.structs.replace(devices, results=results))
    shared = msgspec.structs.replace(claim, status=msgspec.structs.replace(status, allocation=allocation))
    given = given_gpus(found.pod, {name: shared}, found.pools, SETTINGS)
    assert (given.problem is not None) is is_shared


def test_other_pods_that_use_the_claim_are_counted() -> None:
    assert case("direct-shared-by-pods").given.shared_with == 1
    assert case("template-one").given.shared_with == 0


def test_a_claim_that_was_made_for_another_pod_is_not_believed() -> None:
    """Whoever may write the status of a pod could name any claim of the namespace."""
    found = case("template-one")
    [(name, claim)] = found.claims.items()
    foreign = msgspec.structs.replace(claim.metadata, owner_references=[Owner(uid="other", controller=True)])
    claims = {name: msgspec.structs.replace(claim, metadata=foreign)}
    given = given_gpus(found.pod, claims, found.pools, SETTINGS)
    assert given.problem
    assert given.problem.message.code == "GT266"


def test_a_claim_for_a_group_of_pods_is_no_stranger() -> None:
    """Kubernetes 1.37 can reserve a claim for a PodGroup, which has another uid than its pods."""
    found = case("template-one")
    [(name, claim)] = found.claims.items()
    assert claim.status
    group = [Consumer(resource="podgroups", name="train", uid="group")]
    claims = {name: msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, reserved_for=group))}
    assert given_gpus(found.pod, claims, found.pools, SETTINGS).problem is None


def test_devices_of_another_node_are_not_believed() -> None:
    found = case("template-one")
    given = given_gpus(found.pod, found.claims, found.pools, SETTINGS, node="elsewhere")
    assert given.problem
    assert given.problem.message.code == "GT269"


def test_without_slices_nothing_is_known() -> None:
    found = case("template-one")
    given = given_gpus(found.pod, found.claims, Pools(), SETTINGS)
    assert given.problem
    assert given.containers.keys() == {"main"}
