"""Claims from the folder ``claims`` of a state directory."""

import asyncio
from pathlib import Path

import pytest

from webhook.cluster.files.claims import DirectoryClaims
from webhook.decisions.claims.slices import MissingDevice
from webhook.decisions.configuration import ClaimSettings
from webhook.objects.claims import decode_claim, decode_template
from webhook.words.errors import ClaimsUnreadable, GpuTopologyError

HEAD = "apiVersion: resource.k8s.io/v1\nkind: {}\n"
SPEC = "{devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}]}}"
CLAIM = (
    HEAD.format("ResourceClaim")
    + f"metadata: {{name: shared, namespace: team-a}}\nspec: {SPEC}\n"
    + "status: {allocation: {devices: {results: [{request: gpus, driver: gpu.nvidia.com, pool: n1, device: gpu-0}]}}}\n"
)
TEMPLATE = (
    HEAD.format("ResourceClaimTemplate") + f"metadata: {{name: two, namespace: team-a}}\nspec: {{spec: {SPEC}}}\n"
)
SLICE = (
    HEAD.format("ResourceSlice")
    + "metadata: {name: n1-gpus}\n"
    + "spec: {driver: gpu.nvidia.com, nodeName: n1, pool: {name: n1, generation: 1, resourceSliceCount: 1},\n"
    + "  devices: [{name: gpu-0, attributes: {type: {string: gpu}, uuid: {string: GPU-1}}}]}\n"
)


def claims_in(directory: Path, **files: str) -> DirectoryClaims:
    folder = directory / "claims"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return DirectoryClaims(directory, ClaimSettings())


def test_the_kinds_are_told_apart_whatever_the_files_are_called(tmp_path: Path) -> None:
    claims = claims_in(tmp_path, all=f"{CLAIM}---\n{TEMPLATE}---\n{SLICE}")
    claim = asyncio.run(claims.claim("team-a", "shared"))
    template = asyncio.run(claims.template("team-a", "two"))
    assert claim is not None
    allocation = decode_claim(claim, "test").allocation
    assert allocation is not None
    assert [result.device for result in allocation.results or ()] == ["gpu-0"]
    assert template is not None
    devices = decode_template(template, "test").spec.spec.devices
    assert devices is not None
    assert [request.name for request in devices.requests or ()] == ["gpus"]
    assert claims.pools().device("gpu.nvidia.com", "n1", "gpu-0", node="n1").uuid == "GPU-1"


def test_what_is_in_no_file_does_not_exist(tmp_path: Path) -> None:
    claims = claims_in(tmp_path, a=CLAIM)
    assert asyncio.run(claims.claim("team-b", "shared")) is None
    assert asyncio.run(claims.template("team-a", "shared")) is None
    with pytest.raises(MissingDevice, match="publishes no pool n1"):
        claims.pools().device("gpu.nvidia.com", "n1", "gpu-0")


def test_a_directory_without_the_folder_has_no_claims(tmp_path: Path) -> None:
    assert asyncio.run(DirectoryClaims(tmp_path, ClaimSettings()).claim("team-a", "shared")) is None


def test_a_list_is_read_as_its_objects(tmp_path: Path) -> None:
    objects = "".join("- " + text.replace("\n", "\n  ").rstrip() + "\n" for text in (CLAIM, SLICE))
    claims = claims_in(tmp_path, a=f"apiVersion: v1\nkind: List\nitems:\n{objects}")
    assert asyncio.run(claims.claim("team-a", "shared"))
    assert claims.pools().device("gpu.nvidia.com", "n1", "gpu-0").uuid == "GPU-1"


def test_a_claim_is_read_anew_each_time(tmp_path: Path) -> None:
    claims = claims_in(tmp_path)
    assert asyncio.run(claims.claim("team-a", "shared")) is None
    (tmp_path / "claims" / "new.yaml").write_text(CLAIM)
    assert asyncio.run(claims.claim("team-a", "shared"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (CLAIM.replace("/v1", "/v1beta1"), "expected resource.k8s.io/v1"),
        (CLAIM.replace("requests: [", "requests: 7 #["), "expected"),
        ("a: [", "bad.yaml"),
    ],
    ids=["an old version", "another type", "no YAML"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str, problem: str) -> None:
    claims = claims_in(tmp_path, bad=text)
    with pytest.raises(ClaimsUnreadable, match=r"bad\.yaml") as caught:
        asyncio.run(claims.claim("team-a", "shared"))
    assert problem in str(caught.value)
    with pytest.raises(GpuTopologyError, match=r"bad\.yaml"):
        claims.pools()
