"""The end of a release: waiting pods are let go before the webhook goes, by a Job that Helm waits for.

No controllers run here, so the tests say how the Job ends.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from subprocess import CompletedProcess
from typing import Any

import pytest
from kubernetes.client import CoordinationV1Api, CoreV1Api, V1ObjectMeta

from tests.chart.generated import CHART
from tests.chart.helm import RELEASE, Helm, documents, pick
from tests.chart.rendered import PLACES, PLANNER, RELEASE_JOB
from tests.control_plane.accounts import namespace_for_pods, wait_until_granted
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.manifests import find, path_of, request
from tests.programs.server.conftest import until
from webhook.cluster.api import permissions
from webhook.decisions.place.placed_annotation import Placed, format_placed
from webhook.hardware.topology.sets import LinkClass
from webhook.words.names import INJECTED, PLACE_GATE, PLACED, PLACEMENT, PLANNER_LEASE, PREFIX, USE_GPU_UUID

pytestmark = pytest.mark.cluster

ON_VIOLATION = f"{PREFIX}on-violation"
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


@dataclass(frozen=True)
class Releases:
    """Helm, for one release."""

    helm: Helm
    control_plane: ControlPlane
    namespace: str

    def tries(self, command: str, *arguments: str) -> CompletedProcess[str]:
        """What Helm says, whether it works or not."""
        options = (f"--kubeconfig={self.control_plane.kubeconfig}", f"--namespace={self.namespace}")
        return self.helm.run(command, *arguments, *options)

    def run(self, command: str, *arguments: str) -> str:
        """Standard output of Helm; it must work."""
        done = self.tries(command, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(self, what: str) -> list[dict[str, Any]]:
        """The objects of the release: ``manifest`` or ``hooks``."""
        return documents(self.run("get", what, RELEASE))


@pytest.fixture
def releases(helm: Helm, control_plane: ControlPlane, namespace: str) -> Iterator[Releases]:
    found = Releases(helm, control_plane, namespace)
    yield found
    found.run("uninstall", RELEASE, "--no-hooks", "--ignore-not-found")


def has_lease(releases: Releases) -> None:
    """As a planner leaves it."""
    with releases.control_plane.client() as client:
        body: Any = {"metadata": {"name": PLANNER_LEASE}}
        CoordinationV1Api(client).create_namespaced_lease(releases.namespace, body)


@contextmanager
def uninstalling(releases: Releases) -> Iterator[list[CompletedProcess[str]]]:
    """``helm uninstall`` beside the test; at the end the list has what it said."""
    said: list[CompletedProcess[str]] = []
    thread = threading.Thread(target=lambda: said.append(releases.tries("uninstall", RELEASE)))
    thread.start()
    try:
        yield said
    finally:
        thread.join()


def end(releases: Releases, job: dict[str, Any], *conditions: str) -> None:
    """What the controller of Jobs writes at the end of one (kubernetes pkg/controller/job, 1.31 and later)."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    written = [{"type": one, "status": "True", "lastTransitionTime": now} for one in conditions]
    status: dict[str, Any] = {"startTime": now, "conditions": written}
    if "Complete" in conditions:
        status |= {"completionTime": now, "succeeded": 1}
    answer = request(
        releases.control_plane, "PATCH", f"{path_of(job)}/status", headers=STRATEGIC, json={"status": status}
    )
    assert answer.status_code == 200, answer.text


def test_nothing_goes_before_waiting_pods_were_let_go(releases: Releases) -> None:
    releases.run("install", RELEASE, str(CHART), PLACES)
    job = pick(releases.objects("hooks"), *RELEASE_JOB)
    objects = releases.objects("manifest")
    assert find(releases.control_plane, job) is None
    with uninstalling(releases) as said:
        until(lambda: find(releases.control_plane, job) is not None, "the Job")
        assert all(find(releases.control_plane, one) for one in objects)
        end(releases, job, "SuccessCriteriaMet", "Complete")
    assert said[0].returncode == 0, said[0].stderr
    assert find(releases.control_plane, job) is None
    assert find(releases.control_plane, pick(objects, "MutatingWebhookConfiguration")) is None
    assert find(releases.control_plane, pick(objects, "ServiceAccount", "gpu-topology-place")) is None


def test_what_the_job_runs_lets_every_pod_go_with_the_account_of_the_release(
    releases: Releases, control_plane: ControlPlane, admin: CoreV1Api
) -> None:
    team = f"{releases.namespace}-team"
    namespace_for_pods(admin, V1ObjectMeta(name=team, labels={"gpu.topology/injection": "enabled"}))
    placed = format_placed(
        Placed(
            node="node-1",
            cards=("GPU-1", "GPU-2"),
            link=LinkClass.NVLINK,
            bandwidth=240.0,
            share=1.0,
            attempt=1,
            at="2026-01-01T00:00:00Z",
        )
    )
    pinned = {USE_GPU_UUID: "GPU-1,GPU-2", PLACED: placed}
    create(admin, team, "waiting", {ON_VIOLATION: "deny"}, gates=("example.com/wait", PLACE_GATE))
    create(admin, team, "held", pinned, gates=(PLACE_GATE,))
    create(admin, team, "pinned", pinned)
    create(admin, team, "chosen-by-the-user", {USE_GPU_UUID: "GPU-7"}, gates=(PLACE_GATE,))
    releases.run("install", RELEASE, str(CHART), PLACES)
    job = pick(releases.objects("hooks"), *RELEASE_JOB)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    with uninstalling(releases) as said:
        until(lambda: find(control_plane, job) is not None, "the Job")
        kubeconfig = control_plane.kubeconfig_for(releases.namespace, "gpu-topology-place")
        wait_until_granted(
            control_plane, kubeconfig, f"{releases.namespace}-nodes", permissions.PLANNER, own=releases.namespace
        )
        command = [sys.executable, "-m", "webhook", *container["args"], "--kubeconfig", kubeconfig]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        end(
            releases,
            job,
            *(("SuccessCriteriaMet", "Complete") if done.returncode == 0 else ("FailureTarget", "Failed")),
        )
    assert (done.returncode, said[0].returncode) == (0, 0), done.stderr
    pods = {name: admin.read_namespaced_pod(name, team) for name in ("waiting", "held", "pinned", "chosen-by-the-user")}
    gates = {name: [gate.name for gate in pod.spec.scheduling_gates or ()] for name, pod in pods.items() if pod.spec}
    assert gates == {"waiting": ["example.com/wait"], "held": [], "pinned": [], "chosen-by-the-user": []}
    lists = {name: (pod.metadata.annotations or {}).get(USE_GPU_UUID) for name, pod in pods.items() if pod.metadata}
    assert lists == {"waiting": None, "held": None, "pinned": None, "chosen-by-the-user": "GPU-7"}


def create(
    admin: CoreV1Api, namespace: str, name: str, annotations: dict[str, str], gates: tuple[str, ...] = ()
) -> None:
    """A pod for which the planner has gone so far."""
    state = "waiting" if gates else "pinned"
    body: Any = {
        "metadata": {
            "name": name,
            "annotations": {INJECTED: "0.1.0 exclusive"} | annotations,
            "labels": {PLACEMENT: state},
        },
        "spec": {
            "containers": [{"name": "main", "image": "x"}],
            "schedulingGates": [{"name": gate} for gate in gates],
        },
    }
    admin.create_namespaced_pod(namespace, body)


@pytest.mark.long
def test_a_job_that_fails_keeps_everything_and_helm_may_be_asked_again(releases: Releases) -> None:
    releases.run("install", RELEASE, str(CHART), PLACES)
    job, objects = pick(releases.objects("hooks"), *RELEASE_JOB), releases.objects("manifest")
    uids: set[str] = set()
    for conditions in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
        with uninstalling(releases) as said:
            until(
                lambda: (
                    (find(releases.control_plane, job) or {"metadata": {}})["metadata"].get("uid") not in {None, *uids}
                ),
                "a new Job",
            )
            uids.add(find(releases.control_plane, job)["metadata"]["uid"])
            end(releases, job, *conditions)
        if conditions[-1] == "Failed":
            assert said[0].returncode != 0
            assert all(find(releases.control_plane, one) for one in objects)
    assert said[0].returncode == 0, said[0].stderr


@pytest.mark.parametrize("mode", [pytest.param("observe", marks=pytest.mark.long), "off"])
def test_pods_that_wait_from_before_the_mode_was_changed_are_let_go_too(releases: Releases, mode: str) -> None:
    releases.run("install", RELEASE, str(CHART), PLACES)
    has_lease(releases)
    said = releases.run("upgrade", RELEASE, str(CHART), f"--set=placement.mode={mode}")
    assert pick(releases.objects("hooks"), *RELEASE_JOB)
    objects = releases.objects("manifest")
    makers = {(one["kind"], one["metadata"]["name"]) for one in objects}
    assert {("ServiceAccount", "gpu-topology-place"), ("ClusterRole", "gpu-topology-place")} <= makers
    assert ("ValidatingAdmissionPolicyBinding", "gpu-topology-place") in makers
    assert (PLANNER in makers) is (mode == "observe")
    assert ("gpu-topology place release --all" in said) is (mode == "off")
