"""Topologies from ConfigMaps of the agent and from Nodes that HAMi annotates."""

import io
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tests.hardware.topology.machines import dgx1_v100, h20
from webhook.cluster.state.topology_objects import read_published, topology_of_config_map, topology_of_node
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology, NvLink
from webhook.programs.agent.preview import preview
from webhook.programs.agent.publication import PublishOptions
from webhook.words.errors import FormatError, GpuTopologyError, ManifestError

REGISTER = "GPU-a,10,46068,100,NVIDIA A40,0,true,0,hami-core:GPU-b,10,46068,100,NVIDIA A40,0,true,1,hami-core:"
SCORES = '[{"uuid":"GPU-a","score":{"GPU-b":420}},{"uuid":"GPU-b","score":{"GPU-a":420}}]'
LONG = "n" * 250
LONG_NAME = "gpu-topology-" + "n" * 229 + "-49fc792b4b"


def config_map(text: Any = None, name: Any = "gpu-topology-h20-node-1", **members: Any) -> dict[str, Any]:
    """The ConfigMap of an H20 node, with other members."""
    data = {"topology.json": format_topology(h20()) if text is None else text, "nccl-topo.xml": "<system/>"}
    metadata = {"name": name, "namespace": "gpu-topology", "labels": {"gpu.topology/node": "h20-node-1"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data} | members


def node(name: Any = "gpu-1", **annotations: Any) -> dict[str, Any]:
    """A Node with annotations of HAMi's."""
    of_hami = {f"hami.io/node-nvidia-{key}": value for key, value in annotations.items()}
    metadata = {"name": name, "annotations": {"other": "1"} | of_hami}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": {"cpu": "8"}}}


def as_json(value: object) -> str:
    return json.dumps(value, indent=4)


def as_yaml(value: object) -> str:
    out = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump(value, out)
    return out.getvalue()


def read(text: str | bytes) -> NodeTopology | None:
    return read_published(text, source="file a")


@pytest.mark.parametrize("written", [as_json, as_yaml])
def test_a_config_map_is_read_in_either_form(written: Any) -> None:
    assert read(written(config_map())) == h20()
    assert read("\ufeff" + written(config_map())) == h20()
    assert read(written(config_map()).encode()) == h20()


@pytest.mark.parametrize("namespace", ["", "gpu-topology"])
def test_what_the_agent_previews_is_read(namespace: str) -> None:
    assert read(preview(dgx1_v100(), PublishOptions(namespace=namespace))) == dgx1_v100()


@pytest.mark.parametrize("written", [as_json, as_yaml])
def test_the_only_object_of_a_list_is_read(written: Any) -> None:
    assert read(written({"apiVersion": "v1", "kind": "List", "items": [config_map()]})) == h20()


def test_other_documents_beside_a_config_map_do_not_matter() -> None:
    assert read(as_yaml({"apiVersion": "v1", "kind": "Namespace"}) + "---\n" + as_yaml(config_map())) == h20()


@pytest.mark.parametrize("written", [as_json, as_yaml])
def test_a_node_with_the_annotations_of_hami_is_read(written: Any) -> None:
    found = read(written(node(register=REGISTER, score=SCORES)))
    assert found
    assert (found.node, found.source, found.problem) == ("gpu-1", "hami", "")
    assert [gpu.nvlinks for gpu in found.gpus] == [
        (NvLink(target="GPU1", count=4, active=4),),
        (NvLink(target="GPU0", count=4, active=4),),
    ]


@pytest.mark.parametrize("annotations", [{"register": REGISTER}, {"register": REGISTER, "score": ""}])
def test_a_node_may_lack_scores(annotations: dict[str, str]) -> None:
    found = topology_of_node(node(**annotations), "cluster")
    assert found.problem.startswith("HAMi published no pair scores")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "{",
        "[]",
        b"\xff\xfe",
        '{"a":' * 100_000,
        format_topology(h20()),
        '{"kind":"Pod","apiVersion":"v1"}',
        '{"kind":"List","items":3}',
        '{"kind":["Node"]}',
        "kind: Pod\napiVersion: v1\n",
        '{"kind":"Node","kind":"ConfigMap"}',
        REGISTER,
    ],
)
def test_another_text_is_left_to_other_readers(text: str | bytes) -> None:
    assert read(text) is None


def test_the_name_of_a_long_node_is_cut_in_that_of_its_config_map() -> None:
    text = format_topology(NodeTopology(node=LONG, source="nvml", problem="No driver."))
    assert topology_of_config_map(config_map(text, LONG_NAME), "cluster").node == LONG


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (
            config_map(data=None),
            "a: ConfigMap gpu-topology-h20-node-1: data: expected topology.json, found .nothing.*NODE",
        ),
        (config_map(data={"a": "b"}), 'data: expected topology.json, found "a". The agent\'s are called gpu-topology-'),
        (config_map(data=[]), r"ConfigMap gpu-topology-h20-node-1: data: expected an object of texts, found .\[\]"),
        (config_map(3), 'ConfigMap gpu-topology-h20-node-1: data topology.json: expected a text, found "3"$'),
        (config_map(""), "ConfigMap gpu-topology-h20-node-1: data topology.json: expected a NodeTopology in JSON"),
        (config_map(format_topology(h20())[:500]), "data topology.json: expected a NodeTopology in JSON"),
        (config_map(" " * 1_048_577), "data topology.json: expected at most 1048576 bytes"),
        (config_map('{"a":' * 100_000), "data topology.json: expected a NodeTopology in JSON"),
        (config_map(format_topology(h20()).replace("GPU-b0c5", "GPU-\x1b")), "data topology.json: expected a NodeT"),
        (
            config_map(format_topology(h20()).replace('"index":1', '"index":0')),
            "data topology.json: expected each index",
        ),
        (
            config_map(format_topology(dgx1_v100())),
            'data topology.json: expected the topology of its own node, found "that of node dgx1-v100, which',
        ),
        (config_map(name="\x1b[2J"), r'a: ConfigMap: expected metadata.name, such as gpu-1, found "\\x1b\[2J"'),
        (config_map(name=""), 'expected metadata.name, such as gpu-1, found "nothing"'),
        (config_map(name="n" * 254), "expected metadata.name"),
        (config_map(name=["a"]), "expected metadata.name"),
        (config_map(metadata=None), "expected metadata.name"),
        (config_map(metadata="a"), "expected metadata.name"),
        (config_map(apiVersion="v2"), 'file a: expected a ConfigMap of v1, found "ConfigMap of v2"$'),
        (
            node(),
            "a: Node gpu-1: annotations: expected hami.io/node-nvidia-register, found .none of that name.*ConfigMap",
        ),
        (node(register=5), 'Node gpu-1: annotation hami.io/node-nvidia-register: expected a text, found "5"'),
        (node(register=REGISTER, score=[]), "annotation hami.io/node-nvidia-score: expected a text"),
        (node(register=REGISTER[:-1]), "Node gpu-1: annotation hami.io/node-nvidia-register: expected uuid,.*cut off"),
        (node(register=REGISTER, score="["), "annotation hami.io/node-nvidia-score: expected a list of scores"),
        (node(name="a b", register=REGISTER), "Node: expected metadata.name"),
        (node() | {"metadata": {"name": "a", "annotations": "b"}}, "annotations: expected an object of texts"),
        ({"kind": "List", "items": [config_map(), node()]}, "one ConfigMap or Node, found .2 of them.. kubectl get"),
    ],
)
def test_an_object_that_tells_no_topology_is_refused(manifest: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message) as refused:
        read(as_json(manifest))
    assert str(refused.value).isprintable()


def test_an_object_of_another_kind_is_no_config_map() -> None:
    with pytest.raises(FormatError, match=r'cluster: expected a ConfigMap of v1, found "Node of v1"$'):
        topology_of_config_map(node(), "cluster")
    with pytest.raises(FormatError, match=r'cluster: expected a Node of v1, found "None of None"$'):
        topology_of_node({}, "cluster")


def test_a_text_that_is_too_large_is_refused() -> None:
    with pytest.raises(FormatError, match=r"file a: expected at most 4194304 bytes, found .4194305 bytes"):
        read(b" " * 4_194_305)


@pytest.mark.parametrize(
    "text",
    [
        "kind: Node\na: !!bool maybe\n",
        "kind: Node\na: !!int ''\n",
        'kind: Node\na: "\\UFFFFFFFF"\n',
        "kind: Node\n? {a: b}: c\n",
        "kind: Node\nkind: ConfigMap\n",
        "kind: Node\na: [\n",
        "kind: Node\na: " + "[" * 500,
    ],
)
def test_a_manifest_that_is_no_yaml_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match=r"^file a"):
        read(text)


@given(cut=st.integers(0), form=st.sampled_from([as_json, as_yaml]))
def test_a_manifest_that_was_cut_off_is_read_or_refused(cut: int, form: Any) -> None:
    text = form(node(register=REGISTER, score=SCORES))
    with suppress(GpuTopologyError):
        read(text[: cut % len(text)])


@given(st.text().map(lambda text: f"kind: Node\n{text}"))
def test_any_manifest_is_read_or_refused(text: str) -> None:
    with suppress(GpuTopologyError):
        read(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "topology.json", "a"]), inner),
)


@given(kind=st.sampled_from(["Node", "ConfigMap"]), metadata=JSON, data=JSON)
def test_any_object_is_read_or_refused(kind: str, metadata: Any, data: Any) -> None:
    with suppress(FormatError):
        read(json.dumps({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data}))
