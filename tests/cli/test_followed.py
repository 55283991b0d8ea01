"""A cluster that is followed by watches, at a small API server."""

import asyncio
from collections.abc import Callable

import pytest

from tests.analyze.clusters import registration
from tests.kube.access import ToldAccess
from tests.kube.api_server import ApiServer
from tests.kube.stand_in import serving
from webhook.analyze.installation import CONFIGURATION
from webhook.analyze.snapshot import Snapshot
from webhook.cli.snapshot import followed
from webhook.cli.snapshot.cluster import EVERYWHERE, NAMESPACES, of_claims
from webhook.cli.snapshot.followed import FollowedCluster
from webhook.cli.snapshot.read import cluster_setting
from webhook.kube import resources
from webhook.kube.session import Session
from webhook.model import names

_SECONDS = 20.0
REGISTRATIONS = next(each.path for each in EVERYWHERE if each.kind == CONFIGURATION)


async def read_until(server: ApiServer, change: Callable[[], None], holds: Callable[[Snapshot], bool]) -> Snapshot:
    """The first picture of which that is true, after a change that comes once all was read."""
    for path in (resources.PODS.path, *(each.path for each in (NAMESPACES, *EVERYWHERE, *of_claims(None)))):
        server.collection(path)
    async with serving(server.turn) as stand_in, asyncio.timeout(_SECONDS):
        session = Session(ToldAccess(f"http://127.0.0.1:{stand_in.port}"), user_agent="test", seconds=_SECONDS)
        setting, certificates = cluster_setting(None)
        cluster = FollowedCluster(session, None, setting, certificates, tell=lambda _: None)
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
    monkeypatch.setattr(followed, "_AROUND_SECONDS", 0.01)
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
    assert [each.what for each in found.unread] == ["secrets"]
