"""What a state directory says of nodes."""

from pathlib import Path

import pytest

from tests.hardware.topology.machines import h20
from webhook.cluster.files.directory import load_directory
from webhook.decisions.resolve.node import Origin, Sources
from webhook.hardware.topology.document import format_topology
from webhook.words.errors import FormatError, ManifestError


def with_node(root: Path, text: str) -> Path:
    (root / "nodes").mkdir()
    (root / "nodes" / "a.json").write_text(text)
    return root


def test_a_node_is_known_as_if_its_agent_had_published_it_and_never_gets_old(tmp_path: Path) -> None:
    found = load_directory(with_node(tmp_path, format_topology(h20()))).node("h20-node-1")
    assert found.published is not None
    assert (found.published.topology, found.published.origin) == (h20(), Origin.AGENT)
    assert (found.age, found.annotated) == (None, None)


def test_what_is_reckoned_of_a_node_is_kept(tmp_path: Path) -> None:
    state = load_directory(with_node(tmp_path, format_topology(h20())))
    assert state.node("h20-node-1").published is state.node("h20-node-1").published


def test_nothing_is_known_of_another_node(tmp_path: Path) -> None:
    assert load_directory(with_node(tmp_path, format_topology(h20()))).node("l40s") == Sources()
    assert load_directory(tmp_path).node("l40s") == Sources()


def test_a_topology_that_does_not_parse_hinders_nobody_who_asks_for_no_node(tmp_path: Path) -> None:
    state = load_directory(with_node(tmp_path, "{"))
    assert state.namespace("team-a").known is False
    with pytest.raises(FormatError, match=r"nodes/a\.json: expected a NodeTopology in JSON"):
        state.node("h20-node-1")


def test_a_server_reads_the_topologies_at_its_start(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nodes/a\.json: expected a NodeTopology in JSON"):
        load_directory(with_node(tmp_path, "{")).check_nodes()


def test_two_topologies_of_one_node_are_said_at_the_start(tmp_path: Path) -> None:
    root = with_node(tmp_path, format_topology(h20()))
    (root / "nodes" / "b.json").write_text(format_topology(h20()))
    with pytest.raises(ManifestError, match=r"b\.json: expected one topology of each node, found a second one"):
        load_directory(root).check_nodes()
