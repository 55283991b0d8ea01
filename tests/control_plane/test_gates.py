"""Gates and the planner's Lease at a real API server, with no more than the permissions that the webhook needs."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop
from kubernetes.client import CoordinationV1Api, CoreV1Api, EventsV1Api, V1Lease, V1LeaseSpec, V1ObjectMeta

from tests.control_plane.accounts import permitted, without
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.replicas import DEADLINE_S, Replica, replica, until
from tests.control_plane.scheduling import delete_waiting
from tests.judge import policy
from webhook.cluster.api.permissions import WEBHOOK, Permission, Scope
from webhook.decisions.configuration import PlacementSettings
from webhook.programs.server.gates import GateOpener
from webhook.words import names
from webhook.words.choices import PlacementMode

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

OURS, KUEUE = "gpu.topology/place", "kueue.x-k8s.io/admission"
ON = msgspec.structs.replace(policy(), placement=PlacementSettings(mode=PlacementMode.ON, release_seconds=1))
"""No configuration file may say so: a change of the leading planner takes longer. No planner leads here."""
DENY = {"gpu.topology/on-violation": "deny"}
NO_AGENTS = tuple(each for each in WEBHOOK if each.scope is not Scope.TOPOLOGIES)
"""Of the Leases in the namespace of these tests, this lets the webhook see the planner's."""


@dataclass(frozen=True)
class Site:
    """The namespace of the webhook and of its pods, and a service account for it."""

    admin: CoreV1Api
    namespace: str
    kubeconfig: Path

    def create(self, name: str, *gates: str, annotations: dict[str, str] | None = None) -> None:
        """A pod that waits."""
        metadata = {"name": name, "labels": {"gpu.topology/placement": "waiting"}}
        metadata |= {"annotations": {"gpu.topology/injected": "1.0.0/exclusive", **(annotations or {})}}
        spec = {
            "schedulingGates": [{"name": gate} for gate in gates or (OURS,)],
            "containers": [{"name": "main", "image": "example.com/train"}],
        }
        body: Any = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.admin.create_namespaced_pod(self.namespace, body)

    def pod(self, name: str) -> dict[str, Any]:
        answer: Any = self.admin.read_namespaced_pod(name, self.namespace, _preload_content=False)
        found: dict[str, Any] = json.loads(answer.data)
        return found

    def gates(self, name: str) -> list[str]:
        return [gate["name"] for gate in self.pod(name)["spec"].get("schedulingGates", [])]

    def delete(self, name: str) -> None:
        self.admin.delete_namespaced_pod(name, self.namespace, grace_period_seconds=0)

    def lead(self, name: str = names.PLANNER_LEASE) -> None:
        """A planner takes its Lease, for five minutes."""
        spec = V1LeaseSpec(holder_identity="p", lease_duration_seconds=300, renew_time=datetime.now(UTC))
        body = V1Lease(metadata=V1ObjectMeta(name=name), spec=spec)
        CoordinationV1Api(self.admin.api_client).create_namespaced_lease(self.namespace, body)

    def events(self) -> list[Any]:
        return list(EventsV1Api(self.admin.api_client).list_namespaced_event(self.namespace).items)


MakeSite = Callable[[tuple[Permission, ...]], Site]


@pytest.fixture
def make_site(admin: CoreV1Api, control_plane: ControlPlane, namespace: str) -> Iterator[MakeSite]:
    """Makes a service account for the webhook with these permissions; no pod is left for the next test to find."""
    delete_waiting(admin)
    yield lambda permissions: Site(admin, namespace, permitted(admin, control_plane, namespace, "webhook", permissions))
    admin.delete_collection_namespaced_pod(namespace, grace_period_seconds=0)


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    """A webhook with exactly the permissions of the list."""
    return make_site(WEBHOOK)


def following(site: Site) -> AbstractAsyncContextManager[Replica]:
    """A replica of the webhook, which looks for pods only when it is told to."""
    return replica(site.kubeconfig, site.namespace, ON)


async def look_until(gates: GateOpener, condition: Callable[[], Any]) -> None:
    """Rounds until something is so: the API server tells its time in whole seconds."""
    deadline = time.monotonic() + DEADLINE_S
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < deadline
        await gates.look()
        await asyncio.sleep(0.1)


def test_without_a_planner_pods_that_warn_are_let_go_and_others_wait_on(site: Site) -> None:
    site.create("denies", annotations=DENY)
    site.create("train", KUEUE, OURS)
    site.create("other", OURS, "example.org/quota")

    async def test() -> None:
        async with following(site) as found:
            await found.ready()
            caches, gates = found.caches, found.live.gates(found.caches, site.namespace, ON, found.log)
            await look_until(gates, lambda: not {OURS} & {*site.gates("train"), *site.gates("other")})
            assert dict(gates.opened) == {"planner-silent": 2}
            assert caches.errors == {}
            await gates.look()
            assert dict(gates.opened) == {"planner-silent": 2}

    uvloop.run(test())
    assert (site.gates("train"), site.gates("other"), site.gates("denies")) == ([KUEUE], ["example.org/quota"], [OURS])
    labels = [site.pod(name)["metadata"]["labels"]["gpu.topology/placement"] for name in ("train", "denies")]
    assert labels == ["released", "waiting"]
    told = {(event.regarding.name, event.reason, event.action) for event in site.events()}
    assert told == {("train", "Released", "Release"), ("other", "Released", "Release")}


def test_a_planner_is_seen_by_its_lease_with_a_role_that_names_it_alone(make_site: MakeSite) -> None:
    site = make_site(NO_AGENTS)
    site.lead("gpu-topology-node-1")

    async def test() -> None:
        async with following(site) as found:
            state = found.caches.state
            await until(lambda: state.planners.filled, lambda: state.planners.problem)
            assert not state.has_planner
            await asyncio.to_thread(site.lead)
            await until(lambda: state.has_planner, lambda: state.planners.problem)
            assert list(state.planners.values()) == [names.PLANNER_LEASE]
            leases = CoordinationV1Api(site.admin.api_client)
            await asyncio.to_thread(leases.delete_namespaced_lease, names.PLANNER_LEASE, site.namespace)
            await until(lambda: not state.has_planner, lambda: "the end of the Lease")

    uvloop.run(test())


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_lease_that_may_not_be_read_is_no_planner(make_site: MakeSite, verb: str) -> None:
    site = make_site(without(NO_AGENTS, Scope.OWN_NAMESPACE, "leases", verb))
    site.lead()

    async def test() -> None:
        async with following(site) as found:
            state, problem = found.caches.state, f'cannot {verb} resource "leases"'
            await until(lambda: problem in state.planners.problem, lambda: state.planners.problem)
            assert not state.has_planner or verb == "watch"  # a list alone tells of one moment

    uvloop.run(test())
