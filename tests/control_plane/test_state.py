"""The state of a real cluster, with no more permissions than the list says, while the API server comes and goes."""

import asyncio
import shutil
import uuid
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uvloop
from kubernetes.client import (
    CoordinationV1Api,
    CoreV1Api,
    V1Namespace,
    V1Node,
    V1ObjectMeta,
)

from tests.cluster.state.test_cluster import REGISTER
from tests.control_plane.accounts import namespace_for_pods, permitted, wait_until_granted, without
from tests.control_plane.control_plane import Binaries, ControlPlane, StartableControlPlane, startable_control_plane
from tests.control_plane.replicas import DEADLINE_S, Replica, replica, until
from tests.control_plane.test_live_pods import HERE as OTHERS
from tests.hardware.topology import machines
from tests.judge import policy
from webhook.cluster.api.permissions import CLAIMS, WEBHOOK, Permission, Scope
from webhook.cluster.state.cluster import ClusterState
from webhook.objects.pod import Namespace
from webhook.programs.agent.publication import config_map_manifest, lease_manifest
from webhook.programs.server.caches import ClusterCaches
from webhook.words.errors import ClaimsUnreadable, StateUnknown

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

OPTED_IN = {"gpu.topology/injection": "enabled"}
MERGE = "application/merge-patch+json"
MISSING = "nvidia-of-no-cluster"
"""A RuntimeClass that does not exist."""
READ = [each for each in WEBHOOK if each.resource not in OTHERS and each.scope is not Scope.OWN_NAMESPACE]
"""Without the planner's Lease: here it is in the namespace of the agents' Leases, and nothing counts its failures."""
GRANTED = [(each.scope, each.resource, verb) for each in READ for verb in each.verbs]


@dataclass(frozen=True)
class Site:
    """A cluster with a node that an agent published and HAMi annotated, as the administrator sees it."""

    admin: CoreV1Api
    namespace: str
    node: str

    def publish(self, node: str) -> None:
        """What ``gpu-topology agent`` writes."""
        owner = {"metadata": {"name": node, "uid": str(uuid.uuid4())}}
        config_map: Any = config_map_manifest(replace(machines.h20(), node=node), owner, namespace=self.namespace)
        self.admin.create_namespaced_config_map(self.namespace, config_map)
        lease: Any = lease_manifest(owner, namespace=self.namespace, interval=60, at=datetime.now(UTC))
        CoordinationV1Api(self.admin.api_client).create_namespaced_lease(self.namespace, lease)

    def annotate(self, node: str) -> None:
        """What HAMi's device plugin writes."""
        annotations = {"hami.io/node-nvidia-register": REGISTER}
        self.admin.create_node(V1Node(metadata=V1ObjectMeta(name=node, annotations=annotations)))

    def label(self, namespace: str, labels: dict[str, Any]) -> None:
        self.admin.patch_namespace(namespace, {"metadata": {"labels": labels}}, _content_type=MERGE)


def knowing(kubeconfig: Path, namespace: str, **settings: Any) -> AbstractAsyncContextManager[Replica]:
    """A replica whose configuration names a RuntimeClass that does not exist."""
    return replica(kubeconfig, namespace, policy(remap={"runtimeClassName": MISSING}, **settings))


async def namespace_of(state: ClusterState, name: str) -> Namespace:
    found = state.namespace(name)
    return found if isinstance(found, Namespace) else await found


@pytest.fixture
def site(admin: CoreV1Api, namespace: str) -> Site:
    """A node of its own in the cluster of all tests."""
    found = Site(admin, namespace, f"{namespace}-node")
    found.label(namespace, OPTED_IN)
    found.annotate(found.node)
    found.publish(found.node)
    return found


def test_with_exactly_the_permissions_of_the_list_everything_is_known_and_stays_so(
    site: Site, control_plane: ControlPlane
) -> None:
    kubeconfig = permitted(site.admin, control_plane, site.namespace, "webhook", WEBHOOK)

    async def test() -> None:
        async with knowing(kubeconfig, site.namespace) as found:
            state = found.caches.state
            await found.ready()
            assert (await namespace_of(state, site.namespace)).injection_enabled
            node = state.node(site.node)
            assert node.published is not None
            assert node.annotated is not None
            assert node.age is not None
            assert (len(node.published.topology.gpus), len(node.annotated.topology.gpus)) == (8, 2)
            assert (node.age < DEADLINE_S, node.lasts) == (True, 600.0)
            assert str(state.cluster().kubernetes).startswith("1.")
            other = f"{site.node}-2"
            await asyncio.to_thread(site.publish, other)
            await until(lambda: state.node(other).published, lambda: "an event")
            await asyncio.to_thread(site.admin.delete_namespaced_config_map, f"gpu-topology-{other}", site.namespace)
            await until(lambda: not state.node(other).published, lambda: "a deletion")
            new = f"{site.namespace}-new"
            body = V1Namespace(metadata=V1ObjectMeta(name=new, labels=OPTED_IN))
            await asyncio.to_thread(site.admin.create_namespace, body)
            assert (await namespace_of(state, new)).injection_enabled
            assert not (await namespace_of(state, "there-is-none")).known
            assert found.caches.errors == {}

    uvloop.run(test())


@pytest.mark.parametrize(("scope", "resource", "verb"), GRANTED, ids=str)
def test_no_permission_is_superfluous(
    site: Site, control_plane: ControlPlane, scope: Scope, resource: str, verb: str
) -> None:
    fewer: tuple[Permission, ...] = without(WEBHOOK, scope, resource, verb)
    kubeconfig = permitted(site.admin, control_plane, site.namespace, "webhook", fewer)

    async def test() -> None:
        async with knowing(kubeconfig, site.namespace) as found:
            errors = found.caches.errors
            if (resource, verb) == ("namespaces", "get"):
                await found.ready()
                with pytest.raises(StateUnknown, match=r"get namespace there-is-none: .*forbidden"):
                    await namespace_of(found.caches.state, "there-is-none")
            else:
                detected = resource in ("deployments", "deviceclasses", "runtimeclasses")
                denied = ("versions" if detected else resource, "denied")
                await until(lambda: errors[denied], lambda: errors)
                assert set(errors) == {denied}

    uvloop.run(test())


OF_CLAIMS = [(each.scope, each.resource, verb) for each in CLAIMS for verb in each.verbs]


@pytest.mark.parametrize(("scope", "resource", "verb"), OF_CLAIMS, ids=str)
def test_no_permission_for_claims_is_superfluous(
    site: Site, control_plane: ControlPlane, scope: Scope, resource: str, verb: str
) -> None:
    fewer = (*WEBHOOK, *without(CLAIMS, scope, resource, verb))
    kubeconfig = permitted(site.admin, control_plane, site.namespace, "webhook", fewer)

    async def test() -> None:
        async with knowing(kubeconfig, site.namespace, claims={"enabled": True}) as found:
            claims, errors = found.live.claims(found.caches.state.pools), found.caches.errors
            if resource == "resourceslices":
                await until(lambda: any(errors.values()), lambda: errors)
                assert {(name.partition("/")[0], kind) for name, kind in errors} == {(resource, "denied")}
            else:
                read = claims.claim if resource == "resourceclaims" else claims.template
                with pytest.raises(ClaimsUnreadable, match=rf'cannot {verb} resource "{resource}"'):
                    await read(site.namespace, "any")

    uvloop.run(test())


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
def test_the_api_server_may_be_away_at_the_start_and_in_between_and_may_forget_what_happened(
    plane: StartableControlPlane,
) -> None:
    own = "gpu-topology"
    with plane.control_plane.client() as client:
        admin = CoreV1Api(client)
        namespace_for_pods(admin, V1ObjectMeta(name=own))
        site = Site(admin, own, "gpu-1")
        for team in ("team-a", "team-b"):
            admin.create_namespace(V1Namespace(metadata=V1ObjectMeta(name=team, labels=OPTED_IN)))
        site.annotate(site.node)
        site.publish(site.node)
        kubeconfig = permitted(admin, plane.control_plane, own, "webhook", WEBHOOK)
        plane.stop()
        uvloop.run(_coming_and_going(plane, site, kubeconfig))


async def _coming_and_going(plane: StartableControlPlane, site: Site, kubeconfig: Path) -> None:
    async with knowing(kubeconfig, site.namespace) as following:
        found = following.caches
        state = found.state

        # Away at the start: it says so, and answers nothing.
        await until(lambda: found.errors["nodes", "away"] > 1, lambda: found.errors)
        assert state.waiting_for.startswith("namespaces, nodes, configmaps, leases, versions (")
        with pytest.raises(StateUnknown, match="waiting for namespaces"):
            state.namespace("team-a")
        await asyncio.to_thread(plane.start)
        await following.ready()
        await _knows(state, site)

        # Away in between: the last known state stays, and what happened is known afterwards.
        await asyncio.to_thread(plane.stop)
        away = found.errors["namespaces", "away"]
        await until(lambda: found.errors["namespaces", "away"] > away, lambda: found.errors)
        await _knows(state, site)
        assert state.namespaces.problem
        await asyncio.to_thread(plane.start)
        await asyncio.to_thread(site.label, "team-a", {"gpu.topology/allow-host-ipc": "true"})
        await until(lambda: _allows(state, "team-a"), state.namespaces.values)

        # While nobody watched, things happened that etcd no longer knows: only new lists tell.
        await asyncio.to_thread(wait_until_granted, plane.control_plane, kubeconfig, site.namespace, WEBHOOK)
        # A list may have told of the first of them and not be at its end: the second can only come by a watch.
        await _publish(site, "gpu-3", found)
        await _publish(site, "gpu-4", found)
        expired = found.errors["configmaps", "expired"]
        await found.close()
        await asyncio.to_thread(site.label, "team-b", {"gpu.topology/injection": None})
        await asyncio.to_thread(site.publish, "gpu-2")
        await asyncio.to_thread(site.admin.delete_namespaced_config_map, "gpu-topology-gpu-1", site.namespace)
        await asyncio.to_thread(plane.compact)
        await asyncio.to_thread(plane.stop)
        await asyncio.to_thread(plane.start)
        # Until it has read its roles it says 403 to everybody, and after three of these a list is made anyway.
        await asyncio.to_thread(wait_until_granted, plane.control_plane, kubeconfig, site.namespace, WEBHOOK)
        await found.open()
        await until(lambda: state.node("gpu-2").published and not state.node("gpu-1").published, lambda: found.errors)
        assert found.errors["configmaps", "expired"] > expired
        await until(lambda: not state.namespaces.values()["team-b"].injection_enabled, lambda: found.errors)


async def _publish(site: Site, node: str, found: ClusterCaches) -> None:
    await asyncio.to_thread(site.publish, node)
    await until(lambda: found.state.node(node).published, lambda: found.errors)


async def _knows(state: ClusterState, site: Site) -> None:
    assert state.ready
    assert (await namespace_of(state, "team-a")).injection_enabled
    assert state.node(site.node).published is not None


def _allows(state: ClusterState, name: str) -> bool:
    return state.namespaces.values()[name].allows("gpu.topology/allow-host-ipc")
