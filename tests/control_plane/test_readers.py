"""The ClusterRoles for people at a real API server: what each command knows with them, and nothing more."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api

from tests.cli.command import ROOT, gpu_topology
from tests.control_plane.accounts import permitted, without
from tests.control_plane.control_plane import Binaries, ControlPlane, running_control_plane
from tests.control_plane.filling import OURS, PATHS, administrator, completed, create, fill, found
from tests.insight.analyze.clusters import Cluster, h20, running
from tests.insight.overview.scenes import fault, ran
from webhook.cluster.api.permissions import ANALYZE, READER, VIEW, Permission, Scope
from webhook.hardware.topology.document import format_topology, parse_topology

pytestmark = pytest.mark.cluster

PATIENCE_S = 60.0


def account(plane: ControlPlane, name: str, rights: tuple[Permission, ...], namespace: str = OURS) -> Path:
    with plane.client() as client:
        return permitted(CoreV1Api(client), plane, namespace, name, rights)


_ENDED = {"terminated": {"exitCode": 0, "startedAt": "2026-11-22T12:00:00Z", "finishedAt": "2026-11-22T12:00:01Z"}}


def seed(plane: ControlPlane) -> None:
    """A shared card, a lost one, links that are down, and pods.

    One of them has worse cards than there are, and one was told of its node at its Binding.
    """
    cluster = Cluster()
    for name in ("slice on a pair", "links down", "lost GPU", "worse cards"):
        fault(name)(cluster)
    told = running("told", "switched", 4, 5)
    told["metadata"]["annotations"]["gpu.topology/node-topology"] = format_topology(h20("switched"))
    cluster.add(told)
    with administrator(plane) as client, plane.client() as admin:
        fill(client, CoreV1Api(admin), cluster)
        ran(cluster, "pair", image="i", imageID="i", ready=True, restartCount=0, state=_ENDED)
        path = "/api/v1/namespaces/team-a/pods/pair/status"
        headers = {"Content-Type": "application/merge-patch+json"}
        body = {"status": cluster.get("Pod", "pair", "team-a")["status"]}
        assert client.patch(path, json=body, headers=headers).status_code == 200


@pytest.fixture(scope="module")
def seeded(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster of its own with what ``seed`` makes."""
    directory = tmp_path_factory.mktemp("seeded")
    with running_control_plane(binaries, directory) as running:
        seed(running)
        yield running
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def reader(seeded: ControlPlane) -> Path:
    return account(seeded, "reader", READER)


def test_with_the_reader_role_every_command_knows_all_but_secrets(reader: Path) -> None:
    analyzed = gpu_topology("analyze", "-A", "--kubeconfig", reader, "-o", "json")
    assert analyzed.err == ""
    unread = [row for row in json.loads(analyzed.out)["findings"] if row["code"] in ("GT851", "GT866")]
    assert [row["code"] for row in unread] == ["GT866"]
    assert ("GT330", "Pod team-a/unlucky") in found(analyzed.out)
    status = gpu_topology("status", "-A", "--kubeconfig", reader)
    assert (status.code, status.err) == (0, "")
    for cells in (
        "0,1[a a ] 2,3[1 . ]",
        "0-7[. . . . . .!. . ]",
        "0-5,7[. . . . . . . ] 6(.x)",
        "0-7{a . . . . a . . }",
    ):
        assert cells in status.out
    explained = gpu_topology("explain", "-v", "team-a/unlucky", "--kubeconfig", reader)
    assert (explained.code, explained.err) == (1, "")
    assert "FAIL links: GPU0 and GPU5 have no NVLink" in explained.out
    planned = gpu_topology("topology", "plan", "--gpus", "2", "--kubeconfig", reader)
    assert (planned.code, planned.err) == (0, "")
    shown = gpu_topology("topology", "show", "--node", "switched", "--kubeconfig", reader, "-o", "json")
    assert (shown.code, parse_topology(shown.out, source="show").node) == (0, "switched")


def test_with_view_of_a_namespace_its_pods_are_known_and_those_of_others_are_not(seeded: ControlPlane) -> None:
    viewer = account(seeded, "viewer", VIEW, "team-a")
    done = gpu_topology("status", "-n", "team-a", "--kubeconfig", viewer)
    assert (done.code, done.err) == (0, "")
    assert "team-a/unlucky" in done.out
    assert done.out.startswith(
        "GT865: nodes could not be listed, so no node and no card is shown: list nodes: nodes is"
    )
    assert "Have an administrator bind the ClusterRole gpu-topology-reader of the chart to you" in done.out
    other = gpu_topology("status", "-n", OURS, "--kubeconfig", viewer)
    assert (other.code, other.out) == (2, "")
    assert f"Have the permission to list pods in namespace {OURS}" in other.err
    told = gpu_topology("explain", "-v", "team-a/told", "--kubeconfig", viewer)
    assert "links: every pair of GPU4 and GPU5 has NVLink: link class NVSwitch" in told.out
    assert "node-topology: the pod's own annotation gpu.topology/node-topology, which the webhook wrote at" in told.out
    assert 'cannot get resource "nodes"' in told.err
    untold = gpu_topology("explain", "-v", "team-a/unlucky", "--kubeconfig", viewer)
    assert "?    links: which GPUs they are is not known" in untold.out


def test_who_may_list_the_pods_of_one_namespace_only_sees_no_card_called_free(seeded: ControlPlane) -> None:
    own = Permission(Scope.TOPOLOGIES, "", "pods", ("list",))
    stranger = account(seeded, "stranger", (*without(ANALYZE, Scope.CLUSTER, "pods", "list"), own))
    done = gpu_topology("status", "-n", OURS, "--kubeconfig", stranger, "-o", "json")
    assert (done.code, done.err) == (0, "")
    shown = json.loads(done.out)
    assert shown["pods"] == []
    assert {card["state"] for node in shown["nodes"] for card in node["cards"]} == {"unknown"}
    everywhere = gpu_topology("status", "-A", "--kubeconfig", stranger)
    assert (everywhere.code, "Have the permission to list pods" in everywhere.err) == (2, True)


@pytest.mark.long
def test_watching_shows_a_pod_that_comes_and_ends_with_ctrl_c(reader: Path, seeded: ControlPlane) -> None:
    ours, theirs = pty.openpty()
    # What a shell starts in the background ignores SIGINT, as do all its children: so may the tests.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "webhook", "status", "-A", "--watch"]
    command += ["--kubeconfig", str(reader)]
    settings = {"TERM": "xterm-256color", "PATH": "/usr/bin:/bin", "COLUMNS": "160", "LINES": "60"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=settings, start_new_session=True
    ) as process:
        os.close(theirs)
        os.set_blocking(ours, False)
        try:
            assert b"a-late-pod" not in _until(ours, b"Ctrl-C ends")
            with administrator(seeded) as client:
                late = running("a-late-pod", "switched", 4, 5)
                create(client, PATHS["Pod"].format(namespace="team-a"), completed(late, {}))
            _until(ours, b"a-late-pod")
            process.send_signal(signal.SIGINT)
            _until(ours, None)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()  # no end of the block would come while it writes what is not read
    os.close(ours)


def _until(terminal: int, text: bytes | None) -> bytes:
    """What the terminal gets until this text is there; None: until the other end is closed."""
    said, end = b"", time.monotonic() + PATIENCE_S
    while text is None or text not in said:
        assert time.monotonic() < end, said.decode()
        try:
            said += os.read(terminal, 65536)
        except BlockingIOError:
            time.sleep(0.05)
        except OSError:  # EIO: nothing holds the other end any more
            return said
    return said
