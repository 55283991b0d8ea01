"""The states of claims in ``tests/cases/claims``, as a real API server had them."""

import json
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


def case(name: str) -> ClaimCase:
    """The case of this name."""
    folder = CASES / name
    pod = msgspec.json.decode((folder / "pod.json").read_bytes(), type=Pod)
    claims = [decode_claim(document, "claim") for document in _documents(folder / "claims.json")]
    slices = [decode_slice(document, "slice") for document in _documents(folder / "slices.json")]
    parts = filter(None, (slice_part(published, SETTINGS) for published in slices))
    return ClaimCase(pod, {claim.metadata.name: claim for claim in claims}, Pools(parts))


def _documents(path: Path) -> list[bytes]:
    found: list[Any] = json.loads(path.read_text())
    return [json.dumps(document).encode() for document in found]
