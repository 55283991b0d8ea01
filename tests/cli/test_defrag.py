"""``gpu-topology defrag`` on a saved state: the table, the JSON, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import gpu_topology
from tests.cli.test_snapshot import listed
from tests.decisions.defrag.moves import Running
from tests.hardware.topology.machines import a100_pcie_bridged
from tests.insight.analyze.clusters import Cluster, namespace, pairs
from webhook.cli.defrag.following import record_under
from webhook.cli.snapshots import from_files
from webhook.cluster.snapshot.directory import files_of, write
from webhook.objects.pod import Owner

OLD = "2020-01-01T00:00:00Z"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A node with two pairs, each broken by a pod of one card, of which one may be moved."""
    pods = Running({"broken": a100_pcie_bridged()})
    pods.run("moves", "broken", (0,), owner="StatefulSet", created=OLD)
    pods.run("stays", "broken", (2,), owner="Job", created=OLD)
    cluster = Cluster()
    cluster.add_node(pairs("broken"))
    cluster.add(namespace("team"))
    for pod in pods.cluster.pods.values():
        cluster.add({"apiVersion": "v1", "kind": "Pod", **pod})
    write(tmp_path / "state", files_of(from_files([listed(cluster)], None, None, None)))
    return tmp_path / "state"


def test_the_moves_are_a_table_and_what_they_come_to(state: Path) -> None:
    done = gpu_topology("defrag", "--state", state, env={"COLUMNS": "80"})
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["POD", "FROM", "TO", "COMES", "BACK", "GB/s"],
        ["1", "team/moves", "broken", "GPU0", "broken", "GPU3", "+1", "pair", "460"],
    ]
    assert max(map(len, lines[:2])) <= 80
    assert "GT667: 1 pod not moved: " in done.out
    assert "a state directory has no PodDisruptionBudgets" in done.err


def test_the_same_as_json(state: Path) -> None:
    done = gpu_topology("defrag", "--state", state, "-o", "json")
    found = json.loads(done.out)
    assert found["moves"] == [
        {
            "namespace": "team",
            "pod": "moves",
            "controller": "StatefulSet/of-moves",
            "from": {"node": "broken", "gpus": [0]},
            "to": {"node": "broken", "gpus": [3]},
            "back": {"pairs": 1, "fours": 0, "eights": 0},
            "gain": 460.0,
        }
    ]
    assert found["staying"]["loses-work"] == 1
    assert found["after"]["pairs"] - found["before"]["pairs"] == 1


def test_nothing_to_move_is_an_answer_too(state: Path) -> None:
    done = gpu_topology("defrag", "--state", state, "--max-priority", "-1")
    assert done.code == 0
    assert "No move gives linked cards back." in done.out
    assert "GT671: 1 pod not moved: " in done.out


@pytest.mark.parametrize(
    ("changes", "is_successor"),
    [({}, True), ({"uid": "another"}, False), ({"controller": False}, False)],
    ids=["the controller", "one of the same name", "an owner that creates no pods"],
)
def test_the_new_pod_is_one_of_the_same_controller_by_its_uid(changes: dict[str, Any], *, is_successor: bool) -> None:
    controller = Owner("apps/v1", "ReplicaSet", "serve", "uid-of-serve", controller=True)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "serve", "uid": "uid-of-serve", "controller": True}
    metadata = {"name": "serve-2", "namespace": "team", "uid": "u", "ownerReferences": [owner | changes]}
    found = record_under(json.dumps({"metadata": metadata, "spec": {"containers": []}}).encode(), controller)
    assert (found is not None) == is_successor
    assert record_under(b"{", controller) is None
