"""``gpu-topology status`` at a real API server, as a person with the rights of ``analyze``."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api

from tests.cli.command import ROOT, gpu_topology
from tests.control_plane.accounts import permitted, without
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.filling import OURS, PATHS, administrator, completed, create
from tests.insight.analyze.clusters import running
from webhook.cluster.api.permissions import ANALYZE, Permission, Scope

pytestmark = pytest.mark.cluster

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def person(seeded: ControlPlane) -> Path:
    with seeded.client() as client:
        return permitted(CoreV1Api(client), seeded, OURS, "watcher", ANALYZE)


def test_the_cluster_is_shown_as_it_is(person: Path) -> None:
    done = gpu_topology("status", "-A", "--kubeconfig", person)
    assert (done.code, done.err) == (0, "")
    for cells in (
        "0,1[a a ] 2,3[1 . ]",
        "0-7[. . . . . .!. . ]",
        "0-5,7[. . . . . . . ] 6(.x)",
        "0-7{a . . . . a . . }",
    ):
        assert cells in done.out
    verified = next(line for line in done.out.splitlines() if "team-a/pair " in line)
    assert verified.split()[-2:] == ["yes", "-"]
    slower = next(line for line in done.out.splitlines() if "team-a/unlucky" in line)
    assert "6 of 40" in slower
    assert slower.endswith("GT330")


def test_a_pod_of_another_namespace_holds_its_cards_and_is_not_listed(person: Path) -> None:
    done = gpu_topology("status", "-n", "default", "--kubeconfig", person, "-o", "json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["pods"] == []
    paired = next(node for node in found["nodes"] if node["name"] == "paired")
    assert [card["state"] for card in paired["cards"]] == ["held", "held", "shared", "free"]


@pytest.fixture(scope="module")
def stranger(seeded: ControlPlane) -> Path:
    """May list the pods of one namespace only."""
    rights = without(ANALYZE, Scope.CLUSTER, "pods", "list")
    with seeded.client() as client:
        own = Permission(Scope.TOPOLOGIES, "", "pods", ("list",))
        return permitted(CoreV1Api(client), seeded, OURS, "stranger", (*rights, own))


def test_the_pods_of_all_namespaces_need_the_right_to_all_pods(stranger: Path) -> None:
    done = gpu_topology("status", "-A", "--kubeconfig", stranger)
    assert done.code == 2
    assert "Have the permission to list pods" in done.err


def test_who_may_list_the_pods_of_one_namespace_only_sees_no_card_called_free(stranger: Path) -> None:
    done = gpu_topology("status", "-n", OURS, "--kubeconfig", stranger, "-o", "json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["pods"] == []
    states = {card["state"] for node in found["nodes"] for card in node["cards"]}
    assert states == {"unknown"}


@pytest.mark.long
def test_watching_shows_a_pod_that_comes_and_ends_with_ctrl_c(person: Path, seeded: ControlPlane) -> None:
    ours, theirs = pty.openpty()
    # What a shell starts in the background ignores SIGINT, as do all its children: so may the tests.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "webhook", "status", "-A", "--watch"]
    command += ["--kubeconfig", str(person)]
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
