"""A real API server for tests marked ``cluster``; when it cannot be had, they are left out."""

import shutil
from collections.abc import Iterator

import pytest
from kubernetes.client import CoreV1Api, V1Node, V1ObjectMeta

from tests.control_plane.accounts import namespace_for_pods
from tests.control_plane.control_plane import (
    REQUEST_TIMEOUT_S,
    Binaries,
    ControlPlane,
    running_control_plane,
    startable_control_plane,
)
from tests.control_plane.processes import NotRunningError
from tests.control_plane.registration import Served, served
from tests.control_plane.scheduling import NODE
from tests.go_programs.catalogue import ETCD, KUBE_APISERVER
from tests.go_programs.left_out import GetProgram
from tests.programs.server.conftest import RunningServer

SERVED = (
    "--runtime-config=resource.k8s.io/v1beta2=true,scheduling.k8s.io/v1alpha2=true",
    "--feature-gates=DRADeviceTaintRules=true,GenericWorkload=true",
)
"""Options of the API server; from Kubernetes 1.37 on DeviceTaintRules are the default."""


@pytest.fixture(scope="session")
def binaries(go_program: GetProgram) -> Binaries:
    """The programs of the control plane."""
    return Binaries(etcd=go_program(ETCD), kube_apiserver=go_program(KUBE_APISERVER))


@pytest.fixture(scope="session")
def control_plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One API server for all tests; each test works in a namespace of its own."""
    directory = tmp_path_factory.mktemp("control-plane")
    try:
        with running_control_plane(binaries, directory) as running:
            yield running
    except NotRunningError as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that has PodGroups and DeviceTaintRules, which Kubernetes 1.36 serves only if it is told to."""
    directory = tmp_path_factory.mktemp("with-more-kinds")
    with startable_control_plane(binaries, directory, *SERVED) as running:
        running.start()
        yield running.control_plane
    shutil.rmtree(directory)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What of ours runs within the tests waits for the API server even if the machine stands still for a while."""
    monkeypatch.setattr("webhook.cluster.api.pod_events.DRAIN_SECONDS", REQUEST_TIMEOUT_S)
    for name in ("cluster.api.api_server.SECONDS", "cluster.api.certificates.SECONDS"):
        monkeypatch.setattr(f"webhook.{name}", REQUEST_TIMEOUT_S)
    monkeypatch.setattr("webhook.programs.agent.run.REQUEST_SECONDS", REQUEST_TIMEOUT_S)


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> Iterator[CoreV1Api]:
    """The core API, as the administrator."""
    with control_plane.client() as client:
        yield CoreV1Api(client)


@pytest.fixture(scope="module")
def shared_namespace(admin: CoreV1Api) -> str:
    """The name of a namespace for what takes long to set up, and which the tests of a module leave as it is."""
    return namespace_for_pods(admin, V1ObjectMeta(generate_name="shared-"))


@pytest.fixture
def namespace(admin: CoreV1Api, request: pytest.FixtureRequest) -> str:
    """The name of a new namespace in which pods can be created; our server is asked about them if the test has one."""
    if "for_module" in request.fixturenames:
        found: Served = request.getfixturevalue("for_module")
        return found.namespace()
    return namespace_for_pods(admin, V1ObjectMeta(generate_name="test-"))


@pytest.fixture
def h20_node(admin: CoreV1Api) -> Iterator[None]:
    """The Node that pods are bound to."""
    admin.create_node(V1Node(metadata=V1ObjectMeta(name=NODE)))
    yield
    admin.delete_node(NODE)


@pytest.fixture(scope="module")
def for_module(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Our server for the tests of a module, which may have one with settings in its place."""
    with served(control_plane, tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture
def webhook(for_module: Served) -> RunningServer:
    """Our server."""
    return for_module.server
