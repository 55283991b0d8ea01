"""The planner's program at a real API server, with no more than its permissions: election, mirrors, writes, release."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import uvloop
from kubernetes.client import (
    ApiException,
    CoordinationV1Api,
    CoreV1Api,
)

from tests.control_plane.accounts import permitted, without
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.replicas import until
from tests.programs.planner.site import ByHand, TestClock, open_all, opening
from webhook.cluster.api.permissions import PLANNER, Scope
from webhook.cluster.api.session import Session, connect
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


def test_a_gate_cannot_be_added_later_so_an_opened_pod_never_waits_again(site: Site) -> None:
    """What the states of the planner rest upon."""
    site.create("train", GATE)
    body = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    site.admin.patch_namespaced_pod("train", site.namespace, body, _content_type=STRATEGIC)
    with pytest.raises(ApiException, match="only deletion is allowed"):
        site.admin.patch_namespaced_pod(
            "train", site.namespace, {"spec": {"schedulingGates": [{"name": GATE}]}}, _content_type=STRATEGIC
        )
