"""Pods are read anew from the API server; whatever it does instead of answering has a sentence."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.cluster.api.stand_in import (
    POD,
    Line,
    Received,
    StandIn,
    Turn,
    always,
    chunked,
    head,
    kubeconfig,
    serving,
    status,
)
from webhook.cluster.api.current_objects import GROUP_BYTES, LivePods
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api
from webhook.cluster.state import Pods
from webhook.words.errors import PodsUnreadable

MISSING = status(404, 'pods "train" not found', reason="NotFound", details={"name": "train", "kind": "pods"})
PATIENCE_S = 30.0
HASTE_S = 0.2


@asynccontextmanager
async def reading(directory: Path, url: str, *, seconds: float = PATIENCE_S) -> AsyncIterator[Pods]:
    session = connect(kubeconfig(directory / "kubeconfig", url), user_agent="test", seconds=seconds)
    try:
        yield LivePods(Api(session))
    finally:
        await session.close()


@asynccontextmanager
async def site(directory: Path, turn: Turn, *, seconds: float = PATIENCE_S) -> AsyncIterator[tuple[StandIn, Pods]]:
    async with (
        serving(turn) as stand_in,
        reading(directory, f"http://127.0.0.1:{stand_in.port}", seconds=seconds) as pods,
    ):
        yield stand_in, pods


def turns(*each: Callable[[Line], None]) -> Turn:
    """Says these in order, then the last one for ever."""
    left = list(each)

    async def turn(_: Received, line: Line) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(line)

    return turn


WHOLE = head("200 OK", f"Content-Length: {len(POD)}") + POD
CHUNKED = head("200 OK", "Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    "pieces",
    [
        [WHOLE],
        [CHUNKED + chunked(POD)],
        [CHUNKED + chunked(*(POD[at : at + 1] for at in range(len(POD))))],
        [CHUNKED, b"2\r\n", POD[:2], b"\r\n", chunked(POD[2:])],
        [WHOLE[:9], WHOLE[9:60], WHOLE[60:-1], WHOLE[-1:]],
        [head("100 Continue")[:-2] + b"\r\n", WHOLE],
    ],
    ids=["length", "chunked", "byte by byte", "chunks in pieces", "pieces", "after another"],
)
async def test_a_pod_is_given_as_it_was_sent(tmp_path: Path, pieces: list[bytes]) -> None:
    async def turn(_: Received, line: Line) -> None:
        for piece in pieces:
            line.raw(piece)
            await line.writer.drain()
            await asyncio.sleep(0.01)

    async with site(tmp_path, turn) as (_, pods):
        assert [await pods.pod("team-a", "train") for _ in range(3)] == [POD, POD, POD]


async def test_the_request_says_who_asks_for_what(tmp_path: Path) -> None:
    async with site(tmp_path, always(POD)) as (stand_in, pods):
        await pods.pod("team-a", "train.0-x")
    (request,) = stand_in.received
    assert (request.method, request.target) == ("GET", "/api/v1/namespaces/team-a/pods/train.0-x")
    assert {name: request.headers.get(name) for name in ("accept", "authorization", "user-agent")} == {
        "accept": "application/json",
        "authorization": "Bearer t",
        "user-agent": "test",
    }
    assert sorted(request.headers) == ["accept", "accept-encoding", "authorization", "host", "user-agent"]


async def test_a_pod_that_does_not_exist_is_none(tmp_path: Path) -> None:
    async with site(tmp_path, always(MISSING, "404 Not Found")) as (_, pods):
        assert await pods.pod("team-a", "train") is None


@pytest.mark.parametrize(
    "body",
    [
        b"404 page not found\n",
        b"",
        status(404, "the server could not find the requested resource", reason="NotFound", details={}),
        b'{"details":7}',
    ],
)
async def test_a_404_of_somebody_else_is_no_pod_that_is_gone(tmp_path: Path, body: bytes) -> None:
    async with site(tmp_path, always(body, "404 Not Found")) as (_, pods):
        with pytest.raises(PodsUnreadable, match=r"^get pod team-a/train: .*\(404\)$"):
            await pods.pod("team-a", "train")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a?b", "a%2fb", "A", "a b", "a\n", "-a", "a" * 254])
async def test_what_cannot_be_a_name_is_not_asked_for(tmp_path: Path, name: str) -> None:
    async with site(tmp_path, always(POD)) as (stand_in, pods):
        assert await pods.pod("team-a", name) is None
        assert await pods.pod(name, "train") is None
        assert await pods.group("team-a", "g", name) == []
        assert await pods.group(name, "g", "node-1") == []
    assert stand_in.received == []


@pytest.mark.parametrize(
    ("code", "body", "text"),
    [
        (
            "401 Unauthorized",
            status(401, "Unauthorized"),
            "Unauthorized (401). The API server does not know the webhook: its token has ended or is another cluster's",
        ),
        (
            "403 Forbidden",
            status(403, 'pods "train" is forbidden: User "x" cannot get pods'),
            'pods "train" is forbidden: User "x" cannot get pods (403). The webhook needs a role to get and list pods',
        ),
        (
            "429 Too Many Requests",
            status(429, "too many requests, please try again later"),
            "too many requests, please try again later (429). The scheduler tries again",
        ),
        (
            "500 Internal Server Error",
            status(500, "etcdserver: request timed out"),
            "etcdserver: request timed out (500). The scheduler tries again",
        ),
        (
            "503 Service Unavailable",
            b"apiserver is shutting down",
            'expected the words of an API server, found "apiserver is shutting down" (503). The scheduler tries again',
        ),
        ("400 Bad Request", b"", 'expected the words of an API server, found "" (400)'),
        ("302 Found", b"", 'expected the words of an API server, found "" (302)'),
        ("200 OK", b"<html>", "expected a pod, found something else"),
        ("200 OK", b"", "expected a pod, found something else"),
        ("200 OK", b"[]", "expected a pod, found something else"),
        ("204 No Content", b"", 'expected the words of an API server, found "" (204)'),
    ],
)
async def test_an_answer_that_is_no_pod_is_told_in_its_own_words(
    tmp_path: Path, code: str, body: bytes, text: str
) -> None:
    async def turn(_: Received, line: Line) -> None:
        line.say(body, code, "Location: /elsewhere")

    async with site(tmp_path, turn) as (stand_in, pods):
        with pytest.raises(PodsUnreadable, match="get pod team-a/train") as caught:
            await pods.pod("team-a", "train")
        assert str(caught.value) == f"get pod team-a/train: {text}"
        assert len(stand_in.received) == 1


HALF = WHOLE[:-20]


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200", HALF], ids=["nothing", "half a line", "half a body"])
async def test_an_api_server_that_is_slow_is_not_waited_for(tmp_path: Path, said: bytes) -> None:
    async def turn(_: Received, line: Line) -> None:
        line.raw(said)
        await asyncio.sleep(PATIENCE_S)

    async with site(tmp_path, turn, seconds=HASTE_S) as (stand_in, pods):
        with pytest.raises(PodsUnreadable, match="get pod team-a/train") as caught:
            await pods.pod("team-a", "train")
        assert str(caught.value) == (
            f"get pod team-a/train: no answer from http://127.0.0.1:{stand_in.port} within 0.2 s"
            ". The scheduler tries again"
        )


async def test_a_body_that_drips_is_not_waited_for_either(tmp_path: Path) -> None:
    async def turn(_: Received, line: Line) -> None:
        line.raw(head("200 OK", "Content-Length: 100000"))
        while True:
            line.raw(b" ")
            await line.writer.drain()
            await asyncio.sleep(0.02)

    async with site(tmp_path, turn, seconds=HASTE_S) as (_, pods):
        with pytest.raises(PodsUnreadable, match=r"no answer from .* within 0\.2 s"):
            await pods.pod("team-a", "train")


async def test_an_api_server_that_was_away_is_found_again(tmp_path: Path, port: int) -> None:
    async with reading(tmp_path, f"http://127.0.0.1:{port}") as pods:
        for _ in range(2):
            with pytest.raises(PodsUnreadable, match=rf"^get pod team-a/train: http://127.0.0.1:{port} gives no"):
                await pods.pod("team-a", "train")
            async with serving(always(POD), port=port):
                assert await pods.pod("team-a", "train") == POD


async def test_an_api_server_that_cannot_be_reached_is_told_without_the_names_of_objects(
    tmp_path: Path, port: int
) -> None:
    async with reading(tmp_path, f"http://127.0.0.1:{port}") as pods:
        with pytest.raises(PodsUnreadable, match="onnect") as caught:
            await pods.pod("team-a", "train")
        assert "object at" not in str(caught.value)


@pytest.mark.parametrize("said", ["Connection: close", ""])
async def test_a_connection_that_must_not_be_used_again_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """The server says so, or it has been idle for long."""
    if not said:
        monkeypatch.setattr("webhook.cluster.api.session.IDLE_SECONDS", -1.0)

    async def turn(_: Received, line: Line) -> None:
        line.say(POD, "200 OK", *([said] if said else []))

    async with site(tmp_path, turn) as (stand_in, pods):
        for _ in range(5):
            assert await pods.pod("team-a", "train") == POD
        assert [request.connection for request in stand_in.received] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("said", "times"), [(b"", 2), (HALF, 1), (b"HTTP/1.1 2", 2)], ids=["nothing", "half a body", "half a line"]
)
async def test_an_api_server_that_always_hangs_up_gives_no_answer(tmp_path: Path, said: bytes, times: int) -> None:
    async def turn(_: Received, line: Line) -> None:
        line.raw(said)
        await line.writer.drain()
        line.hang_up()

    async with site(tmp_path, turn) as (stand_in, pods):
        with pytest.raises(PodsUnreadable, match=r"gives no answer: .*\. The scheduler tries again$"):
            await pods.pod("team-a", "train")
        assert len(stand_in.received) == times


@pytest.mark.parametrize("length", ["Content-Length: 4194305", "Connection: close"])
async def test_an_answer_without_end_is_not_kept(tmp_path: Path, length: str) -> None:
    async def turn(_: Received, line: Line) -> None:
        line.raw(head("200 OK", length))
        for part in [b"{" * 65_536] * 65:
            line.raw(part)
            await line.writer.drain()

    async with site(tmp_path, turn) as (stand_in, pods):
        with pytest.raises(PodsUnreadable, match="expected an answer of at most 4194304 bytes, found more"):
            await pods.pod("team-a", "train")
        assert len(stand_in.received) == 1


async def test_the_largest_pod_is_read(tmp_path: Path) -> None:
    pod = b'{"a":"' + b"x" * (4 * 1024 * 1024 - 8) + b'"}'
    assert len(pod) == 4 * 1024 * 1024

    async with site(tmp_path, always(pod)) as (_, pods):
        assert await pods.pod("team-a", "train") == pod


async def test_many_are_read_at_once_over_no_more_than_64_connections(tmp_path: Path) -> None:
    async def turn(request: Received, line: Line) -> None:
        await asyncio.sleep(0.01)
        line.say(json.dumps({"path": request.target}).encode())

    async with site(tmp_path, turn) as (stand_in, pods):
        found = await asyncio.gather(*(pods.pod("team-a", f"train-{number}") for number in range(200)))
        assert found == [b'{"path": "/api/v1/namespaces/team-a/pods/train-%d"}' % number for number in range(200)]
        assert stand_in.most_open == 64


def page(*pods: str, following: str = "") -> bytes:
    items = "null" if not pods else f"[{', '.join(pods)}]"
    return f'{{"kind":"PodList","metadata":{{"continue":"{following}"}},"items":{items}}}'.encode()


async def test_a_group_is_asked_for_by_its_label_and_node(tmp_path: Path) -> None:
    answer = page('{"metadata": {"name":"a"}, "x": 1.0}', '{"metadata":{"name":"b"}}')

    async with site(tmp_path, always(answer)) as (stand_in, pods):
        found = await pods.group("team-a", "llama-3.1_A", "node-1.example")
        assert found == [b'{"metadata": {"name":"a"}, "x": 1.0}', b'{"metadata":{"name":"b"}}']
    (request,) = stand_in.received
    asked = urlsplit(request.target)
    assert asked.path == "/api/v1/namespaces/team-a/pods"
    assert parse_qs(asked.query, strict_parsing=True) == {
        "labelSelector": ["gpu.topology/group=llama-3.1_A"],
        "fieldSelector": ["spec.nodeName=node-1.example,status.phase!=Succeeded,status.phase!=Failed"],
        "limit": ["500"],
    }


async def test_a_group_is_read_to_its_last_page(tmp_path: Path) -> None:
    async def turn(request: Received, line: Line) -> None:
        after = parse_qs(urlsplit(request.target).query).get("continue")
        line.say(page('{"n":2}') if after == ["a+/=&b"] else page('{"n":1}', following="a+/=&b"))

    async with site(tmp_path, turn) as (stand_in, pods):
        assert await pods.group("team-a", "g", "node-1") == [b'{"n":1}', b'{"n":2}']
        assert len(stand_in.received) == 2


async def test_a_group_without_a_last_page_is_not_read_for_ever(tmp_path: Path) -> None:
    async def turn(_: Received, line: Line) -> None:
        await asyncio.sleep(0.02)
        line.say(page('{"n":1}', following="again"))

    async with site(tmp_path, turn, seconds=HASTE_S) as (_, pods):
        with pytest.raises(PodsUnreadable, match=r"within 0\.2 s\. The scheduler tries again$"):
            await pods.group("team-a", "g", "node-1")


@pytest.mark.parametrize(("each", "is_read"), [(GROUP_BYTES // 8, True), (GROUP_BYTES // 8 + 1, False)])
async def test_of_a_group_no_more_is_read_than_a_node_runs(tmp_path: Path, each: int, is_read: bool) -> None:
    """Whoever may create pods may fill them, and have them name the node."""
    pod = '{"n":""}'
    text, asked = pod.replace('""', '"' + "x" * (each - len(pod)) + '"'), 0

    async def turn(_: Received, line: Line) -> None:
        nonlocal asked
        asked += 1
        line.say(page(text, following="" if asked == 8 and is_read else "more"))

    async with site(tmp_path, turn) as (_, pods):
        if is_read:
            assert len(await pods.group("team-a", "g", "node-1")) == 8
        else:
            with pytest.raises(PodsUnreadable, match=rf"expected at most {GROUP_BYTES} bytes, found more"):
                await pods.group("team-a", "g", "node-1")
        assert asked == 8


@pytest.mark.parametrize("group", ["", "a,b", "a b", "a=b", "-a", "a" * 64, "a!"])
async def test_what_cannot_be_a_group_has_no_pods(tmp_path: Path, group: str) -> None:
    async with site(tmp_path, always(page('{"n":1}'))) as (stand_in, pods):
        assert await pods.group("team-a", group, "node-1") == []
    assert stand_in.received == []


@pytest.mark.parametrize(
    ("code", "body", "match"),
    [
        (
            "403 Forbidden",
            status(403, "cannot list resource"),
            r"cannot list resource \(403\)\. The webhook needs a role",
        ),
        ("200 OK", b"[]", "expected a list, found none: "),
        ("200 OK", b"{}", "expected a list, found none: "),
        ("200 OK", b'{"metadata":{},"items":{}}', "expected a list, found none: "),
        ("200 OK", b'{"metadata":{},"items":[}', "expected a list, found none: "),
    ],
)
async def test_an_answer_that_is_no_list_is_told(tmp_path: Path, code: str, body: bytes, match: str) -> None:
    async with site(tmp_path, always(body, code)) as (_, pods):
        with pytest.raises(PodsUnreadable, match=rf"^list pods of group g on node node-1 in team-a: .*{match}"):
            await pods.group("team-a", "g", "node-1")
