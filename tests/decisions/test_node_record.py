"""What the planner keeps of a node, and when that has changed."""

import json
from typing import Any

import pytest

from tests.control_plane.hami.nodes import node_manifest
from tests.decisions.place.cluster import named
from tests.decisions.place.objects import Object, encoded
from tests.hardware.topology.machines import a100_pcie_bridged
from webhook.decisions.node_record import NodeRecord, read_node
from webhook.objects.node import Taint
from webhook.words.errors import ManifestError

REGISTER = "hami.io/node-nvidia-register"
# As HAMi 2.7.1 writes it: pkg/util/util.go, EncodeNodeDevices.
OF_2_7 = (
    "GPU-a,10,81920,100,NVIDIA-NVIDIA A100 80GB PCIe,0,true,0,hami-core:"
    "GPU-b,10,81920,100,NVIDIA-NVIDIA A100 80GB PCIe,0,false,1,hami-core:"
    "GPU-c,10,81920,100,NVIDIA-NVIDIA A100 80GB PCIe,1,true,2,mig:"
)
# As HAMi 2.10.0 writes it: pkg/device/devices.go, MarshalNodeDevices.
OF_2_10 = json.dumps(
    [
        {"id": "GPU-a", "count": 10, "devmem": 81920, "devcore": 100, "type": "NVIDIA A100", "health": True},
        {"id": "GPU-b", "index": 1, "count": 10, "devmem": 81920, "devcore": 100, "type": "NVIDIA A100"},
        {"id": "GPU-c", "index": 2, "devmem": 81920, "type": "NVIDIA A100", "mode": "mig", "health": True},
    ]
)


def node(annotations: dict[str, str] | None = None, **parts: Any) -> Object:
    """A Node."""
    metadata: Object = {"name": "n1", "labels": {"a": "b"}}
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "status": {"allocatable": {"cpu": "4", "memory": "8Ki", "pods": "110"}}, **parts}


def read(document: Object, before: NodeRecord | None = None) -> NodeRecord:
    """The record."""
    return read_node(encoded(document), "n1", before)


@pytest.mark.parametrize("register", [OF_2_7, OF_2_10])
def test_cards_that_are_unhealthy_or_cut_are_not_handed_out(register: str) -> None:
    record = read(node({REGISTER: register}))
    assert [gpu.uuid for gpu in record.registered] == ["GPU-a"]
    assert record.most == 3


def test_cards_that_are_cordoned_are_not_handed_out() -> None:
    topology = named(a100_pcie_bridged(), "n1")
    document = node_manifest(topology)
    document["metadata"]["annotations"]["hami.io/device-cordon"] = "GPU-n1.2, GPU-n1.0,,GPU-other"
    record = read(document)
    assert [gpu.uuid for gpu in record.registered] == ["GPU-n1.1", "GPU-n1.3"]
    assert record.most == 4


@pytest.mark.parametrize("register", ["", "[]", "nonsense", "[{}]", "[1]", "[" * 100_000, OF_2_7[:60], "null"])
def test_a_register_that_cannot_be_read_has_no_cards(register: str) -> None:
    record = read(node({REGISTER: register}))
    assert (record.registered, record.most) == ((), 0)


def test_what_is_read_of_a_node() -> None:
    spec = {"taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "l", "effect": "NoExecute", "value": "v"}]}
    record = read(node(spec=spec))
    assert record.taints == (Taint("k", "NoSchedule"), Taint("l", "NoExecute", "v"))
    assert (record.name, record.labels, record.is_cordoned) == ("n1", {"a": "b"}, False)
    assert record.allocatable == {"cpu": 4000, "memory": 8192, "pods": 110}


def test_a_node_that_is_cordoned_or_goes_takes_no_pods() -> None:
    assert read(node(spec={"unschedulable": True})).is_cordoned
    assert not read(node(spec={"unschedulable": False})).is_cordoned
    going = node()
    going["metadata"]["deletionTimestamp"] = "2026-11-22T12:00:00Z"
    assert read(going).is_cordoned


def test_a_node_without_anything_can_be_kept() -> None:
    record = read({"metadata": {"name": "n1"}})
    assert (record.labels, record.taints, record.allocatable, record.registered) == ({}, (), {}, ())
    assert (
        read({"metadata": {"name": "n1", "labels": None, "annotations": None}, "spec": None, "status": None}) == record
    )


def test_a_heartbeat_leaves_the_value_of_before() -> None:
    document = node({REGISTER: OF_2_10})
    before = read(document)
    document["status"]["conditions"] = [{"type": "Ready", "lastHeartbeatTime": "2026-11-22T12:00:00Z"}]
    document["metadata"]["resourceVersion"] = "2"
    document["metadata"]["annotations"]["hami.io/node-handshake"] = "Reported 2026-11-22"
    assert read(document, before) is before
    document["metadata"]["labels"] = {"a": "c"}
    assert read(document, before) is not before


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"null",
        b"{}",
        b'{"metadata": {"name": 1}}',
        b'{"metadata": {"name": "n1"}, "spec": {"taints": [1]}}',
        b'{"a": ' + b"[" * 100_000,
    ],
)
def test_what_is_no_node_is_refused_by_name(document: bytes) -> None:
    with pytest.raises(ManifestError, match="Node n1: "):
        read_node(document, "n1", None)


def test_thousands_of_taints_and_resources_are_bounded() -> None:
    taints = [{"key": f"k{number}", "effect": "NoSchedule"} for number in range(5000)]
    amounts = {f"example.com/{number:04}": "1" for number in range(5000)}
    record = read(node(spec={"taints": taints}, status={"allocatable": amounts}))
    assert (len(record.taints), len(record.allocatable)) == (256, 64)
