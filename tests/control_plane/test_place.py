"""The planner's program at a real API server, with no more than its permissions: election, mirrors, writes, release."""

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop
import yaml
from kubernetes.client import (
    ApiException,
    CoordinationV1Api,
    CoreV1Api,
    EventsV1Api,
    V1ObjectMeta,
)

from tests.cli.command import ROOT, gpu_topology
from tests.control_plane.accounts import namespace_for_pods, permitted, wait_until_granted, without
from tests.control_plane.control_plane import Binaries, ControlPlane, StartableControlPlane, startable_control_plane
from tests.control_plane.test_state import until
from tests.programs.planner.site import ByHand, TestClock, open_all, opening
from webhook.cluster.api.permissions import PLANNER, Scope
from webhook.cluster.api.session import Session, connect
from webhook.decisions.place.placed_annotation import Placed, format_placed
from webhook.decisions.place.writes import PodCondition, Write
from webhook.objects.workload import WorkloadKind, WorkloadRef
from webhook.programs.log import Log
from webhook.programs.planner.run import PlannerSettings, Program
from webhook.words import names

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

GATE, OTHER = names.PLACE_GATE, "kueue.x-k8s.io/admission"
STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Site:
    """A namespace of its own with the planner's account, as the administrator sees it."""

    admin: CoreV1Api
    namespace: str
    kubeconfig: Path

    def create(self, name: str, *gates: str, **annotations: str) -> None:
        """A pod as the webhook leaves it."""
        labels = {names.PLACEMENT: "waiting" if gates else "pinned"}
        metadata = {"name": name, "labels": labels, "annotations": {names.INJECTED: "{}", **annotations}}
        spec = {
            "containers": [{"name": "main", "image": "example.com/train"}],
            "schedulingGates": [{"name": gate} for gate in gates],
        }
        manifest: Any = {"metadata": metadata, "spec": spec}
        self.admin.create_namespaced_pod(self.namespace, manifest)

    def pod(self, name: str) -> Any:
        return self.admin.read_namespaced_pod(name, self.namespace)

    def gates(self, name: str) -> list[str]:
        return [gate.name for gate in self.pod(name).spec.scheduling_gates or ()]

    def delete(self, name: str) -> None:
        self.admin.delete_namespaced_pod(name, self.namespace, grace_period_seconds=0)

    def finish(self, name: str) -> None:
        self.admin.patch_namespaced_pod_status(name, self.namespace, {"status": {"phase": "Succeeded"}})

    def lease(self) -> Any:
        api = CoordinationV1Api(self.admin.api_client)
        return api.read_namespaced_lease(names.PLANNER_LEASE, self.namespace).spec


@pytest.fixture
def site(admin: CoreV1Api, control_plane: ControlPlane, namespace: str) -> Site:
    return Site(admin, namespace, permitted(admin, control_plane, namespace, "planner", PLANNER))


def mine(found: ByHand, namespace: str) -> ByHand:
    """Other tests have pods at the same API server: only those of a namespace are decided about."""
    kept = {key: pod for key, pod in found.pods.items() if pod.namespace == namespace}
    return replace(found, pods=kept)


def program(
    session: Session, namespace: str, decide: Callable[..., Any], *, name: str = "one", clock: TestClock | None = None
) -> Program:
    settings = PlannerSettings(
        namespace=namespace,
        topology_namespace=namespace,
        max_age=600.0,
        pod_name=name,
        kubeconfig=None,
        host="",
        port=0,
    )

    def make(_: object) -> ByHand:
        wishes = {WorkloadRef(kind, namespace, "nothing") for kind in WorkloadKind}
        return ByHand(lambda found, busy: decide(mine(found, namespace), busy), wishes=wishes)

    return Program(settings, make, session, Log(os.open(os.devnull, os.O_WRONLY)), clock.clock() if clock else None)


@asynccontextmanager
async def running(kubeconfig: Path, *made: Callable[[Session], Program]) -> AsyncIterator[list[Program]]:
    session = connect(kubeconfig, user_agent=names.PLANNER_USER_AGENT, seconds=60.0)
    programs = [each(session) for each in made]
    try:
        for each in programs:
            each.open()
        yield programs
    finally:
        for each in programs:
            await each.close()
        await session.close()


def test_with_exactly_its_permissions_it_leads_opens_gates_and_sees_pods_come_change_finish_and_go(site: Site) -> None:
    async def test() -> None:
        site.create("early", GATE)
        async with running(site.kubeconfig, lambda to: program(to, site.namespace, open_all)) as (planner,):
            key = f"{site.namespace}/early"
            await until(lambda: site.gates("early") == [], lambda: planner.counts.api_errors)
            site.create("late", GATE, OTHER)
            await until(lambda: site.gates("late") == [OTHER], lambda: planner.counts.api_errors)
            found = planner.mirrors.pods.get(key)
            assert found is not None
            assert (found.namespace, found.name) == (site.namespace, "early")
            # A pod that finishes leaves the watch, because it is no longer selected.
            site.finish("early")
            await until(lambda: planner.mirrors.pods.get(key) is None, lambda: planner.counts.api_errors)
            site.delete("late")
            late = f"{site.namespace}/late"
            await until(lambda: planner.mirrors.pods.get(late) is None, lambda: planner.counts.api_errors)
            assert planner.counts.api_errors == {}
            assert site.lease().holder_identity == planner.leadership.identity
        assert not site.lease().holder_identity

    uvloop.run(test())


NOT_HERE = {("deployments", "list"), ("events", "create"), ("pods", "get")}
"""HAMi's version; what is not waited for; what only a write that failed needs (``test_needed_rights.py``)."""
GRANTED = list(
    dict.fromkeys(
        (each.scope, each.resource, verb)
        for each in PLANNER
        for verb in each.verbs
        if (each.resource, verb) not in NOT_HERE
    )
)


def stale(site: Site, change: str) -> None:
    if change == "a successor":
        site.delete("train")
        site.create("train", GATE)
    elif change == "gone":
        site.delete("train")
    else:
        body = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
        site.admin.patch_namespaced_pod("train", site.namespace, body, _content_type=STRATEGIC)


@pytest.mark.parametrize("change", ["a successor", "gone", "opened by others"])
def test_a_write_about_a_pod_that_is_another_by_now_changes_nothing(site: Site, change: str) -> None:
    writes = list[Write]()

    def decide(found: ByHand, busy: Any) -> list[Write]:
        decided = [] if busy or writes else [opening(pod) for pod in found.pods.values()]
        if decided and planners and planners[0].leadership.leads:
            writes.extend(decided)
            stale(site, change)  # after the decision, before the write
        return decided

    planners = list[Program]()

    async def test() -> None:
        site.create("train", GATE)
        async with running(site.kubeconfig, lambda to: program(to, site.namespace, decide)) as (planner,):
            planners.append(planner)
            await until(lambda: planner.counts.writes, lambda: planner.counts.api_errors)
            assert dict(planner.counts.writes) == {"stale": 1}
            if change == "a successor":
                assert site.gates("train") == [GATE]
                record = planner.mirrors.pods.get(f"{site.namespace}/train")
                assert record is not None
                assert record.uid == site.pod("train").metadata.uid != writes[0].uid
            elif change == "gone":
                assert planner.mirrors.pods.get(f"{site.namespace}/train") is None

    uvloop.run(test())


def test_a_condition_stands_beside_those_of_others_and_keeps_the_time_of_its_status(site: Site) -> None:
    told = [PodCondition("False", "NoFreeCards", "one"), PodCondition("False", "NeverFits", "two")]

    def decide(found: ByHand, busy: Any) -> list[Write]:
        for pod in found.pods.values():
            done = [one for one in told if pod.unbound and pod.unbound.placed.reason == one.reason]
            following = told[told.index(done[0]) + 1 :] if done else told
            if following and not busy:
                return [Write(namespace=pod.namespace, name=pod.name, uid=pod.uid, condition=following[0])]
        return []

    async def test() -> None:
        site.create("train", GATE)
        times = set()
        async with running(site.kubeconfig, lambda to: program(to, site.namespace, decide)) as (planner,):

            def condition() -> Any:
                found = {one.type: one for one in site.pod("train").status.conditions}
                assert found["PodScheduled"].reason == "SchedulingGated"
                if names.PLACED_CONDITION in found:
                    times.add(found[names.PLACED_CONDITION].last_transition_time)
                return found.get(names.PLACED_CONDITION)

            await until(lambda: (one := condition()) and one.message == "two", lambda: planner.counts.api_errors)
            assert len(times) == 1
            assert None not in times

    uvloop.run(test())


@pytest.mark.parametrize(("scope", "resource", "verb"), GRANTED, ids=str)
def test_no_permission_is_superfluous(
    site: Site, control_plane: ControlPlane, scope: Scope, resource: str, verb: str
) -> None:
    fewer = without(PLANNER, scope, resource, verb)
    kubeconfig = permitted(site.admin, control_plane, site.namespace, "less", fewer)

    def decide(found: ByHand, busy: Any) -> list[Write]:
        condition = PodCondition("False", "Released", "it goes")
        return [
            opening(pod, condition=condition)
            for pod in found.pods.values()
            if pod.unbound and pod.unbound.is_gated and not busy
        ]

    async def test() -> None:
        site.create("train", GATE)
        async with running(kubeconfig, lambda to: program(to, site.namespace, decide)) as (planner,):
            errors = planner.counts.api_errors
            await until(lambda: any(kind == "denied" for _, kind in errors), lambda: errors)
            assert {name for name, kind in errors if kind == "denied"} == {resource.partition("/")[0]}

    uvloop.run(test())


def test_release_opens_gates_and_removes_pins_with_its_permissions(site: Site) -> None:
    placed = Placed(
        node="n", cards=("GPU-0",), link="SELF", bandwidth=0.0, share=1.0, attempt=1, at="2026-01-15T09:30:00Z"
    )
    site.create("waits", GATE, OTHER)
    site.create("pinned", **{names.USE_GPU_UUID: "GPU-0", names.PLACED: format_placed(placed)})
    site.create("users", **{names.USE_GPU_UUID: "GPU-7"})
    done = gpu_topology("place", "release", "--all", "--namespace", site.namespace, "--kubeconfig", site.kubeconfig)
    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()[1:]] == [
        [site.namespace, "pinned", "pin", "removed"],
        [site.namespace, "users", "pin", "removed"],
        [site.namespace, "waits", "gate", "opened"],
    ]
    assert site.gates("waits") == [OTHER]
    annotations = {name: site.pod(name).metadata.annotations for name in ("pinned", "users")}
    assert names.USE_GPU_UUID not in annotations["pinned"]
    assert annotations["users"][names.USE_GPU_UUID] == "GPU-7"
    events = EventsV1Api(site.admin.api_client).list_namespaced_event(site.namespace).items
    assert {(one.regarding.name, one.reason) for one in events if one.regarding} == {
        (name, "Released") for name in ("waits", "pinned", "users")
    }
    again = gpu_topology("place", "release", "--all", "--namespace", site.namespace, "--kubeconfig", site.kubeconfig)
    assert (again.code, again.out) == (0, "no pod waits for its cards or is pinned to some\n")


def emergency() -> str:
    """The line of install.md that lets all pods go, as it stands there."""
    said = (ROOT / "docs" / "install.md").read_text()
    lines = [line for line in said.splitlines() if line.startswith("$ gpu-topology place release")]
    assert len(lines) == 1
    return lines[0].removeprefix("$ ")


@pytest.fixture
def path(tmp_path: Path) -> dict[str, str]:
    """A PATH with ``gpu-topology``, as pipx installs it."""
    program = tmp_path / "bin" / "gpu-topology"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\ncd {shlex.quote(str(ROOT))} && exec {shlex.quote(sys.executable)} -m webhook "$@"\n'
    )
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:/usr/bin:/bin", "COLUMNS": "200", "HOME": str(tmp_path)}


def has_opened(site: Site, done: subprocess.CompletedProcess[str]) -> bool:
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [site.namespace, "waits", "gate", "opened"] in lines, done.stderr
    return done.returncode == 0 and site.gates("waits") == []


IN_A_POD = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$1" /var/run && eval "$2"', "sh"]
"""Runs a command with a directory in the place of ``/var/run``, where the kubelet puts the account's files."""


@pytest.fixture
def account(site: Site, control_plane: ControlPlane, tmp_path: Path) -> Path:
    """What the kubelet gives a pod of the planner's account, below ``/var/run``."""
    if subprocess.run([*IN_A_POD, str(tmp_path), "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mounts of one's own are allowed here")
    files = tmp_path / "run" / "secrets" / "kubernetes.io" / "serviceaccount"
    files.mkdir(parents=True)
    token = yaml.safe_load(site.kubeconfig.read_text())["users"][0]["user"]["token"]
    authority = control_plane.ca_file.read_text()
    for name, text in (("token", token), ("ca.crt", authority), ("namespace", site.namespace)):
        (files / name).write_text(text)
    return tmp_path / "run"


@pytest.mark.long
def test_the_command_of_the_documents_lets_pods_go_inside_a_pod(
    site: Site, control_plane: ControlPlane, account: Path, path: dict[str, str]
) -> None:
    site.create("waits", GATE)
    url = urlsplit(control_plane.url)
    inside = path | {"KUBERNETES_SERVICE_HOST": url.hostname or "", "KUBERNETES_SERVICE_PORT": str(url.port)}
    without = subprocess.run(["/bin/sh", "-c", emergency()], capture_output=True, text=True, env=inside, check=False)
    assert (without.returncode, site.gates("waits")) == (1, [GATE])
    assert "serviceaccount/token: No such file or directory" in without.stderr
    command = [*IN_A_POD, str(account), emergency()]
    done = subprocess.run(command, capture_output=True, text=True, env=inside, check=False)
    assert has_opened(site, done)


@pytest.fixture
def plane(binaries: Binaries, tmp_path: Path) -> Iterator[StartableControlPlane]:
    """A control plane of its own, whose API server runs."""
    directory = tmp_path / "plane"
    directory.mkdir()
    with startable_control_plane(binaries, directory) as startable:
        startable.start()
        yield startable
    shutil.rmtree(directory)


@pytest.mark.long
def test_while_the_api_server_is_away_nobody_leads_and_afterwards_all_goes_on(plane: StartableControlPlane) -> None:
    own = "gpu-topology"
    with plane.control_plane.client() as client:
        admin = CoreV1Api(client)
        namespace_for_pods(admin, V1ObjectMeta(name=own))
        kubeconfig = permitted(admin, plane.control_plane, own, "planner", PLANNER)
        site = Site(admin, own, kubeconfig)

        async def test() -> None:
            clock = TestClock()
            async with running(kubeconfig, lambda to: program(to, own, open_all, clock=clock)) as (planner,):
                await until(lambda: planner.leadership.leads, lambda: planner.counts.api_errors)
                await asyncio.to_thread(plane.stop)
                clock.ahead += 30
                assert not planner.leadership.leads
                await until(lambda: planner.counts.api_errors["leases", "away"], lambda: planner.counts.api_errors)
                assert not planner.leadership.leads
                await asyncio.to_thread(plane.start)
                await asyncio.to_thread(wait_until_granted, plane.control_plane, kubeconfig, own, PLANNER)
                await asyncio.to_thread(site.create, "train", GATE)
                await until(lambda: site.gates("train") == [], lambda: planner.counts.api_errors)
                assert planner.counts.bugs == 0

        uvloop.run(test())


def test_a_gate_cannot_be_added_later_so_an_opened_pod_never_waits_again(site: Site) -> None:
    """What the states of the planner rest upon."""
    site.create("train", GATE)
    body = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    site.admin.patch_namespaced_pod("train", site.namespace, body, _content_type=STRATEGIC)
    with pytest.raises(ApiException, match="only deletion is allowed"):
        site.admin.patch_namespaced_pod(
            "train", site.namespace, {"spec": {"schedulingGates": [{"name": GATE}]}}, _content_type=STRATEGIC
        )
