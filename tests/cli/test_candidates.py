"""Shells complete pods, workloads, namespaces and nodes from the cluster, or silently nothing."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import gpu_topology
from tests.cli.stand_in_cluster import Cluster
from tests.programs.agent.looks import nowhere
from webhook.cluster.api import object_names


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine is no silent server."""
    monkeypatch.setattr(object_names, "SECONDS", 60.0)


def named(*names: str) -> dict[str, Any]:
    return {"items": [{"metadata": {"name": name}} for name in names]}


def complete(kubeconfig: Path, words: str) -> list[str]:
    """The candidates for the last of the words, which may be empty."""
    line = f"gpu-topology {words}"
    environment = {
        "_GPU_TOPOLOGY_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
        "KUBECONFIG": str(kubeconfig),
    }
    done = gpu_topology(env=environment)
    assert (done.code, done.err) == (0, "")
    return done.out.split()


@pytest.fixture
def filled(cluster: Cluster) -> Cluster:
    cluster.objects |= {
        "/api/v1/namespaces": named("team-a", "team-b", "default"),
        "/api/v1/nodes": named("h20-node-1", "h20-node-2", "cpu-1"),
        "/api/v1/namespaces/default/pods": named("train", "test"),
        "/api/v1/namespaces/team-a/pods": named("train-a", "serve"),
        "/apis/batch/v1/namespaces/team-a/jobs": named("train-job"),
        "/apis/apps/v1/namespaces/default/deployments": named("prefill"),
    }
    return cluster


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("explain tr", ["train"]),
        ("explain ", ["train", "test"]),
        ("explain -n team-a ", ["train-a", "serve"]),
        ("explain team-a/s", ["team-a/serve"]),
        ("explain -n team-a job/", ["job/train-job"]),
        ("explain deploy/", ["deploy/prefill"]),
        ("explain --namespace team", ["team-a", "team-b"]),
        ("explain train --node h", ["h20-node-1", "h20-node-2"]),
        ("bind -n team-a s", ["serve"]),
        ("analyze -n d", ["default"]),
        ("status -n team-b", ["team-b"]),
        ("inject -n team-a", ["team-a"]),
        ("topology show --node c", ["cpu-1"]),
        ("explain -n team-b ", []),
    ],
)
def test_the_cluster_has_the_candidates(filled: Cluster, words: str, found: list[str]) -> None:
    assert complete(filled.kubeconfig, words) == found


def test_a_name_that_a_terminal_obeys_is_no_candidate(cluster: Cluster) -> None:
    cluster.objects["/api/v1/nodes"] = named("good-1", "evil\x1b[2J", "one\ntwo", "right\u202eleft", "good-2")
    assert complete(cluster.kubeconfig, "topology show --node ") == ["good-1", "good-2"]


def test_a_completion_is_one_request_for_one_short_page(filled: Cluster) -> None:
    complete(filled.kubeconfig, "explain ")
    assert filled.asked == ["/api/v1/namespaces/default/pods?limit=500"]


def test_with_files_no_cluster_is_asked(filled: Cluster) -> None:
    assert complete(filled.kubeconfig, "explain -f a.yaml tr") == []
    assert complete(filled.kubeconfig, "explain --state . tr") == []
    assert filled.asked == []


def test_without_a_cluster_there_is_no_candidate(tmp_path: Path) -> None:
    assert complete(tmp_path / "none", "explain tr") == []
    (tmp_path / "no-kubeconfig").write_text("[")
    assert complete(tmp_path / "no-kubeconfig", "explain tr") == []


def test_a_server_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_names, "SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(nowhere(f"http://127.0.0.1:{silent.getsockname()[1]}")))
        assert complete(kubeconfig, "explain tr") == []
