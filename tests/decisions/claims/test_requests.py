"""What is known of a pod's GPUs from the specs of its claims."""

from typing import Any

import msgspec
import pytest

from webhook.decisions.claims.pod import ClaimUse
from webhook.decisions.claims.requests import ClaimedGpus, ClaimView, claimed_by_specs
from webhook.decisions.configuration import ClaimSettings
from webhook.objects.claims import ClaimSpec
from webhook.objects.pod import Pod

SETTINGS = ClaimSettings(enabled=True)
GPU, MIG, HAMI, NIC = "gpu.nvidia.com", "mig.nvidia.com", "hami-core-gpu.project-hami.io", "nic.example.com"


def pod(*uses: tuple[str, str]) -> Pod:
    """A pod whose one container uses these entries, each with a request or none."""
    claims = [{"name": entry} | ({"request": request} if request else {}) for entry, request in uses]
    entries = [{"name": entry, "resourceClaimTemplateName": entry} for entry in dict.fromkeys(e for e, _ in uses)]
    spec = {"resourceClaims": entries, "containers": [{"name": "main", "resources": {"claims": claims}}]}
    return _decoded({"spec": spec})


def _decoded(document: dict[str, Any]) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def spec(*requests: dict[str, Any], config: list[dict[str, Any]] | None = None) -> ClaimSpec:
    """The spec of a claim."""
    devices = {"requests": list(requests), "config": config or []}
    return msgspec.json.decode(msgspec.json.encode({"devices": devices}), type=ClaimSpec)


def exactly(name: str = "gpus", device_class: str = GPU, **fields: Any) -> dict[str, Any]:
    """A request for devices of one class."""
    return {"name": name, "exactly": {"deviceClassName": device_class, **fields}}


def claimed(*requests: dict[str, Any], use: str = "", config: list[dict[str, Any]] | None = None) -> ClaimedGpus | None:
    """What the container gets by a claim with these requests."""
    return claimed_by_specs(pod(("g", use)), {"g": spec(*requests, config=config)}, SETTINGS).get("main")


@pytest.mark.parametrize(
    ("request_", "count"),
    [
        (exactly(), 1),
        (exactly(count=4), 4),
        (exactly(allocationMode="ExactCount", count=2), 2),
        (exactly(allocationMode="All"), 0),
        ({"name": "gpus", "firstAvailable": [{"name": "a", "deviceClassName": GPU, "count": 4}]}, 4),
        (
            {
                "name": "gpus",
                "firstAvailable": [
                    {"name": "a", "deviceClassName": GPU, "count": 4},
                    {"name": "b", "deviceClassName": GPU, "count": 2},
                ],
            },
            0,
        ),
    ],
)
def test_the_count_is_that_of_the_requests(request_: dict[str, Any], count: int) -> None:
    found = claimed(request_)
    assert found
    assert found.count == count
    assert found.part is None


def test_a_use_of_one_request_gets_that_one() -> None:
    requests = exactly("one", count=1), exactly("three", count=3)
    both, one = claimed(*requests), claimed(*requests, use="one")
    assert both
    assert one
    assert (both.count, one.count) == (4, 1)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (exactly(device_class=MIG), "GT260"),
        (exactly(device_class=HAMI, capacity={"requests": {"cores": "30"}}), "GT261"),
    ],
)
def test_parts_of_gpus_are_told_as_such(request_: dict[str, Any], code: str) -> None:
    found = claimed(request_)
    assert found
    assert found.part
    assert found.part.code == code


@pytest.mark.parametrize(("named", "is_shared"), [([], True), (["gpus"], True), (["gpus/a"], True), (["other"], False)])
def test_a_sharing_configuration_is_for_the_requests_that_it_names(named: list[str], is_shared: bool) -> None:
    parameters = {"kind": "GpuConfig", "sharing": {"strategy": "TimeSlicing"}}
    config = [{"requests": named, "opaque": {"driver": GPU, "parameters": parameters}}]
    found = claimed(exactly(), config=config)
    assert found
    assert (found.part is not None) is is_shared


@pytest.mark.parametrize(
    "opaque",
    [
        None,
        {"driver": "other.example.com", "parameters": {"sharing": {"strategy": "MPS"}}},
        {"driver": GPU, "parameters": {"sharing": None}},
        {"driver": GPU, "parameters": ["sharing"]},
        {"driver": GPU},
    ],
)
def test_other_configurations_share_nothing(opaque: Any) -> None:
    found = claimed(exactly(), config=[{"opaque": opaque}])
    assert found
    assert found.part is None


@pytest.mark.parametrize("request_", [exactly(device_class=NIC), exactly(adminAccess=True), {"name": "gpus"}])
def test_claims_without_gpus_of_their_own_give_none(request_: dict[str, Any]) -> None:
    assert claimed(request_) is None


def test_a_claim_that_cannot_be_read_may_be_for_anything() -> None:
    for specs in ({}, {"g": None}):
        found = claimed_by_specs(pod(("g", "")), specs, SETTINGS)["main"]
        assert (found.is_known, found.count) == (False, 0)


def test_the_count_is_open_where_one_of_two_claims_cannot_be_read() -> None:
    found = claimed_by_specs(pod(("g", ""), ("h", "")), {"g": spec(exactly(count=2))}, SETTINGS)["main"]
    assert (found.is_known, found.count, found.uses) == (True, 0, (ClaimUse("g", ""),))


def test_a_class_of_hamis_driver_preloads_its_library() -> None:
    found = claimed(exactly(device_class=HAMI))
    assert found
    assert found.preloading_driver == HAMI


@pytest.mark.parametrize(
    ("resource", "is_claimed"),
    [
        ("nvidia.com/gpu", True),
        ("deviceclass.resource.kubernetes.io/gpu.nvidia.com", True),
        ("deviceclass.resource.kubernetes.io/nic.example.com", False),
        ("example.com/gpu", False),
    ],
)
def test_extended_resources_that_claims_serve(resource: str, is_claimed: bool) -> None:
    view = ClaimView(settings=SETTINGS, resources=frozenset({"nvidia.com/gpu"}))
    found = view.of_resource(resource, 2)
    assert bool(found) is is_claimed
    assert found is None or (found.count, found.is_extended, found.part) == (2, True, None)
