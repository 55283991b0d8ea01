"""A cluster that is followed by watches, at a small API server."""

import asyncio
from collections.abc import Callable

import pytest

from tests.cluster.api.access import ToldAccess
from tests.cluster.api.api_server import ApiServer
from tests.cluster.api.stand_in import serving
from tests.insight.analyze.clusters import registration
from webhook.cli.snapshots import cluster_setting
from webhook.cluster.api import resources
from webhook.cluster.api.session import Session
from webhook.cluster.snapshot import watch
from webhook.cluster.snapshot.lists import EVERYWHERE, NAMESPACES, of_namespace
from webhook.cluster.snapshot.model import Snapshot
from webhook.cluster.snapshot.watch import FollowedCluster
from webhook.cluster.state.cache import Limit
from webhook.objects.webhook_registration import CONFIGURATION
from webhook.words import names
from webhook.words.errors import GpuTopologyError

_SECONDS = 20.0
REGISTRATIONS = next(each.path for each in EVERYWHERE if each.kind == CONFIGURATION)


async def read_until(
    server: ApiServer,
    change: Callable[[], None],
    holds: Callable[[Snapshot], bool],
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> Snapshot:
    """The first picture of which that is true, after a change that comes once all was read."""
    for path in (resources.PODS.path, *(each.path for each in (NAMESPACES, *EVERYWHERE, *of_namespace(None)))):
        server.collection(path)
    async with serving(server.turn) as stand_in, asyncio.timeout(_SECONDS):
        session = Session(ToldAccess(f"http://127.0.0.1:{stand_in.port}"), user_agent="test", seconds=_SECONDS)
        setting, certificates = cluster_setting(None)
        cluster = FollowedCluster(session, None, setting, certificates, tell=tell)
        tasks = [asyncio.create_task(each) for each in cluster.work()]
        try:
            await cluster.settled()
            while cluster.reader()().facts.kubernetes is None:
                await asyncio.sleep(0.01)
            change()
            while not holds(found := cluster.reader()()):
                await asyncio.sleep(0.01)
            return found
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await session.close()


def test_a_secret_is_asked_for_as_soon_as_the_registration_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_AROUND_SECONDS", 0.01)
    server = ApiServer(others={"/version": {"gitVersion": "v1.33.2"}})
    server.refuse = lambda path: 403 if "/secrets/" in path else 0
    ours = registration()
    found = asyncio.run(
        read_until(
            server,
            lambda: server.put(REGISTRATIONS, ours["metadata"]["name"], webhooks=ours["webhooks"]),
            lambda snapshot: bool(snapshot.unread) and names.PLANNER_LEASE in snapshot.read,
        )
    )
    assert [(each.what, each.is_denied) for each in found.unread] == [("secrets", True)]


def test_more_pods_and_nodes_than_are_kept_are_told_on_the_page_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_LIMIT", Limit(objects=2, bytes=1_000_000))
    server, told = ApiServer(others={"/version": {"gitVersion": "v1.33.2"}}), list[str]()
    for name in ("a", "b"):
        fill(server, name)
    found = asyncio.run(
        read_until(server, lambda: fill(server, "c"), lambda cut: len(cut.unread) == 2, tell=told.append)
    )
    assert {(each.what, each.is_denied) for each in found.unread} == {("pods", False), ("nodes", False)}
    assert "there are more of them" in found.unread[0].problem
    assert (len(found.pods), len(found.nodes)) == (2, 2)
    assert "Node" not in found.read
    assert sum("expected at most 2 objects" in line for line in told) == 2


def test_as_many_pods_and_nodes_as_are_kept_are_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_LIMIT", Limit(objects=2, bytes=1_000_000))
    server, told = ApiServer(others={"/version": {"gitVersion": "v1.33.2"}}), list[str]()
    fill(server, "a")
    found = asyncio.run(
        read_until(server, lambda: fill(server, "b"), lambda all_: len(all_.pods) == 2, tell=told.append)
    )
    assert (found.unread, told) == ((), [])
    assert "Node" in found.read


def fill(server: ApiServer, name: str) -> None:
    server.put("/api/v1/nodes", name)
    server.put(resources.PODS.path, f"team-a/{name}", spec={"containers": [{"name": "main"}]})


def refused(code: int, namespace: str | None) -> str:
    """Why a cluster whose API server answers so cannot be watch."""
    server = ApiServer()
    server.refuse = lambda path: code if "/pods" in path else 0

    async def follow() -> None:
        async with serving(server.turn) as stand_in, asyncio.timeout(_SECONDS):
            session = Session(ToldAccess(f"http://127.0.0.1:{stand_in.port}"), user_agent="test", seconds=_SECONDS)
            cluster = FollowedCluster(session, namespace, *cluster_setting(None), tell=lambda _: None)
            tasks = [asyncio.create_task(each) for each in cluster.work()]
            try:
                await cluster.settled()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await session.close()

    with pytest.raises(GpuTopologyError, match="pods") as error:
        asyncio.run(follow())
    return str(error.value)


@pytest.mark.parametrize(
    ("namespace", "fix"),
    [
        (None, "Have the permission to list pods. With -n NAMESPACE those of one namespace are enough"),
        ("team-a", "Have the permission to list pods in namespace team-a"),
    ],
)
def test_without_the_permission_to_list_pods_the_fix_is_told(namespace: str | None, fix: str) -> None:
    role = "Have an administrator bind the ClusterRole gpu-topology-reader of the chart to you"
    assert refused(403, namespace).endswith(f". {fix}. {role}")


def test_an_api_server_that_fails_is_no_matter_of_permission() -> None:
    assert "permission" not in refused(500, None)
