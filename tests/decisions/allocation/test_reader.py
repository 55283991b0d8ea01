"""From the annotations of a pod to what it was given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.allocation.pods import A, B, C, spelled
from webhook.decisions.allocation.model import Allocation
from webhook.decisions.allocation.reader import allocated_node, dialect_of, read_allocation
from webhook.words import names
from webhook.words.errors import FormatError

KEYS = {
    "hami": "hami.io/vgpu-devices-allocated",
    "volcano": "volcano.sh/vgpu-ids-new",
    "koordinator": "scheduling.koordinator.sh/device-allocated",
    "claim": "gpu.topology/claimed-gpus",
}
FAMILIES = pytest.mark.parametrize("family", KEYS)


@FAMILIES
def test_a_family_has_its_dialect(family: str) -> None:
    assert dialect_of(family).family == family


def test_another_family_is_refused() -> None:
    text = '^the family of resource names: expected hami or volcano or koordinator or claim, found "nvidia"$'
    with pytest.raises(FormatError, match=text):
        dialect_of("nvidia")


@pytest.mark.parametrize(
    ("family", "value", "uuids"),
    [
        ("hami", spelled(";A:B:;C:;"), [[A, B], [C]]),
        ("volcano", spelled("A:B:;C:"), [[A, B], [C]]),
        ("volcano", spelled("A:B:;;C:;"), [[A, B], [C]]),
        ("koordinator", f'{{"gpu":[{{"minor":1,"id":"{B}"}},{{"minor":0,"id":"{A}"}}]}}', [[B, A]]),
        ("claim", f"main={A},{B};helper={A}", [[A, B], [A]]),
    ],
)
def test_each_family_has_its_annotation(family: str, value: str, uuids: list[list[str]]) -> None:
    annotations = {KEYS[family]: value, "example.com/other": "x"}
    allocation = read_allocation(annotations, family=family, holder="pod team-a/train")
    assert [[device.uuid for device in segment] for segment in allocation.given] == uuids
    assert allocation.of_pod is (family == "koordinator")


@FAMILIES
def test_the_annotations_of_others_are_not_read(family: str) -> None:
    others = {key: "?,?,?,?" for other, key in KEYS.items() if other != family}
    assert read_allocation(others, family=family, holder="it") == Allocation()


@FAMILIES
@pytest.mark.parametrize("value", ["", ";", ";;", ";;;;;"])
def test_what_is_empty_or_consumed_is_no_allocation(family: str, value: str) -> None:
    assert read_allocation({KEYS[family]: value}, family=family, holder="it") == Allocation()


@pytest.mark.parametrize(
    ("family", "value"),
    [("hami", ",,0,0:;"), ("hami", ",,0,0:;,,0,0:;"), ("volcano", ":;:"), ("koordinator", '{"rdma":[{"minor":0}]}')],
)
def test_an_annotation_without_a_device_is_no_allocation(family: str, value: str) -> None:
    assert read_allocation({KEYS[family]: value}, family=family, holder="it") == Allocation()


@pytest.mark.parametrize(
    ("family", "value", "rest"),
    [
        ("hami", "GPU-a,NVIDIA,x,100:;", ": segment 1: expected a number for MiB of memory"),
        ("volcano", ";GPU-a,NVIDIA,1,x:", ": segment 2: expected a number for cores"),
        ("koordinator", "{", ": expected an object in JSON"),
    ],
)
def test_a_message_names_the_annotation_and_its_bearer(family: str, value: str, rest: str) -> None:
    with pytest.raises(FormatError, match=f"^annotation {KEYS[family]} on pod team-a/train{rest}"):
        read_allocation({KEYS[family]: value}, family=family, holder="pod team-a/train")


@pytest.mark.parametrize(("family", "key"), [("hami", "hami.io/vgpu-node"), ("volcano", "volcano.sh/vgpu-node")])
def test_the_node_of_an_allocation_is_told(family: str, key: str) -> None:
    assert allocated_node({key: "node-1"}, family=family) == "node-1"
    assert allocated_node({key: ""}, family=family) is None
    assert allocated_node({}, family=family) is None


def test_koordinator_tells_no_node() -> None:
    annotations = {"": "node-1", names.HAMI_ALLOCATED_NODE: "node-1", names.VOLCANO_ALLOCATED_NODE: "node-1"}
    assert allocated_node(annotations, family="koordinator") is None


@FAMILIES
@given(value=st.text(max_size=60) | st.text(alphabet=',:;[]{}01GPU-"', max_size=60))
def test_any_annotation_is_read_or_refused(family: str, value: str) -> None:
    annotations = {KEYS[family]: value, names.HAMI_MIG_ALLOCATIONS: value}
    try:
        allocation = read_allocation(annotations, family=family, holder="it")
    except FormatError:
        return
    assert allocation == Allocation() or allocation.devices
