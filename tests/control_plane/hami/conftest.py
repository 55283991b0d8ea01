"""Clusters with HAMi, each started when the first test wants it, and a namespace in one of them for each test."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from kubernetes.client import CoreV1Api

from tests.compatibility.noting import Note
from tests.control_plane.control_plane import Binaries
from tests.control_plane.hami.cluster import Cluster, Labels, running_cluster
from tests.control_plane.hami.planning import Planner, placing
from tests.control_plane.hami.scheduler import USER, Programs
from tests.control_plane.hami.team import Team, create_namespace
from tests.control_plane.installation import registered
from tests.control_plane.kubectl import Kubectl
from tests.control_plane.on_demand import started_on_demand
from tests.go_programs.catalogue import HAMI_SCHEDULERS, KUBE_SCHEDULER, KUBECTL
from tests.go_programs.left_out import GetProgram, LeaveOut
from tests.nvml.stub import nvml_library

__all__ = ["nvml_library"]

NEXT_HAMI, NEXT_ASSETS = "hami-scheduler-next", "NEXT_HAMI_ASSETS"
"""The program and the variable that names its directory."""
Clusters: TypeAlias = Callable[[str], Cluster]
NewTeam: TypeAlias = Callable[..., Team]
STRATEGY = "envvar"
"""The device list strategy for which our side is configured, which is its default."""


@pytest.fixture(scope="session")
def clusters(
    binaries: Binaries,
    go_program: GetProgram,
    nvml_library: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Clusters]:
    """Gives the cluster with this release of HAMi; ``+overwriteEnv`` behind it turns that setting on."""

    @contextmanager
    def start(kind: str) -> Iterator[Cluster]:
        release, _, setting = kind.partition("+")
        programs = Programs(go_program(KUBE_SCHEDULER), go_program(HAMI_SCHEDULERS[release]))
        directory = tmp_path_factory.mktemp("cluster")
        try:
            with running_cluster(
                binaries, programs, release, directory, nvml_library, overwrite_env=setting == "overwriteEnv"
            ) as cluster:
                yield cluster
        finally:
            shutil.rmtree(directory)

    with started_on_demand(start) as get:
        yield get


@pytest.fixture(params=list(HAMI_SCHEDULERS))
def release(request: pytest.FixtureRequest) -> str:
    """Each release of HAMi, unless the test names one."""
    release: str = request.param
    return release


@pytest.fixture
def next_hami(leave_out: LeaveOut) -> Path:
    """The scheduler of a HAMi after 2.10.0, which is only used ready-made."""
    directory = os.environ.get(NEXT_ASSETS, "")
    program = Path(directory).absolute() / NEXT_HAMI
    if not directory or not os.access(program, os.X_OK):
        leave_out(NEXT_HAMI, f"{NEXT_ASSETS} names no directory with an executable of that name")
    return program


@pytest.fixture
def cluster(clusters: Clusters, release: str) -> Cluster:
    return clusters(release)


@pytest.fixture
def registration(cluster: Cluster) -> Iterator[None]:
    """Our webhook is registered, before HAMi's in the order of names as the chart has it."""
    with registered(cluster.ours, cluster.ours.registration(scheduler=USER)):
        yield


@pytest.fixture
def kubectl(cluster: Cluster, go_program: GetProgram, tmp_path: Path) -> Kubectl:
    """The administrator's."""
    return Kubectl(go_program(KUBECTL), cluster.control_plane.kubeconfig, tmp_path)


@pytest.fixture
def new_team(cluster: Cluster, release: str, note_pod: Note) -> Iterator[NewTeam]:
    """Gives a namespace with these labels (see ``Team.label``) and no pods; nothing of them is left in the end."""
    seen: list[dict[str, Any]] = []
    with cluster.control_plane.client() as client, ExitStack() as stack:
        admin = CoreV1Api(client)

        def make(**labels: str) -> Team:
            key = frozenset(labels.items())
            known = cluster.teams.get(key)
            # Until it is given back nobody else gets it, and a test that changes its labels does not give it back.
            name = cluster.teams.pop(key, "") or create_namespace(admin, labels)
            team = Team(cluster.control_plane, admin, name, cluster.ours.learn, seen)
            stack.callback(give_back, team, key)
            if not known:
                team.learn()
            return team

        def give_back(team: Team, key: Labels) -> None:
            team.ends()
            if not team.changed:
                cluster.teams[key] = team.namespace

        yield make
    kubernetes = cluster.control_plane.version()
    hami = release.partition("+")[0]
    judges = (f"kube-apiserver {kubernetes}", f"HAMi's scheduler {hami}")
    for pod in seen:
        strategy = cluster.plugins.get(pod["spec"]["nodeName"])
        plugin = (f"HAMi's device plugin {hami}",) if strategy else ()
        note_pod(pod, hami=hami, kubernetes=kubernetes, strategy=strategy or STRATEGY, judges=(*judges, *plugin))


@pytest.fixture
def planner(cluster: Cluster, tmp_path: Path, registration: None) -> Iterator[Planner]:  # noqa: ARG001 - comes first
    """Our planner runs."""
    with placing(cluster.ours, tmp_path) as planner:
        yield planner


@pytest.fixture
def team(planner: Planner, new_team: NewTeam) -> Team:  # noqa: ARG001 - stays until its pods are gone
    """A namespace whose pods the planner places."""
    return new_team(injection="enabled")
