"""``gpu-topology page`` at a real API server, in a real browser, as a person with the rights that it names."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api

from tests.control_plane.accounts import permitted
from tests.control_plane.control_plane import Binaries, ControlPlane, StartableControlPlane, startable_control_plane
from tests.control_plane.filling import OURS, administrator, fill
from tests.control_plane.test_analyze import PLANTED, planted
from tests.insight.analyze.clusters import Cluster
from tests.insight.page.browser import Browser
from webhook.cluster.api.permissions import PAGE

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module")
def startable(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartableControlPlane]:
    """A cluster of its own in which nothing is wrong."""
    directory = tmp_path_factory.mktemp("whole")
    cluster = Cluster()
    planted(cluster)
    with startable_control_plane(binaries, directory) as running:
        running.start()
        with administrator(running.control_plane) as client, running.control_plane.client() as admin:
            fill(client, CoreV1Api(admin), cluster)
        yield running
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def whole_cluster(startable: StartableControlPlane) -> ControlPlane:
    """How that cluster is reached."""
    return startable.control_plane


@pytest.fixture(scope="module")
def person(whole_cluster: ControlPlane) -> Path:
    """The kubeconfig of one with exactly the permissions of the list."""
    with whole_cluster.client() as client:
        return permitted(CoreV1Api(client), whole_cluster, OURS, "viewer", PAGE)


@contextmanager
def running_page(kubeconfig: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The URL that the command prints, and its process."""
    command = [sys.executable, "-m", "webhook", "page", "--kubeconfig", str(kubeconfig), *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]}
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        url = process.stdout.readline().strip()
        assert url, process.stderr.read()
        yield url, process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        finally:
            process.kill()
            process.stdout.close()
            process.stderr.close()


def test_a_change_in_the_cluster_appears_by_itself_and_the_end_of_the_server_is_told(
    whole_cluster: ControlPlane, person: Path, window: Browser
) -> None:
    with running_page(person, "-A") as (url, process):
        window.open(url)
        window.live()
        assert window.all("tr[data-key='pods/team-a/train']")
        assert window.all(".tile .gpu.held")
        window.until(lambda: not window.texts(".notes"), "findings are not reckoned")
        with whole_cluster.client() as client:
            core = CoreV1Api(client)
            core.patch_node("switched", {"spec": {"unschedulable": True}})
            window.until(lambda: "cordoned" in window.text("[data-key='nodes/switched'] .head"), "no cordon")
            core.delete_namespaced_pod("train", "team-a", grace_period_seconds=0)
        window.until(lambda: not window.all("tr[data-key='pods/team-a/train']"), "the pod is still there")
        assert PLANTED not in str(window.run("return document.documentElement.outerHTML"))
        process.send_signal(signal.SIGINT)
        banner = window.until(lambda: window.texts("#banner"), "no banner")
        assert banner[0].startswith("Not live since ")
        assert process.wait(30) == 0


def test_an_api_server_that_falls_silent_is_told_and_so_is_its_return(
    startable: StartableControlPlane, person: Path, window: Browser
) -> None:
    with running_page(person, "-A") as (url, _):
        window.open(url)
        window.live()
        with startable.paused():
            banner = window.until(lambda: window.texts(".banner"), "no banner")
            assert banner[0].startswith("Not live since ")
            assert "gives no answer" in banner[0] or "no answer from" in banner[0]
            assert window.all(".tile")
        window.until(lambda: not window.texts(".banner"), "the banner stays")
