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


@pytest.fixture(params=[pytest.param("2.9.0", marks=pytest.mark.long), "2.10.0"])
def release(request: pytest.FixtureRequest) -> str:
    """Each release of HAMi, unless the test names one; ``make test`` has the newest."""
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


class Resident:
    """The planner that stays from one test to the next, as long as each wants one, because its start takes seconds."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running = ExitStack()
        self._at: tuple[Cluster, Planner] | None = None

    def at(self, cluster: Cluster) -> Planner:
        """The planner of this cluster, which leads, and for which pods wait."""
        if self._at is None or self._at[0] is not cluster:
            self.leaves()
            self._at = cluster, self._running.enter_context(placing(cluster.ours, self._directory))
        return self._at[1]

    def leaves(self) -> None:
        """No pod waits for it any more."""
        self._at = None
        self._running.close()


@pytest.fixture(scope="session")
def resident(clusters: Clusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:  # noqa: ARG001 - outlive it
    found = Resident(tmp_path_factory.mktemp("planner"))
    yield found
    found.leaves()


@pytest.fixture
def cluster(clusters: Clusters, release: str, resident: Resident, request: pytest.FixtureRequest) -> Cluster:
    """The cluster with this release; without a planner, unless the test wants the one that stays."""
    if "resident_planner" not in request.fixturenames:
        resident.leaves()
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
def resident_planner(cluster: Cluster, resident: Resident, registration: None) -> Planner:  # noqa: ARG001 - comes first
    return resident.at(cluster)


@pytest.fixture
def planner(resident_planner: Planner) -> Planner:
    """Our planner runs. A test that stops it, or wants other settings, has one of its own."""
    return resident_planner


@pytest.fixture
def team(planner: Planner, new_team: NewTeam) -> Team:  # noqa: ARG001 - decides about it
    """A namespace whose pods the planner places."""
    return new_team(injection="enabled")
