"""A collection at a server that lists in pages and ends its watches, mirrored over real connections."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cluster.api.access import ToldAccess
from tests.cluster.api.api_server import ApiServer
from tests.cluster.api.stand_in import StandIn, serving
from webhook.cluster.api import reflector as module
from webhook.cluster.api.reflector import Reflector
from webhook.cluster.api.session import Session
from webhook.cluster.kinds import NODES, PODS, Collection
from webhook.cluster.state.cache import Cache, Document, Form, Limit

DEADLINE_S = 20.0
PATH = NODES.path


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_DELAY", 0.005)
    monkeypatch.setattr(module, "LONGEST_DELAY", 0.05)
    monkeypatch.setattr(module, "SHORT_PAUSE", 0.005)


def read(document: Document, name: str, _: Any) -> str:
    return f"{name}={json.loads(bytes(document)).get('value')}"


@dataclass
class Site:
    """A server, and a mirror of one of its collections."""

    server: ApiServer
    stand_in: StandIn
    session: Session
    cache: Cache[str]
    errors: Counter[tuple[str, str]]
    said: list[str] = field(default_factory=list)

    def truth(self) -> set[str]:
        found = self.server.collection(PATH).objects
        return {f"{name}={one.get('value')}" for name, one in found.items()}

    def same(self) -> bool:
        return self.cache.filled and set(self.cache.values().values()) == self.truth()

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, (self.said, self.errors, self.cache.values(), self.truth())
            await asyncio.sleep(0.002)


@asynccontextmanager
async def mirrored(server: ApiServer, resource: Collection = NODES) -> AsyncIterator[Site]:
    server.collection(PATH)
    async with serving(server.turn) as stand_in:
        session = Session(ToldAccess(f"http://127.0.0.1:{stand_in.port}"), user_agent="test", seconds=DEADLINE_S)
        said: list[str] = []
        cache = Cache[str]("nodes", Form(read, len, Limit(10_000, 1_000_000)), tell=said.append, clock=time.monotonic)
        errors: Counter[tuple[str, str]] = Counter()
        task = asyncio.create_task(Reflector(session, resource, cache, errors=errors, chance=lambda: 0.0).run())
        try:
            yield Site(server, stand_in, session, cache, errors, said)
        finally:
            task.cancel()
            await asyncio.wait({task})
            await session.close()


def filled(count: int = 5, **settings: Any) -> ApiServer:
    server = ApiServer(**settings)
    for number in range(count):
        server.put(PATH, f"node-{number}", value=number)
    return server


async def test_all_pages_of_a_list_are_taken_and_what_happens_afterwards() -> None:
    async with mirrored(filled()) as site:
        await site.until(site.same)
        site.server.put(PATH, "node-1", value="changed")
        site.server.put(PATH, "new", value="é")
        site.server.delete(PATH, "node-0")
        await site.until(site.same)
        assert (site.server.lists, site.server.watches) == (1, 1)
        first, *_, watch = [one.target for one in site.stand_in.received]
        assert first == "/api/v1/nodes?limit=20"
        assert "watch=1&allowWatchBookmarks=true&resourceVersion=105&timeoutSeconds=300" in watch


async def test_of_nodes_only_the_metadata_is_asked_for() -> None:
    async with mirrored(filled()) as site:
        await site.until(lambda: site.server.watches == 1)
        forms = [one.headers["accept"] for one in site.stand_in.received]
        assert forms[0] == "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
        assert forms[-1] == "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"


async def test_pods_of_all_namespaces_are_told_apart_and_finished_ones_are_not_asked_for() -> None:
    server = ApiServer()
    for name in ("team-a/train", "team-b/train"):
        server.put(PODS.path, name, value=1)
    async with mirrored(server, PODS) as site:
        await site.until(lambda: len(site.cache) == 2)
        server.put(PODS.path, "team-a/train", value=2)
        server.delete(PODS.path, "team-b/train")
        await site.until(lambda: dict(site.cache.values()) == {"team-a/train": "team-a/train=2"})
        finished = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
        assert all(finished in one.target for one in site.stand_in.received)


async def test_a_pod_without_a_namespace_is_told_of_and_not_kept() -> None:
    server = ApiServer()
    server.put(PODS.path, "train", value=1)
    async with mirrored(server, PODS) as site:
        await site.until(lambda: site.cache.filled)
        assert site.said == ["nodes: expected an object with a namespace, found one without"]
        assert len(site.cache) == 0


async def test_a_watch_that_is_ended_again_and_again_loses_nothing_and_needs_no_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LIVELY_SECONDS", 0.02)

    async with mirrored(filled(watch_seconds=0.1)) as site:
        await site.until(site.same)
        for number in range(10):
            site.server.put(PATH, "counter", value=number)
            site.server.put(PATH, f"more-{number}", value=number)
            await asyncio.sleep(0.02)
        await site.until(site.same)
        await site.until(lambda: site.server.watches > 5)
        assert (site.server.lists, site.errors) == (1, Counter())


async def test_a_bookmark_moves_the_version_from_which_the_next_watch_begins() -> None:
    server = filled(watch_seconds=0.6)
    async with mirrored(server) as site:
        await site.until(lambda: server.watches == 1)
        server.version += 50
        server.bookmark(PATH)
        await site.until(lambda: server.watches == 2)
        assert "resourceVersion=155&" in site.stand_in.received[-1].target


async def test_a_watch_refused_with_410_leads_to_a_list() -> None:
    server = filled()
    server.refuse = lambda target: 410 if "watch" in target and server.lists == 1 else 0
    async with mirrored(server) as site:
        await site.until(lambda: server.watches == 1)
        assert (server.lists, site.errors["nodes", "expired"]) == (2, 1)


@pytest.mark.parametrize(("code", "lists"), [(429, 1), (503, 2), (504, 2)])
async def test_a_busy_api_server_is_asked_for_no_list_in_place_of_the_watch(code: int, lists: int) -> None:
    server = filled()
    server.refuse = lambda target: code if "watch" in target and site.errors["nodes", "away"] < 4 else 0
    async with mirrored(server) as site:
        await site.until(lambda: server.watches == 1)
        assert (site.errors["nodes", "away"], server.lists) == (4, lists)


async def test_an_error_in_the_stream_that_is_not_410_leaves_what_is_known() -> None:
    async with mirrored(filled()) as site:
        await site.until(lambda: site.server.watches == 1)
        site.server.say(PATH, "ERROR", {"kind": "Status", "code": 500, "message": "etcd is ill"})
        await site.until(lambda: site.errors["nodes", "away"] == 1)
        assert site.same()
        assert "watch nodes: etcd is ill (500)" in site.said
        site.server.collection(PATH).history.pop()
        site.server.put(PATH, "later", value=1)
        await site.until(site.same)


@pytest.mark.parametrize("what", [{"metadata": {"name": "x"}}, {"metadata": 5}, {}])
async def test_an_event_about_nobody_knows_which_object_leads_to_a_list(what: dict[str, Any]) -> None:
    async with mirrored(filled()) as site:
        await site.until(lambda: site.server.watches == 1)
        site.server.say(PATH, "MODIFIED", what)
        await site.until(lambda: site.server.lists == 2)
        await site.until(site.same)
        assert site.errors["nodes", "malformed"] == 1


async def test_a_line_that_is_no_event_does_not_end_the_mirror() -> None:
    server = filled()
    async with mirrored(server) as site:
        await site.until(site.same)
        server.say(PATH, "MODIFIED", {})
        server.collection(PATH).history[-1] = (server.version, 7, {})  # type: ignore[assignment]  # no event
        await site.until(lambda: site.errors["nodes", "malformed"] > 0)
        server.collection(PATH).history.pop()
        server.put(PATH, "later", value=1)
        await site.until(site.same)


async def test_while_the_server_refuses_what_is_known_stays_and_it_says_why() -> None:
    server = filled(watch_seconds=0.05)
    async with mirrored(server) as site:
        await site.until(site.same)
        server.refuse = lambda _: 403
        await site.until(lambda: site.errors["nodes", "denied"] > 0)
        assert site.same()
        assert site.cache.problem.endswith(": no (403)")
        server.refuse = lambda _: 0
        server.put(PATH, "later", value=1)
        await site.until(site.same)
        await site.until(lambda: not site.cache.problem)
        await site.until(lambda: site.said[-1] == "nodes: the API server answers again")


async def test_before_the_first_whole_list_it_is_not_filled() -> None:
    server = filled()
    server.refuse = lambda target: 503 if "continue" in target else 0
    async with mirrored(server) as site:
        await site.until(lambda: site.errors["nodes", "away"] > 0)
        assert (site.cache.filled, site.cache.problem) == (False, "list nodes: no (503)")
        server.refuse = lambda _: 0
        await site.until(site.same)


async def test_a_cluster_restored_from_a_backup_is_believed_after_a_while() -> None:
    server = filled(watch_seconds=0.05)
    async with mirrored(server) as site:
        await site.until(site.same)
        server.refuse = lambda _: 503
        await site.until(lambda: site.errors["nodes", "away"] > 0)
        server.restore(10)
        server.put(PATH, "node-0", value="from the backup")
        too_large = lambda target: 504 if "watch" in target and "resourceVersion=10" in target else 0  # noqa: E731
        server.refuse = too_large
        await site.until(site.same)


async def test_a_watch_takes_no_more_than_is_read() -> None:
    server = filled(1)
    async with mirrored(server) as site:
        await site.until(site.same)
        for number in range(300):
            server.put(PATH, f"big-{number % 3}", value="x" * 20_000, number=number)
        await site.until(site.same)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcd")),
        st.tuples(st.just("delete"), st.sampled_from("abcd")),
        st.tuples(st.just("bookmark"), st.just("")),
        st.tuples(st.just("compact"), st.just("")),
        st.tuples(st.just("refuse"), st.sampled_from(["410", "500", "403"])),
        st.tuples(st.just("again"), st.just("")),
        st.tuples(st.just("error"), st.just("")),
        st.tuples(st.just("wait"), st.just("")),
        st.tuples(st.just("expire"), st.just("")),
    ),
    max_size=25,
)


@given(STEPS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_the_server_does_the_mirror_ends_with_what_it_has(steps: list[tuple[str, str]]) -> None:
    async def test() -> None:
        server = filled(3, watch_seconds=0.02)
        async with mirrored(server) as site:
            for step, argument in steps:
                await play(server, step, argument)
            server.refuse = lambda _: 0
            forget_errors(server)
            await site.until(site.same)

    asyncio.run(test())


async def play(server: ApiServer, step: str, argument: str) -> None:
    if step == "put":
        server.put(PATH, argument, value=server.version)
    elif step == "delete" and argument in server.collection(PATH).objects:
        server.delete(PATH, argument)
    elif step == "bookmark":
        server.bookmark(PATH)
    elif step == "compact":
        server.compact()
    elif step == "refuse":
        server.refuse = lambda _: int(argument)
        await asyncio.sleep(0.005)
        server.refuse = lambda _: 0
    elif step == "again" and server.collection(PATH).history:
        history = server.collection(PATH).history
        server.say(PATH, history[0][1], history[0][2])
    elif step == "error":
        server.say(PATH, "ERROR", {"kind": "Status", "code": 500, "message": "etcd is ill"})
    elif step == "expire":
        server.expire_pages = 1
    else:
        await asyncio.sleep(0.01)


def forget_errors(server: ApiServer) -> None:
    collection = server.collection(PATH)
    collection.history = [one for one in collection.history if one[1] != "ERROR"]


async def test_a_cluster_without_objects_of_a_kind_has_none_and_that_is_said_once() -> None:
    kind = Collection("nodes", PATH, api="resource.k8s.io/v1")

    server = filled()
    server.refuse = lambda _: 404
    async with mirrored(server, kind) as site:
        await site.until(lambda: len(site.stand_in.received) > 3)
        assert (site.cache.filled, len(site.cache)) == (True, 0)
        assert site.errors == {("nodes", "not-served"): 1}
        assert site.said == ["list nodes: the API server does not serve resource.k8s.io/v1"]
        server.refuse = lambda _: 0
        await site.until(site.same)
        await site.until(lambda: site.said[-1] == "nodes: the API server answers again")


@pytest.mark.parametrize(
    ("words", "is_believed"),
    [(None, True), (b"<html>not here</html>", False), (b"{}", False), (b"404 page not found\n", False)],
)
async def test_a_404_of_something_in_between_empties_no_mirror_that_is_full(
    words: bytes | None, *, is_believed: bool
) -> None:
    kind = Collection("nodes", PATH, api="resource.k8s.io/v1")

    server = filled(watch_seconds=0.05)
    async with mirrored(server, kind) as site:
        await site.until(site.same)
        server.refusal, server.refuse = words, lambda target: 410 if "watch" in target else 404
        await site.until(lambda: any("list nodes" in line for line in site.said))
        assert (len(site.cache) == 0) is is_believed
        server.refuse = lambda _: 0
        await site.until(site.same)


async def test_a_kind_that_every_cluster_has_is_not_believed_to_be_missing() -> None:
    server = filled()
    server.refuse = lambda _: 404
    async with mirrored(server) as site:
        await site.until(lambda: len(site.stand_in.received) > 3)
        assert not site.cache.filled
