"""Pods with resource claims: the program sees the devices of the claims that its own container refers to."""

from dataclasses import replace

import pytest

from tests.hardware.topology.machines import h20
from tests.programs.remap.pods import EXCLUSIVE, H20, NO_DRIVER, judged
from webhook.programs.remap.verdict import ExitCode, Verdict

CLAIMED = {
    **EXCLUSIVE,
    "GPU_TOPOLOGY_ALLOCATED_BY": "claim",
    "GPU_TOPOLOGY_CONTAINERS": "prefill:0:,decode:2:",
    "GPU_TOPOLOGY_ALLOCATION": f"prefill={H20[0]},{H20[1]};decode={H20[0]},{H20[1]}",
}
ITS_OWN = replace(h20(), gpus=h20().gpus[:2], nics=())
"""What NVML lists in a container that CDI shows two GPUs."""


def ended(verdict: Verdict) -> tuple[int, str]:
    return int(verdict.code), verdict.reason


@pytest.mark.parametrize("profile", ["exclusive", "pod-peers", "node-peers"])
def test_the_devices_of_its_claims_are_there(profile: str) -> None:
    verdict = judged(CLAIMED, seen=ITS_OWN, PROFILE=profile)
    assert ended(verdict) == (0, "ok: the 2 GPUs of this pod are those it was given")
    assert verdict.warnings == ()
    assert verdict.resolution
    assert [given.cuda_indices for given in verdict.resolution.containers] == [(), ()]


@pytest.mark.parametrize("profile", ["exclusive", "pod-peers", "node-peers"])
def test_another_device_than_the_claim_has_stops_the_pod(profile: str) -> None:
    verdict = judged(CLAIMED, seen=ITS_OWN, PROFILE=profile, ALLOCATION=f"decode={H20[0]},{H20[5]}")
    assert verdict.code is ExitCode.GPU_MISSING
    assert H20[5] in verdict.reason


def test_what_bind_did_not_write_cannot_be_verified() -> None:
    """A claim shows a container nothing but its own devices, so the pod may run."""
    verdict = judged(CLAIMED, seen=ITS_OWN, PROFILE="pod-peers", ALLOCATION="")
    assert verdict.code is ExitCode.TRUE
    said = "annotation gpu.topology/claimed-gpus names no GPU: the resource claim has given this pod none"
    assert verdict.warnings == (f"{said}, so nothing can be verified",)


def test_an_extended_resource_is_verified_from_what_was_published() -> None:
    """Its container refers to no claim, so it sees no GPU."""
    verdict = judged(CLAIMED, seen=NO_DRIVER)
    assert verdict.code is ExitCode.TRUE
    assert verdict.warnings


def test_a_library_that_the_driver_preloads_stops_the_pod() -> None:
    verdict = judged(CLAIMED, seen=ITS_OWN, preload="/usr/local/vgpu/libvgpu.so")
    assert verdict.code is ExitCode.PRELOADED
