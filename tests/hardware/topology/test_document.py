"""The written form of a topology."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.topology.generated import topologies
from tests.hardware.topology.machines import CUDA, DRIVER, MACHINES, bent, gb200_tray, h20, without
from webhook.hardware.topology.document import format_topology, parse_topology
from webhook.hardware.topology.model import Gpu, NodeTopology
from webhook.words.errors import FormatError

SOURCE = "ConfigMap gpu-topology-node-1"


def written(topology: NodeTopology) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(format_topology(topology))
    return document


@pytest.mark.parametrize("name", MACHINES)
def test_what_was_written_is_read_back(name: str) -> None:
    assert parse_topology(format_topology(MACHINES[name]), source=SOURCE) == MACHINES[name]


def test_the_document_has_the_names_of_the_schema() -> None:
    document = written(gb200_tray())
    assert document | {"gpus": [], "cpus": [], "fabric": {}} == {
        "apiVersion": "gpu.topology/v1",
        "kind": "NodeTopology",
        "node": "gb200-tray",
        "source": "nvml",
        "driverVersion": DRIVER,
        "cudaVersion": CUDA,
        "gpus": [],
        "cpus": [],
        "fabric": {},
    }
    assert document["gpus"][1] == {
        "index": 1,
        "uuid": "GPU-00000000-0000-0000-0000-000000000001",
        "pciBusId": "0009:01:00.0",
        "name": "NVIDIA GB200",
        "minor": 1,
        "computeCapability": "10.0",
        "memoryMiB": 189471,
        "numaNode": 0,
        "cpuAffinity": "0-71",
        "migMode": "disabled",
        "nvlinks": [{"target": "nvswitch", "count": 18, "active": 18}],
        "c2c": {"links": 10, "bandwidthMBps": 44712},
        "pcie": {"generation": 5, "width": 16},
        "root": "0009:00",
    }
    assert document["cpus"][1] == {"numaNode": 1, "affinity": "72-143", "arch": "arm64"}
    assert document["fabric"] == {
        "state": "completed",
        "status": "success",
        "clusterUuid": "5e3a91c4-70d2-4b6f-8f15-c2a9d4e60b37",
        "cliqueId": 7,
    }


def test_figures_are_written_by_label_and_only_where_there_are_some() -> None:
    topology = bent(h20(), 0, measured=(("GPU1", 371_200),), slower=(("GPU2", 90_000),))
    document = written(replace(topology, measured_at="2026-11-23T04:00:00Z"))
    assert (document["gpus"][0]["measured"], document["gpus"][0]["slower"]) == ({"GPU1": 371_200}, {"GPU2": 90_000})
    assert document["measuredAt"] == "2026-11-23T04:00:00Z"
    assert not {"measured", "slower"} & document["gpus"][1].keys()
    assert "measuredAt" not in written(h20())


def test_paths_are_written_by_label() -> None:
    assert written(h20())["nics"][1]["distance"] == {
        "GPU0": "NODE",
        "GPU1": "NODE",
        "GPU2": "PIX",
        "GPU3": "NODE",
        "GPU4": "SYS",
        "GPU5": "SYS",
        "GPU6": "SYS",
        "GPU7": "SYS",
        "NIC0": "NODE",
        "NIC2": "SYS",
        "NIC3": "SYS",
        "NIC4": "NODE",
    }


def test_a_lost_gpu_is_written() -> None:
    assert written(without(h20(), 3))["lost"] == [
        {
            "index": 3,
            "problem": "GPU is lost",
            "uuid": "GPU-9648f14e-6ab2-46f0-221f-777f7652630b",
            "pciBusId": "0000:5a:00.0",
        }
    ]


def test_links_that_cannot_be_read_are_written_with_the_reason() -> None:
    topology = NodeTopology(node="n", source="nvml", gpus=(Gpu(index=0, links_problem="Timeout"),))
    assert written(topology)["gpus"] == [{"index": 0, "linksProblem": "Timeout"}]


def test_what_a_newer_writer_added_is_ignored() -> None:
    document = written(h20())
    document["tomorrow"] = {"a": [1]}
    document["gpus"][0]["nvlinks"][0]["generation"] = 6
    assert parse_topology(json.dumps(document), source=SOURCE) == h20()


def test_what_an_older_writer_left_out_has_its_default() -> None:
    text = '{"apiVersion":"gpu.topology/v1","kind":"NodeTopology","node":"n","source":"nvml","gpus":[{"index":3}]}'
    assert parse_topology(text, source=SOURCE).gpus == (Gpu(index=3),)


def test_gpus_come_in_the_order_of_their_indices() -> None:
    document = written(h20())
    document["gpus"].reverse()
    assert parse_topology(json.dumps(document), source=SOURCE) == h20()


def test_a_version_that_we_do_not_know_is_refused() -> None:
    text = format_topology(h20()).replace("gpu.topology/v1", "gpu.topology/v2")
    expected = (
        "^ConfigMap .*: expected NodeTopology of gpu.topology/v1, found .NodeTopology of gpu.topology/v2.. Webhook"
    )
    with pytest.raises(FormatError, match=expected):
        parse_topology(text, source=SOURCE)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("gpus",), {}, r"gpus: expected a list, found \"{}\""),
        (("gpus", 3), "GPU3", r"gpus\[3\]: expected an object, found \"GPU3\""),
        (("gpus", 3, "index"), "3", r"gpus\[3\].index: expected a whole number from 0, found \"3\""),
        (("gpus", 3, "index"), True, r"gpus\[3\].index: expected a whole number from 0, found \"True\""),
        (("gpus", 3, "index"), -1, r"gpus\[3\].index: expected a whole number from 0, found \"-1\""),
        (("gpus", 3, "index"), 3.0, r"gpus\[3\].index: expected a whole number from 0, found \"3.0\""),
        (("gpus", 3, "memoryMiB"), 10**30, r"gpus\[3\].memoryMiB: expected a whole number from 0"),
        (("gpus", 3, "uuid"), 7, r"gpus\[3\].uuid: expected a text .*, found \"7\""),
        (
            ("gpus", 3, "name"),
            "H" * 5000,
            r"gpus\[3\].name: expected a text .*, at most 4096 of them, found .*5000 char",
        ),
        (("gpus", 3, "name"), "H20\x1b[2J", r"gpus\[3\].name: expected a text of printable characters"),
        (("gpus", 3, "migMode"), "on", r"gpus\[3\].migMode: expected disabled or enabled or unsupported, found \"on\""),
        (("gpus", 3, "nvlinks", 0, "target"), None, r"nvlinks\[0\].target: expected a text .*, found \"nothing\""),
        (("nvswitches",), ["a\n"], r"nvswitches\[0\]: expected a text of printable characters"),
        (("nics", 0, "distance"), {"GPU0": 1}, r"nics\[0\].distance: expected an object of texts"),
        (("gpus", 3, "slower"), {"GPU1": 0}, r"gpus\[3\].slower: expected an object of whole numbers from 1"),
        (("gpus", 3, "slower"), {"GPU1": True}, r"gpus\[3\].slower: expected an object of whole numbers from 1"),
        (("gpus", 3, "measured"), {"GPU1": 1.5}, r"gpus\[3\].measured: expected an object of whole numbers from 1"),
        (("gpus", 3, "measured"), ["GPU1"], r"gpus\[3\].measured: expected an object of whole numbers from 1"),
        (("measuredAt",), "\x1b[2J", r"measuredAt: expected a text of printable characters"),
        (("node",), "", r"node: expected a text of printable characters"),
        (("fabric",), [], r"fabric: expected an object"),
    ],
)
def test_a_member_that_is_not_what_it_should_be_is_named(path: tuple[Any, ...], value: object, message: str) -> None:
    document = written(h20())
    *above, last = path
    place: Any = document
    for step in above:
        place = place[step]
    place[last] = value
    with pytest.raises(FormatError, match=f"^{SOURCE}: .*{message}"):
        parse_topology(json.dumps(document), source=SOURCE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a NodeTopology in JSON, found "),
        ("[]", r"expected an object, found "),
        ("null", r"expected an object, found "),
        ('{"apiVersion":"gpu.topology/v1"', "expected a NodeTopology in JSON"),
        (b"\xff\xfe\x00", "expected a NodeTopology in JSON"),
        ("[" * 100_000, "expected a NodeTopology in JSON"),
        (
            '{"apiVersion":"gpu.topology/v1","apiVersion":"gpu.topology/v1"}',
            "expected each member once, found .apiVersion",
        ),
        ("{}", "expected NodeTopology of gpu.topology/v1, found .no kind of no version"),
        (" " * 10_000_000, "expected at most 1048576 bytes, found .10000000 bytes"),
    ],
)
def test_what_is_no_topology_is_refused_in_a_sentence(text: str | bytes, message: str) -> None:
    with pytest.raises(FormatError, match=f"^{SOURCE}: {message}"):
        parse_topology(text, source=SOURCE)


@pytest.mark.parametrize("share", range(1, 20))
def test_a_truncated_document_is_refused(share: int) -> None:
    text = format_topology(h20())
    with pytest.raises(FormatError, match="expected a NodeTopology in JSON"):
        parse_topology(text[: len(text) * share // 20], source=SOURCE)


@given(topologies())
def test_any_topology_is_read_back(topology: NodeTopology) -> None:
    assert parse_topology(format_topology(topology), source=SOURCE) == topology
    assert parse_topology(format_topology(topology, indent=2), source=SOURCE) == topology


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(MACHINES)), st.data())
def test_no_change_to_a_document_ends_in_a_traceback(name: str, data: st.DataObject) -> None:
    document = written(MACHINES[name])
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            place[key] = data.draw(json_values)
            break
        place = inner
    with suppress(FormatError):
        parse_topology(json.dumps(document), source=SOURCE)
