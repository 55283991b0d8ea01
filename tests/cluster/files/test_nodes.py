"""Topologies in a state directory."""

from pathlib import Path

import pytest

from tests.hardware.topology.machines import a100_pcie_bridged, dgx1_v100, h20, l40s
from webhook.cluster.files.nodes import load_nodes
from webhook.hardware.topology.document import format_topology
from webhook.words.errors import FormatError, ManifestError

EXAMPLES = Path(__file__).parents[3] / "examples" / "state"


def with_nodes(root: Path, **files: str) -> Path:
    (root / "nodes").mkdir()
    for name, text in files.items():
        (root / "nodes" / f"{name}.json").write_text(text)
    return root


def test_the_example_nodes_are_the_machines_that_the_tests_know() -> None:
    assert load_nodes(EXAMPLES) == {
        "a100-pcie": a100_pcie_bridged(),
        "dgx1-v100": dgx1_v100(),
        "h20-node-1": h20(),
        "l40s": l40s(),
    }


def test_the_name_of_a_node_stands_in_the_document(tmp_path: Path) -> None:
    assert list(load_nodes(with_nodes(tmp_path, any=format_topology(h20())))) == ["h20-node-1"]


def test_a_directory_without_nodes_has_none(tmp_path: Path) -> None:
    assert load_nodes(tmp_path) == {}


def test_two_topologies_of_one_node_are_refused(tmp_path: Path) -> None:
    text = format_topology(h20())
    with pytest.raises(
        ManifestError, match=r"b\.json: expected one topology of each node, found a second one of h20-n"
    ):
        load_nodes(with_nodes(tmp_path, a=text, b=text))


def test_a_topology_that_does_not_parse_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nodes/a\.json: expected a NodeTopology in JSON"):
        load_nodes(with_nodes(tmp_path, a="{"))


def test_a_topology_that_cannot_be_read_names_its_file(tmp_path: Path) -> None:
    (with_nodes(tmp_path) / "nodes" / "a.json").mkdir()
    with pytest.raises(ManifestError, match=r"nodes/a\.json: cannot be read: Is a directory"):
        load_nodes(tmp_path)


def test_a_topology_that_does_not_parse_does_not_hide_the_node_that_is_wanted(tmp_path: Path) -> None:
    root = with_nodes(tmp_path, a="{", b=format_topology(h20()))
    assert load_nodes(root, wanted="h20-node-1") == {"h20-node-1": h20()}
    for wanted in (None, "l40s"):
        with pytest.raises(FormatError, match=r"nodes/a\.json: expected a NodeTopology in JSON"):
            load_nodes(root, wanted=wanted)
