"""Which cluster the commands that can do without one ask: kubectl's, a named one, or none."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.command import ROOT, Done, gpu_topology
from tests.cli.stand_in_cluster import Cluster, add_topology
from tests.insight.explain.situations import H20, injected, on
from tests.pods import pod

BOUND = json.dumps(on(injected(pod()), "h20-node-1", [H20[0], H20[1]]))
"""The manifest of a pod with its node and two cards."""
OFFLINE_TOO = {
    "inject": (["inject", "-f", "-"], ["--state", "examples/state"]),
    "bind": (["bind", "-f", "-"], ["--state", "examples/state"]),
    "claim": (["claim", "--gpus", "2", "--require-nvlink"], ["--state", "examples/state"]),
    "topology plan": (["topology", "plan", "--gpus", "2"], ["--state", "examples/state"]),
    "topology show": (["topology", "show", "--node", "h20-node-1"], ["--state", "examples/state"]),
}
"""Each command that can do without a cluster, and its options for a state directory."""


def run(command: list[str], **environment: str) -> Done:
    manifest = {"inject": json.dumps(pod()), "bind": BOUND}.get(command[0], "")
    return gpu_topology(*command, stdin=manifest, env=environment)


def note(cluster: Cluster) -> str:
    name = json.loads(cluster.kubeconfig.read_text())["current-context"]
    return f"note: in the cluster of context {name} ({cluster.kubeconfig}), as kubectl; --offline asks no cluster"


@pytest.mark.parametrize("name", OFFLINE_TOO)
def test_the_current_cluster_is_asked_and_named(name: str, cluster: Cluster) -> None:
    command, _ = OFFLINE_TOO[name]
    done = run(command, KUBECONFIG=str(cluster.kubeconfig))
    assert done.err.splitlines()[0] == note(cluster)
    assert cluster.asked


@pytest.mark.parametrize("name", OFFLINE_TOO)
def test_a_cluster_that_is_named_is_asked_without_a_word(name: str, cluster: Cluster) -> None:
    command, _ = OFFLINE_TOO[name]
    done = run([*command, "--kubeconfig", str(cluster.kubeconfig)])
    assert "note: in the cluster" not in done.err
    assert cluster.asked


@pytest.mark.parametrize("name", OFFLINE_TOO)
@pytest.mark.parametrize("is_offline", [True, False], ids=["--offline", "--state"])
def test_what_is_offline_asks_no_cluster_and_says_nothing_of_one(
    name: str, cluster: Cluster, *, is_offline: bool
) -> None:
    command, state = OFFLINE_TOO[name]
    options = ["--offline"] if is_offline else state
    done = run([*command, *options], KUBECONFIG=str(cluster.kubeconfig))
    assert "note: in the cluster" not in done.err
    assert cluster.asked == []
    both = run([*command, *options, "--context", "x"], KUBECONFIG=str(cluster.kubeconfig))
    assert both.code == 2
    assert ("--offline asks no cluster" if is_offline else "give either files or a cluster") in both.err


@pytest.mark.parametrize("name", OFFLINE_TOO)
def test_without_a_kubeconfig_no_cluster_is_asked(name: str, tmp_path: Path) -> None:
    command, _ = OFFLINE_TOO[name]
    without = run(command, HOME=str(tmp_path))
    offline = run([*command, "--offline"], HOME=str(tmp_path))
    assert without == offline
    assert "cluster of" not in without.err


def test_a_version_that_is_given_describes_the_cluster(cluster: Cluster) -> None:
    command = ["inject", "-f", "-", "--hami-version", "2.9.0", "--kubernetes-version", "1.33"]
    described = run(command, KUBECONFIG=str(cluster.kubeconfig))
    assert (described.code, described.err, cluster.asked) == (0, "", [])
    run([*command, "--kubeconfig", str(cluster.kubeconfig)])
    assert cluster.asked


def test_a_topology_that_is_given_describes_the_node_of_a_binding(cluster: Cluster) -> None:
    topology = ROOT / "examples" / "state" / "nodes" / "h20-node-1.json"
    done = run(["bind", "-f", "-", "--topology", str(topology)], KUBECONFIG=str(cluster.kubeconfig))
    assert (done.code, cluster.asked) == (0, [])


def test_this_machine_is_shown_where_no_node_is_named(cluster: Cluster) -> None:
    done = run(["topology", "show"], KUBECONFIG=str(cluster.kubeconfig))
    assert cluster.asked == []
    if done.code:  # a machine without GPUs
        assert done.err.startswith("gpu-topology: this machine: ")
        assert done.err.endswith(". A node of the cluster is shown with --node NAME\n")
    add_topology(cluster, minutes_ago=1)
    cluster.objects["/api/v1/nodes/h20-node-1"] = {"metadata": {"name": "h20-node-1", "uid": "u"}}
    named = run(["topology", "show", "--node", "h20-node-1"], KUBECONFIG=str(cluster.kubeconfig))
    assert "/api/v1/nodes/h20-node-1" in cluster.asked
    assert named.err.startswith(note(cluster))


@pytest.mark.parametrize("name", OFFLINE_TOO)
def test_a_cluster_that_gives_no_answer_is_an_error_and_nothing_is_printed(name: str, cluster: Cluster) -> None:
    config = json.loads(cluster.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    cluster.kubeconfig.write_text(json.dumps(config))
    command, _ = OFFLINE_TOO[name]
    done = run(command, KUBECONFIG=str(cluster.kubeconfig))
    assert (done.code, done.out) == (1, "")
    assert "http://127.0.0.1:1 gives no answer" in done.err


def test_the_file_at_home_comes_before_the_account_of_the_pod_as_for_kubectl(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    shutil.copy(cluster.kubeconfig, tmp_path / ".kube" / "config")
    inside = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    run(["inject", "-f", "-"], HOME=str(tmp_path), **inside)
    assert cluster.asked
    without = gpu_topology("place", "release", "--all", env=inside)
    assert "expected to run as a pod with a service account" in without.err


EMERGENCY = "gpu-topology place release --all"


@pytest.mark.parametrize(
    "page", ["docs/install.md", "docs/messages.md", "docs/placement.md", "deploy/chart/templates/NOTES.txt"]
)
def test_every_page_has_the_same_emergency_command(page: str) -> None:
    told = re.findall(r"gpu-topology place release[^`.;|\n]*", (ROOT / page).read_text())
    assert told
    assert {each.split("  ")[0] for each in told} - {EMERGENCY} <= {f"{EMERGENCY} opens the gates meanwhile"}


def test_the_emergency_command_finds_the_current_cluster(cluster: Cluster) -> None:
    cluster.objects["/api/v1/pods"] = {"items": []}
    done = gpu_topology(*EMERGENCY.split()[1:], env={"KUBECONFIG": str(cluster.kubeconfig)})
    assert (done.code, done.out, done.err) == (0, "no pod waits for its cards or is pinned to some\n", "")
    assert cluster.asked
