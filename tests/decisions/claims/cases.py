"""The states of claims in ``tests/cases/claims``, as a real API server had them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from webhook.decisions.claims.allocations import GivenGpus, given_gpus
from webhook.decisions.claims.slices import Pools, slice_part
from webhook.decisions.configuration import ClaimSettings
from webhook.objects.claims import ResourceClaim, decode_claim, decode_slice
from webhook.objects.pod import Pod

CASES = Path(__file__).parents[2] / "cases" / "claims"
SETTINGS = ClaimSettings(enabled=True)


class ClaimCase(NamedTuple):
    """A pod with what the API server had of its claims."""

    pod: Pod
    claims: dict[str, ResourceClaim]
    pools: Pools

    @property
    def given(self) -> GivenGpus:
        """What the pod was given, as bind reads it."""
        return given_gpus(self.pod, self.claims, self.pools, SETTINGS)


def partition_attributes(gpu: str, partitions: Sequence[str]) -> dict[str, Any]:
    """The attributes with which NVIDIA's driver says in which partitions of the NVSwitches a GPU is.

    Args:
        gpu: One character.
        partitions: The members of each partition; the first has number 0.
    """
    found = [(len(members), number) for number, members in enumerate(partitions) if gpu in members]
    return {"gpuModuleID": {"int": int(gpu) + 1}} | {f"partition{size}": {"int": number} for size, number in found}


def add_partitions(slices: Sequence[Any], partitions: Sequence[str]) -> None:
    """Adds these attributes to the whole GPUs of NVIDIA's driver in ResourceSlices."""
    spec = [each["spec"] for each in slices if each["spec"]["driver"] == "gpu.nvidia.com"]
    for device in (device for each in spec for device in each["devices"]):
        if device["attributes"]["type"]["string"] == "gpu":
            device["attributes"] |= partition_attributes(device["name"].removeprefix("gpu-"), partitions)


def case(name: str, partitions: Sequence[str] | None = None) -> ClaimCase:
    """The case of this name.

    Args:
        name: Its folder.
        partitions: Numbers of the devices of each partition of the NVSwitches; None if the driver uses none.
    """
    folder = CASES / name
    pod = msgspec.json.decode((folder / "pod.json").read_bytes(), type=Pod)
    claims = [decode_claim(document, "claim") for document in _documents(folder / "claims.json")]
    documents: list[Any] = json.loads((folder / "slices.json").read_text())
    if partitions is not None:
        add_partitions(documents, partitions)
    slices = [decode_slice(json.dumps(document).encode(), "slice") for document in documents]
    parts = filter(None, (slice_part(published, SETTINGS) for published in slices))
    return ClaimCase(pod, {claim.metadata.name: claim for claim in claims}, Pools(parts))


def _documents(path: Path) -> list[bytes]:
    found: list[Any] = json.loads(path.read_text())
    return [json.dumps(document).encode() for document in found]
