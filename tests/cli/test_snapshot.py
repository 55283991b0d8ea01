"""Where a snapshot comes from, and how it is written."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.hardware.topology import machines
from tests.insight.analyze.clusters import Cluster
from tests.insight.analyze.faults import FAULTS, mixture
from webhook.cli.kubeconfig import namespace_of_context
from webhook.cli.snapshots import from_files
from webhook.cluster.files.manifests import ManifestFile
from webhook.cluster.files.state import load_claims
from webhook.cluster.snapshot.directory import check_target, files_of, write
from webhook.hardware.topology.document import format_topology, parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.insight.analyze.analyzers import analyze
from webhook.words.errors import GpuTopologyError, ManifestError

CONTEXTS = {
    "current-context": "lab",
    "contexts": [
        {"name": "home", "context": {"cluster": "a", "namespace": "default"}},
        {"name": "lab", "context": {"cluster": "b", "namespace": "team-a"}},
        {"name": "bare", "context": {"cluster": "b"}},
    ],
}


@pytest.mark.parametrize(("context", "expected"), [("lab", "team-a"), ("bare", "default"), ("gone", "default")])
def test_the_namespace_is_that_of_the_current_context(tmp_path: Path, context: str, expected: str) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(CONTEXTS | {"current-context": context}))
    assert namespace_of_context(path) == expected


def without_links(topology: NodeTopology) -> NodeTopology:
    return replace(topology, gpus=tuple(replace(gpu, nvlinks=()) for gpu in topology.gpus))


def listed(cluster: Cluster) -> ManifestFile:
    return ManifestFile("all.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": list(cluster.raw())}))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_written_is_read_back_to_the_same_findings(seed: int, tmp_path: Path) -> None:
    cluster = Cluster()
    for fault in mixture(seed):
        fault.make(cluster)
    read = from_files([listed(cluster)], None, None, None)
    write(tmp_path / "state", files_of(read))
    again = from_files([], tmp_path / "state", None, None)
    assert analyze(again.snapshot) == analyze(read.snapshot)
    assert analyze(read.snapshot).findings != []


def test_what_is_written_again_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    cluster = Cluster()
    for fault in FAULTS[:8]:
        fault.make(cluster)
    files = files_of(from_files([listed(cluster)], None, None, None))
    write(tmp_path / "state", files)
    assert files_of(from_files([], tmp_path / "state", None, None)) == files


def saved_with_node(directory: Path) -> Path:
    """A saved state with one node of eight linked H20; returns the file of its topology."""
    cluster = Cluster()
    cluster.add_node(machines.h20())
    write(directory, files_of(from_files([listed(cluster)], None, None, None)))
    return directory / "nodes" / "h20-node-1.json"


def test_an_edited_topology_of_a_saved_state_counts(tmp_path: Path) -> None:
    file = saved_with_node(tmp_path)
    saved = from_files([], tmp_path, None, None).snapshot
    edited = without_links(parse_topology(file.read_text(), source="saved"))
    file.write_text(format_topology(edited))
    again = from_files([], tmp_path, None, None).snapshot
    found, before = again.nodes["h20-node-1"], saved.nodes["h20-node-1"]
    assert before.published
    assert before.published.topology == machines.h20()
    assert found.published
    assert found.published.topology == edited
    assert (found.age, found.lasts) == (before.age, before.lasts)
    assert (set(saved.setting.topologies), set(again.setting.topologies)) == (set(), set())
    assert "nvlinks" not in (tmp_path / "objects" / "configmap.yaml").read_text()


def test_an_edited_version_of_a_saved_state_counts(tmp_path: Path) -> None:
    saved_with_node(tmp_path)
    saved = from_files([], tmp_path, None, None).snapshot.facts
    (tmp_path / "cluster.yaml").write_text('{"hamiVersion": "2.5.0", "kubernetesVersion": "1.31"}')
    facts = from_files([], tmp_path, None, None).snapshot.facts
    assert (str(facts.hami), str(facts.kubernetes)) == ("2.5.0", "1.31.0")
    assert saved.hami != facts.hami


def test_names_of_objects_lead_to_no_place_outside_the_directory() -> None:
    evil = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "../../evil"}}
    pod = {"kind": "Pod", "metadata": {"name": "../x", "namespace": ".."}, "spec": {"containers": [{"name": "a"}]}}
    files = [ManifestFile("a", json.dumps(evil)), ManifestFile("b", json.dumps(pod))]
    found = files_of(from_files(files, None, None, None))
    assert len([path for path in found if path.startswith(("namespaces/", "pods/"))]) == 2
    for path in found:
        assert ".." not in Path(path).parts


def test_a_file_or_a_link_is_no_place_to_write_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        with pytest.raises(GpuTopologyError, match="expected a directory, found something else"):
            check_target(tmp_path / name)


def test_a_directory_with_files_is_no_place_to_write_to(tmp_path: Path) -> None:
    check_target(tmp_path / "new")
    check_target(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(GpuTopologyError, match="expected an empty directory, found files"):
        check_target(tmp_path)


def test_claims_of_a_saved_state_are_where_the_other_commands_look_for_them(tmp_path: Path) -> None:
    cluster = Cluster()
    for fault in FAULTS:
        if fault.name.startswith(("claim", "template", "device", "half of")):
            fault.make(cluster)
    read = from_files([listed(cluster)], None, None, None)
    write(tmp_path / "state", files_of(read))
    found = load_claims(tmp_path / "state")
    assert {name for _, name in found.claims} == {name for _, name in read.snapshot.claims.claims}
    assert ("team-a", "linked") in found.templates
    assert len(found.slices) > 1
    again = from_files([], tmp_path / "state", None, None)
    assert analyze(again.snapshot) == analyze(read.snapshot)


def test_a_list_that_is_nested_too_deep_is_a_sentence(tmp_path: Path) -> None:
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "node.yaml").write_text(f'{{"kind": "NodeList", "items": [{deep}]}}')
    with pytest.raises(ManifestError, match="nested too deep"):
        from_files([], tmp_path, None, None)
