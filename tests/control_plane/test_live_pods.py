"""Pods and Events at a real API server, with no more than the permissions that the webhook says it needs."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop
from kubernetes.client import (
    CoreV1Api,
    EventsV1Api,
    V1Binding,
    V1Container,
    V1ObjectMeta,
    V1ObjectReference,
    V1Pod,
    V1PodSpec,
)

from tests.control_plane.accounts import permitted, without
from tests.control_plane.control_plane import ControlPlane
from webhook.cluster.api.current_objects import LivePods
from webhook.cluster.api.errors import ApiError
from webhook.cluster.api.permissions import WEBHOOK, Permission, Scope
from webhook.cluster.api.pod_events import Fate, PodEvents, PodReference
from webhook.cluster.api.session import Session, connect
from webhook.cluster.api.verbs import Api
from webhook.objects.binding import PodEvent
from webhook.programs.server.waiting_pods import WaitingPods
from webhook.words.errors import PodsUnreadable
from webhook.words.patch import Operation

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

UNMET = PodEvent(reason="RequirementNotMet", note="GPU0 and GPU5 have no NVLink")
SECONDS = 60.0
HERE = frozenset({"pods", "events"})
"""Resources that these tests are about; the others are those of the state (``test_state.py``)."""


@dataclass(frozen=True)
class Site:
    """A namespace, and a service account for the webhook."""

    admin: CoreV1Api
    control_plane: ControlPlane
    namespace: str
    kubeconfig: Path

    def create(self, name: str, *, group: str = "", node: str = "") -> PodReference:
        """A pod, bound to the node if there is one to be bound to."""
        labels = {"gpu.topology/group": group} if group else {}
        metadata = V1ObjectMeta(name=name, labels=labels, annotations={"note": "é\n"})
        spec = V1PodSpec(containers=[V1Container(name="main", image="example.com/train")])
        created = self.admin.create_namespaced_pod(self.namespace, V1Pod(metadata=metadata, spec=spec))
        assert created.metadata is not None
        if node:
            target = V1ObjectReference(api_version="v1", kind="Node", name=node)
            binding = V1Binding(metadata=V1ObjectMeta(name=name), target=target)
            self.admin.create_namespaced_pod_binding(name, self.namespace, binding, _preload_content=False)
        return PodReference(self.namespace, name, created.metadata.uid or "")

    def raw(self, name: str) -> Any:
        """The pod as another client sees it."""
        answer: Any = self.admin.read_namespaced_pod(name, self.namespace, _preload_content=False)
        return json.loads(answer.data)

    def delete(self, name: str) -> None:
        self.admin.delete_namespaced_pod(name, self.namespace, grace_period_seconds=0)

    def events(self) -> list[Any]:
        found = EventsV1Api(self.admin.api_client).list_namespaced_event(self.namespace)
        return list(found.items)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        session = connect(self.kubeconfig, user_agent="test", seconds=SECONDS)
        try:
            yield session
        finally:
            await session.close()


MakeSite = Callable[[tuple[Permission, ...]], Site]


@pytest.fixture
def make_site(admin: CoreV1Api, control_plane: ControlPlane, namespace: str) -> MakeSite:
    """Makes a service account for the webhook with these permissions."""

    def make(permissions: tuple[Permission, ...]) -> Site:
        kubeconfig = permitted(admin, control_plane, namespace, "webhook", permissions)
        return Site(admin, control_plane, namespace, kubeconfig)

    return make


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    """A webhook with exactly the permissions of the list."""
    return make_site(WEBHOOK)


def test_a_pod_is_read_as_it_is_and_none_once_it_is_deleted(site: Site) -> None:
    site.create("train")

    async def test() -> None:
        async with site.session() as session:
            pods = LivePods(Api(session))
            first = await pods.pod(site.namespace, "train")
            assert first is not None
            assert json.loads(first) == site.raw("train")
            change = {"metadata": {"annotations": {"hami.io/vgpu-node": "node-1"}}}
            site.admin.patch_namespaced_pod("train", site.namespace, change)
            second = json.loads(await pods.pod(site.namespace, "train") or b"")
            assert second["metadata"]["annotations"] == {"note": "é\n", "hami.io/vgpu-node": "node-1"}
            site.delete("train")
            assert await pods.pod(site.namespace, "train") is None
            assert await pods.pod("no-such-namespace", "train") is None

    uvloop.run(test())


def test_a_group_has_its_pods_on_that_node(site: Site) -> None:
    site.create("a", group="llama", node="node-1")
    site.create("b", group="llama", node="node-1")
    site.create("elsewhere", group="llama", node="node-2")
    site.create("not-bound", group="llama")
    site.create("of-others", group="other", node="node-1")
    site.create("of-none", node="node-1")

    async def test() -> None:
        async with site.session() as session:
            found = [json.loads(pod) for pod in await LivePods(Api(session)).group(site.namespace, "llama", "node-1")]
            assert [pod["metadata"]["name"] for pod in found] == ["a", "b"]
            assert [pod["spec"]["nodeName"] for pod in found] == ["node-1", "node-1"]
            assert await LivePods(Api(session)).group(site.namespace, "llama", "node-3") == []

    uvloop.run(test())


def test_replicas_write_one_event_between_them(site: Site) -> None:
    train = site.create("train")
    at = site.admin.read_namespaced_pod("train", site.namespace).metadata
    assert at is not None
    assert at.creation_timestamp is not None
    created = at.creation_timestamp

    async def test() -> None:
        async with site.session() as session:
            for instance in ("webhook-0", "webhook-1"):
                events = PodEvents(Api(session), instance=instance, now=lambda: created)
                events.tell(UNMET, train)
                await events.close()
                assert (events.counts, events.failure) == ({Fate.CREATED: 1}, "")

    uvloop.run(test())
    assert [event.reporting_instance for event in site.events()] == ["webhook-0"]


def test_the_longest_note_name_and_reporter_are_accepted(site: Site) -> None:
    name = ".".join(["a-pod-with-a-long-name-of-some-job"] * 7 + ["z" * 8])
    assert len(name) == 253
    train = site.create(name)

    async def test() -> None:
        async with site.session() as session:
            events = PodEvents(Api(session), instance="h" * 200)
            events.tell(PodEvent(reason="NotResolved", note="é" * 2000), train)
            await events.close()
            assert (events.counts, events.failure) == ({Fate.CREATED: 1}, "")

    uvloop.run(test())
    (event,) = site.events()
    assert event.note == "é" * 510 + "..."


def test_a_token_that_has_ended_is_told(site: Site) -> None:
    config = json.loads(site.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "ended"}
    site.kubeconfig.write_text(json.dumps(config))

    async def test() -> None:
        async with site.session() as session:
            with pytest.raises(PodsUnreadable, match=r"^get pod .*: Unauthorized \(401\)\. .* its token has ended"):
                await LivePods(Api(session)).pod(site.namespace, "train")

    uvloop.run(test())


async def everything(site: Site, session: Session, pod: PodReference) -> list[str]:
    """Do all that the webhook does; what was refused."""
    refused = []
    for read in (
        partial(LivePods(Api(session)).pod, site.namespace, pod.name),
        partial(LivePods(Api(session)).group, site.namespace, "llama", "node-1"),
    ):
        try:
            await read()
        except PodsUnreadable as error:
            refused.append(str(error))
    try:
        await WaitingPods(Api(session), site.namespace).patch(
            site.namespace, pod.name, [Operation("test", "/kind", "Pod")]
        )
    except ApiError as error:
        refused.append(str(error))
    events = PodEvents(Api(session))
    events.tell(UNMET, pod)
    await events.close()
    return refused + ([events.failure] if events.failure else [])


def test_the_permissions_are_enough(site: Site) -> None:
    train = site.create("train")

    async def test() -> None:
        async with site.session() as session:
            assert await everything(site, session, train) == []

    uvloop.run(test())


@pytest.mark.parametrize(
    ("resource", "verb"),
    [(permission.resource, verb) for permission in WEBHOOK for verb in permission.verbs if permission.resource in HERE],
)
def test_every_permission_is_needed(make_site: MakeSite, resource: str, verb: str) -> None:
    site = make_site(without(WEBHOOK, Scope.CLUSTER, resource, verb))
    train = site.create("train")

    async def test() -> None:
        async with site.session() as session:
            (refused,) = await everything(site, session, train)
            assert f'cannot {verb} resource "{resource}"' in refused

    uvloop.run(test())
