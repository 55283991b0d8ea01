"""Pods that are created the whole time while Helm installs, upgrades, rolls back and removes the chart.

Servers of this machine answer in place of pods, each with a configuration of its own, which writes into every pod whose
it is.
"""

import base64
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api, V1ObjectMeta

from tests.chart.generated import CHART
from tests.chart.helm import RELEASE, Helm
from tests.control_plane.accounts import namespace_for_pods
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import create_pod, gpu_pod, write_state
from tests.hardware.topology.machines import h20
from tests.programs.server.conftest import Starter, until
from webhook.words.names import INJECTION

pytestmark = [pytest.mark.cluster, pytest.mark.long]

PATIENT = "--set=admission.pods.timeoutSeconds=30"
MARK = "SERVED_BY"
"""The variable by which a server marks the pods that it has seen."""
ENOUGH = 10
"""Pods that are created before the next step."""
ASKED = re.compile(r'\{\{- include "gpu-topology.client-config" \(dict "root" \. "path" "([^"]*)"\) \| nindent 4 \}\}')


@dataclass(frozen=True)
class Releases:
    """Helm, for the release of one namespace."""

    helm: Helm
    control_plane: ControlPlane
    namespace: str

    def run(self, command: str, *arguments: str | Path) -> None:
        """It must work."""
        place = (f"--kubeconfig={self.control_plane.kubeconfig}", f"--namespace={self.namespace}")
        done = self.helm.run(command, *arguments, *place)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def releases(helm: Helm, control_plane: ControlPlane, namespace: str) -> Iterator[Releases]:
    found = Releases(helm, control_plane, namespace)
    yield found
    found.run("uninstall", RELEASE, "--no-hooks", "--ignore-not-found")


@dataclass
class Load:
    """Pods with GPUs that are created one after the other, until the end."""

    control_plane: ControlPlane
    namespace: str
    served: list[tuple[str, ...]] = field(default_factory=list)
    """Which servers have marked each pod."""
    lost: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until it is told to end."""
        for number in count():
            if self.ended.is_set():
                return
            answer = create_pod(self.control_plane, self.namespace, gpu_pod(f"train-{number}", {}))
            if answer.status == 201:
                self.served.append(marks(answer.body))
            else:
                self.lost.append(f"train-{number}: {answer.status} {answer.message}")

    def wait_for(self, *servers: str) -> None:
        """Returns once these servers, and no others, have answered for some pods."""
        done = len(self.served)

        def is_so() -> bool:
            return self.served[done:][-ENOUGH:] == [servers] * ENOUGH

        until(lambda: bool(self.lost) or is_so(), f"pods that {servers} have answered for")
        assert self.lost == []


@contextmanager
def creating(control_plane: ControlPlane, namespace: str) -> Iterator[Load]:
    """Pods are created for as long as the context lasts."""
    load = Load(control_plane, namespace)
    thread = threading.Thread(target=load.run)
    thread.start()
    try:
        yield load
    finally:
        load.ended.set()
        thread.join()


def marks(pod: dict[str, Any]) -> tuple[str, ...]:
    """Which servers have marked the pod."""
    variables = pod["spec"]["containers"][0].get("env", [])
    return tuple(variable["value"] for variable in variables if variable["name"] == MARK)


@dataclass
class Servers:
    """Servers by what they write into pods, and charts whose registration leads to them."""

    starter: Starter
    directory: Path
    state: Path

    def chart(self, name: str) -> Path:
        """Starts a server; returns a chart that registers it."""
        server = self.starter(state=self.state, config=f"defaults: {{env.{MARK}: {name}}}\n")
        chart = Path(shutil.copytree(CHART, self.directory / f"chart-of-{name}"))
        registration = chart / "templates" / "webhook" / "registration.yaml"
        bundle = base64.b64encode(server.authority.read_bytes()).decode()
        address = rf"\n    url: {server.url}\1\n    caBundle: {bundle}"
        text, replaced = ASKED.subn(address, registration.read_text(encoding="utf-8"))
        assert replaced == 2
        registration.write_text(text, encoding="utf-8")
        return chart


@pytest.fixture
def team(admin: CoreV1Api, namespace: str) -> Iterator[str]:
    """A namespace that opted in."""
    name = namespace_for_pods(admin, V1ObjectMeta(name=f"{namespace}-team", labels={INJECTION: "enabled"}))
    yield name
    admin.delete_collection_namespaced_pod(name, grace_period_seconds=0)


@pytest.fixture
def servers(tmp_path: Path, team: str) -> Iterator[Servers]:
    (tmp_path / "servers").mkdir()
    starter = Starter(tmp_path / "servers")
    try:
        yield Servers(starter, tmp_path, write_state(tmp_path / "state", team, h20(), {}))
    finally:
        starter.stop_all()


def test_no_pod_is_lost_while_a_release_comes_is_upgraded_goes_back_and_leaves(
    releases: Releases, servers: Servers, team: str
) -> None:
    with creating(releases.control_plane, team) as load:
        load.wait_for()
        releases.run("install", RELEASE, servers.chart("first"), PATIENT)
        load.wait_for("first")
        releases.run("upgrade", RELEASE, servers.chart("upgraded"), PATIENT)
        load.wait_for("upgraded")
        releases.run("rollback", RELEASE)
        load.wait_for("first")
        releases.run("uninstall", RELEASE, "--no-hooks")
        load.wait_for()
    assert load.lost == []
    assert set(load.served) == {(), ("first",), ("upgraded",)}
