"""Waiting pods as the API server lists and patches them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cluster.api.api_server import ApiServer
from tests.cluster.api.stand_in import Turn, always, kubeconfig, serving, status
from webhook.cluster.api.errors import ApiError, ApiServerAway, Denied, Malformed
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api
from webhook.decisions.place.gate import find_gate, open_gate
from webhook.objects.pod import Pod
from webhook.programs.server.waiting_pods import PodsPage, WaitingPods
from webhook.words.choices import Placement

PODS, LEASES = "/api/v1/pods", "/apis/coordination.k8s.io/v1/namespaces/gpu-topology/leases"
NOW = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)
WAITING = {"gpu.topology/placement": "waiting"}
GATES = [{"name": "gpu.topology/place"}]


@asynccontextmanager
async def waiting(directory: Path, turn: Turn) -> AsyncIterator[WaitingPods]:
    async with serving(turn) as stand_in:
        config = kubeconfig(directory / "kubeconfig", f"http://127.0.0.1:{stand_in.port}")
        session = connect(config, user_agent="test", seconds=30.0)
        try:
            yield WaitingPods(Api(session), "gpu-topology", now=lambda: NOW)
        finally:
            await session.close()


async def all_pages(pods: WaitingPods) -> list[PodsPage]:
    return [page async for page in pods.pages()]


def names(pages: list[PodsPage]) -> list[list[str]]:
    return [[json.loads(bytes(document))["metadata"]["name"] for document in page.documents] for page in pages]


def put(api: ApiServer, name: str, **spec: Any) -> None:
    metadata = {"uid": f"uid-{name}", "labels": WAITING}
    api.put(PODS, f"team-a/{name}", metadata=metadata, spec={"schedulingGates": GATES, **spec})


def test_they_come_in_pages_with_the_time_of_the_api_server(tmp_path: Path) -> None:
    api = ApiServer(page=2, list_headers=("Date: Thu, 15 Jan 2026 10:00:00 GMT",))
    for name in ("a", "b", "c"):
        put(api, name)
    api.put(PODS, "team-a/pinned", metadata={"labels": {"gpu.topology/placement": "pinned"}})

    async def test() -> None:
        async with waiting(tmp_path, api.turn) as pods:
            pages = await all_pages(pods)
        assert names(pages) == [["a", "b"], ["c"]]
        assert {page.at for page in pages} == {datetime(2026, 1, 15, 10, 0, tzinfo=UTC)}

    asyncio.run(test())


@pytest.mark.parametrize("headers", [(), ("Date: soon",)])
def test_without_its_time_ours_counts(tmp_path: Path, headers: tuple[str, ...]) -> None:
    api = ApiServer(list_headers=headers)
    api.collection(PODS)

    async def test() -> None:
        async with waiting(tmp_path, api.turn) as pods:
            (page,) = await all_pages(pods)
        assert page == PodsPage(NOW, [])

    asyncio.run(test())


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        (always(status(403, "no"), "403 Forbidden"), Denied),
        (always(status(500, "no"), "500 Internal Server Error"), ApiServerAway),
        (always(b"[]"), Malformed),
        (always(b'{"metadata": {}, "items": {}}'), Malformed),
    ],
    ids=["forbidden", "broken", "no object", "no items"],
)
def test_an_answer_that_is_no_list_is_an_error(tmp_path: Path, turn: Turn, error: type[ApiError]) -> None:
    async def test() -> None:
        async with waiting(tmp_path, turn) as pods:
            with pytest.raises(error, match="list waiting pods"):
                await all_pages(pods)
            with pytest.raises(error, match="get Lease gpu-topology-place"):
                await pods.lease()

    asyncio.run(test())


def test_of_the_leases_only_the_planners_is_asked_for(tmp_path: Path) -> None:
    api = ApiServer()
    api.put(LEASES, "gpu-topology-node-1")

    async def test() -> None:
        async with waiting(tmp_path, api.turn) as pods:
            assert await pods.lease() is None
            api.put(LEASES, "gpu-topology-place", spec={"holderIdentity": "planner-1"})
            found = await pods.lease()
        assert found is not None
        assert (found.name, found.version) == ("gpu-topology-place", api.version)

    asyncio.run(test())


def test_a_lease_that_is_none_is_an_error(tmp_path: Path) -> None:
    async def test() -> None:
        async with waiting(tmp_path, always(b'{"metadata": {}, "items": [{}]}')) as pods:
            with pytest.raises(Malformed, match="get Lease gpu-topology-place: expected an object"):
                await pods.lease()

    asyncio.run(test())


def test_a_pod_is_patched_unless_it_has_changed_or_is_gone(tmp_path: Path) -> None:
    api = ApiServer()
    put(api, "train")
    document = msgspec.json.encode(api.collection(PODS).objects["team-a/train"])
    gate = find_gate(msgspec.json.decode(document, type=Pod))
    assert gate is not None
    operations = open_gate(gate, Placement.RELEASED)

    async def test() -> None:
        async with waiting(tmp_path, api.turn) as pods:
            assert await pods.patch("team-a", "train", operations)
            assert not await pods.patch("team-a", "train", operations)
            assert not await pods.patch("team-a", "other", operations)

    asyncio.run(test())
    after = api.collection(PODS).objects["team-a/train"]
    assert after["spec"]["schedulingGates"] == []
    assert after["metadata"]["labels"] == {"gpu.topology/placement": "released"}


def test_a_refusal_of_the_patch_is_an_error(tmp_path: Path) -> None:
    async def test() -> None:
        async with waiting(tmp_path, always(status(403, "no"), "403 Forbidden")) as pods:
            with pytest.raises(Denied, match="patch pod team-a/train"):
                await pods.patch("team-a", "train", ())

    asyncio.run(test())
