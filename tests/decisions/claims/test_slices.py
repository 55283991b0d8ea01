"""Devices are found in the newest generation of their pool, and only when all of it is there."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.decisions.claims.slices import MissingDevice, Pools, PublishedDevice, SlicePart, slice_part
from webhook.decisions.configuration import ClaimSettings
from webhook.objects.claims import ResourceSlice, decode_slice
from webhook.words.errors import FormatError

SETTINGS = ClaimSettings(enabled=True)


def part(generation: int, slices: int, *names: str, node: str = "n") -> SlicePart:
    """A slice of the one pool, with devices whose UUID tells the generation."""
    devices = {name: PublishedDevice(f"GPU-{name}-{generation}", True, {}) for name in names}
    return SlicePart(driver="d", pool="p", generation=generation, slices=slices, node=node, devices=devices)


@given(st.permutations([part(1, 1, "a"), part(2, 2, "a"), part(2, 2, "b")]))
def test_the_order_of_slices_means_nothing(parts: list[SlicePart]) -> None:
    pools = Pools(parts)
    assert [pools.device("d", "p", name).uuid for name in "ab"] == ["GPU-a-2", "GPU-b-2"]


def test_a_pool_of_another_node_does_not_count() -> None:
    """Even if it has the same name and a newer generation: pools are named after their nodes only by habit."""
    pools = Pools([part(1, 1, "a"), part(2, 1, "a", node="other")])
    assert pools.device("d", "p", "a", node="n").uuid == "GPU-a-1"
    assert pools.device("d", "p", "a", node="other").uuid == "GPU-a-2"


@pytest.mark.parametrize("reversed_", [False, True])
def test_slices_that_name_no_node_do_not_count_beside_those_of_the_node(reversed_: bool) -> None:
    """Whatever generation they have: the driver on the node says what it will prepare there."""
    parts = [part(9, 1, "a", node=""), part(1, 1, "a")]
    pools = Pools(reversed(parts) if reversed_ else parts)
    assert pools.device("d", "p", "a", node="n").uuid == "GPU-a-1"
    assert pools.device("d", "p", "a", node="other").uuid == "GPU-a-9"


@given(st.permutations([part(1, 1, "a"), part(1, 3, "b"), part(1, 2, "c")]))
def test_of_slices_that_disagree_on_their_number_the_greatest_counts(parts: list[SlicePart]) -> None:
    assert Pools(parts).device("d", "p", "c", node="n").uuid == "GPU-c-1"
    with pytest.raises(MissingDevice, match="2 of 3 ResourceSlices are there"):
        Pools(each for each in parts if "c" not in each.devices).device("d", "p", "a", node="n")


@pytest.mark.parametrize("generation", [-(2**63), -1, 0, 2**63 - 1])
@pytest.mark.parametrize("slices", [0, -1, 2**31, 2**63 - 1])
def test_numbers_that_no_driver_writes_are_numbers(generation: int, slices: int) -> None:
    pools = Pools([part(generation, slices, "a")])
    if slices > 1:
        with pytest.raises(MissingDevice, match=f"1 of {slices} ResourceSlices are there"):
            pools.device("d", "p", "a")
    else:
        assert pools.device("d", "p", "a").uuid == f"GPU-a-{generation}"


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ([], "driver d publishes no pool p"),
        ([part(1, 1, "a"), part(2, 2, "b")], "1 of 2 ResourceSlices are there"),
        ([part(1, 1, "b")], "pool p of driver d has no device a"),
        ([part(1, 2, "a"), part(1, 2, "a", "b")], "pool p of driver d publishes device a twice"),
    ],
)
def test_what_is_missing_is_said(parts: list[SlicePart], sentence: str) -> None:
    with pytest.raises(MissingDevice, match=sentence):
        Pools(parts).device("d", "p", "a")


def test_slices_of_other_drivers_are_passed_over() -> None:
    published = ResourceSlice()
    published.spec.driver = "nic.example.com"
    assert slice_part(published, SETTINGS) is None


@pytest.mark.parametrize(
    "document", [b"", b"[]", b'{"spec": 1}', b'{"spec": {"devices": {}}}', b"[" * 100_000, b"\xff"]
)
def test_other_documents_are_no_slices(document: bytes) -> None:
    with pytest.raises(FormatError, match=r"^slice: expected a ResourceSlice, found "):
        decode_slice(document, "slice")


@pytest.mark.parametrize("prefix", ["", "gpu.nvidia.com/"])
def test_a_driver_may_spell_its_domain_out(prefix: str) -> None:
    attributes = {f"{prefix}type": {"string": "gpu"}, f"{prefix}uuid": {"string": "GPU-5"}}
    devices = [{"name": "gpu-0", "attributes": attributes}]
    document = {"spec": {"driver": "gpu.nvidia.com", "pool": {"name": "p"}, "devices": devices}}
    found = slice_part(decode_slice(msgspec.json.encode(document), "slice"), SETTINGS)
    assert found
    assert found.devices["gpu-0"] == PublishedDevice("GPU-5", True, {})


def test_an_attribute_of_another_type_is_no_uuid() -> None:
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "uuid": {"int": 7}}}
    document = {"spec": {"driver": "gpu.nvidia.com", "pool": {"name": "p"}, "devices": [device]}}
    found = slice_part(decode_slice(msgspec.json.encode(document), "slice"), SETTINGS)
    assert found
    assert found.devices["gpu-0"].uuid == ""
