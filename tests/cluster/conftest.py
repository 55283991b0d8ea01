"""A real API server for tests marked ``cluster``; when it cannot be had, they are left out, and the summary says so."""

import os
import shutil
from collections.abc import Iterator
from typing import NoReturn

import pytest
from kubernetes.client import CoreV1Api, V1Namespace, V1ObjectMeta, V1ServiceAccount

from tests.cluster.binaries import Binaries, Missing, find_or_build
from tests.cluster.control_plane import ControlPlane, running_control_plane
from tests.cluster.processes import NotRunningError

LEFT_OUT = "no control plane for this test"
REASON = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def binaries(request: pytest.FixtureRequest) -> Binaries:
    """The programs of the control plane. Without them the test is skipped; with ``CI=true`` it is an error."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", flush=True)

    found = find_or_build(os.environ, say=say)
    if isinstance(found, Binaries):
        return found
    return leave_out(found, request.config)


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


@pytest.fixture
def admin(control_plane: ControlPlane) -> Iterator[CoreV1Api]:
    """The core API, as the administrator."""
    with control_plane.client() as client:
        yield CoreV1Api(client)


@pytest.fixture
def namespace(admin: CoreV1Api) -> str:
    """The name of a new namespace in which pods can be created."""
    created = admin.create_namespace(V1Namespace(metadata=V1ObjectMeta(generate_name="test-")))
    assert created.metadata is not None
    name = created.metadata.name
    assert name is not None
    # In a whole cluster the controller manager does it.
    admin.create_namespaced_service_account(name, V1ServiceAccount(metadata=V1ObjectMeta(name="default")))
    return name


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say it at the end of the run, where it is read."""
    reason = config.stash.get(REASON, None)
    if reason is None:
        return
    reports = [*terminalreporter.getreports("skipped"), *terminalreporter.getreports("error")]
    count = sum(LEFT_OUT in str(report.longrepr) for report in reports)
    tests = "1 test" if count == 1 else f"{count} tests"
    terminalreporter.write_sep("!", red=True, bold=True)
    terminalreporter.write_line(f"CLUSTER TESTS LEFT OUT: {tests}, because {reason}", red=True, bold=True)
    terminalreporter.write_sep("!", red=True, bold=True)


def leave_out(missing: Missing, config: pytest.Config) -> NoReturn:
    config.stash[REASON] = missing.reason
    if os.environ.get("CI") == "true":
        pytest.fail(f"{LEFT_OUT}: {missing.reason}", pytrace=False)
    pytest.skip(f"{LEFT_OUT}: {missing.reason}")
