"""Who gets an answer from the page's server, and what it says to whom."""

import asyncio
import gc
import logging
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext

import anyio
import httpx
import msgspec
import pytest

from tests.insight.page.overviews import overview
from tests.insight.page.served import LIVE, Served, served
from tests.programs.server.conftest import until
from webhook.insight.overview.model import Overview
from webhook.insight.page.document import ASSETS
from webhook.insight.page.feed import MOST_LISTENERS
from webhook.insight.page.guard import Message, Receive, Scope, Send
from webhook.insight.page.server import LIMITS, find_place, silent_about_those_who_left
from webhook.words.errors import GpuTopologyError


@pytest.fixture(scope="module")
def page() -> Iterator[Served]:
    with served(overview(2)) as found:
        yield found


@pytest.fixture
def client(page: Served) -> Iterator[httpx.Client]:
    """The owner's requests."""
    headers = {"Authorization": f"Bearer {page.place.token}"}
    with httpx.Client(
        base_url=f"http://127.0.0.1:{page.place.port}", headers=headers, timeout=30, trust_env=False
    ) as found:
        yield found


DETAIL = "/detail?key=nodes/gpu-00-00"


def test_the_owner_gets_answers(client: httpx.Client) -> None:
    answer = client.get(DETAIL)
    assert answer.status_code == 200
    assert "Cards of node gpu-00-00" in answer.text
    with client.stream("GET", "/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert next(stream.iter_lines()).startswith('data: {"whole":true,')


@pytest.mark.parametrize("path", [DETAIL, "/events", "/no-such", "/docs", "/openapi.json"])
@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer wrong", "Basic {token}", "bearer {token}", "{token}"])
def test_without_the_token_nothing_of_the_cluster_is_told(
    client: httpx.Client, page: Served, path: str, authorization: str
) -> None:
    said = authorization.format(token=page.place.token)
    answer = client.get(path, headers={"Authorization": said})
    assert (answer.status_code, answer.content) == (403, b"")


def test_a_token_in_the_query_or_in_a_cookie_does_not_count(client: httpx.Client, page: Served) -> None:
    token = page.place.token
    headers = {"Authorization": "", "Cookie": f"token={token}"}
    assert client.get(f"{DETAIL}&token={token}", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "host", ["example.com", "example.com:{port}", "127.0.0.1", "localhost:1", "", "127.0.0.1.:{port}"]
)
@pytest.mark.parametrize("path", ["/", DETAIL])
def test_under_another_name_there_is_no_answer(client: httpx.Client, page: Served, host: str, path: str) -> None:
    answer = client.get(path, headers={"Host": host.format(port=page.place.port)})
    assert answer.status_code in (400, 421)
    assert "gpu" not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/events"])
def test_it_can_only_be_read(client: httpx.Client, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


def test_two_marks_of_where_a_request_comes_from_are_refused_if_one_is_elsewhere(client: httpx.Client) -> None:
    headers = [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")]
    assert client.get(DETAIL, headers=headers).status_code == 403
    assert client.get(DETAIL, headers=headers[:1]).status_code == 200


@pytest.mark.parametrize("path", ["/?lang=<b>", "/events?lang=<b>", "/detail", "/detail?key={long}"])
def test_an_answer_to_a_wrong_parameter_does_not_repeat_it(client: httpx.Client, path: str) -> None:
    answer = client.get(path.format(long="x" * 2000))
    assert (answer.status_code, answer.content) == (400, b"")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_from_elsewhere_is_refused_although_it_has_the_token(client: httpx.Client, site: str) -> None:
    assert client.get(DETAIL, headers={"Sec-Fetch-Site": site}).status_code == 403


def test_every_answer_forbids_what_a_page_could_be_misused_for(client: httpx.Client) -> None:
    for path in ("/", "/assets/page.js", DETAIL, "/no-such"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert "require-trusted-types-for 'script'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert (headers["x-frame-options"], headers["referrer-policy"]) == ("DENY", "no-referrer")
        assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
        assert not [name for name in headers if name.startswith("access-control")]


def test_what_needs_no_token_says_nothing_of_the_cluster(client: httpx.Client) -> None:
    for path in ("/", *(f"/assets/{name}" for name in ASSETS)):
        answer = client.get(path, headers={"Authorization": ""})
        assert answer.status_code == 200
        assert "gpu-00" not in answer.text
    assert "<script>" not in client.get("/").text


@pytest.mark.parametrize(
    ("accepted", "language"),
    [("zh-CN,zh;q=0.9,en;q=0.8", "zh"), ("en-US,en;q=0.9,zh;q=0.8", "en"), ("de", "en"), ("", "en"), ("zh;q=x", "en")],
)
def test_the_language_is_the_one_that_the_browser_likes_best(
    client: httpx.Client, accepted: str, language: str
) -> None:
    assert f'<html lang="{language}"' in client.get("/", headers={"Accept-Language": accepted}).text
    assert '<html lang="zh"' in client.get("/?lang=zh", headers={"Accept-Language": accepted}).text


@pytest.mark.parametrize(
    "key", ["nodes/no-such", "pods/no-such/no-such", "", "nodes", "../etc/passwd", "assets/page.js"]
)
def test_what_is_not_known_is_not_found(client: httpx.Client, key: str) -> None:
    assert client.get("/detail", params={"key": key}).status_code == 404


def test_a_question_is_bounded(client: httpx.Client) -> None:
    assert client.get("/detail", params={"key": "x" * 2000}).status_code == 400
    assert client.get("/assets/..%2f..%2fpyproject.toml").status_code in (403, 404)


def test_it_is_not_to_be_reached_from_another_address(page: Served) -> None:
    assert page.place.bound.getsockname()[0] == "127.0.0.1"
    with socket.socket() as other, pytest.raises(OSError, match=r"."):
        other.connect(("127.0.0.2", page.place.port))


def test_a_port_that_is_taken_is_an_error_with_a_fix(page: Served) -> None:
    with pytest.raises(
        GpuTopologyError, match=r"cannot listen on 127\.0\.0\.1 port \d+: .*Choose another one with --port"
    ):
        find_place(page.place.port)


def test_so_many_pages_follow_at_a_time_and_no_more(client: httpx.Client) -> None:
    streams = []
    try:
        for _ in range(MOST_LISTENERS):
            request = client.build_request("GET", "/events")
            stream = client.send(request, stream=True)
            assert stream.status_code == 200
            streams.append(stream)
        assert client.get("/events").status_code == 503
    finally:
        for stream in streams:
            stream.close()


def test_the_end_of_the_server_ends_a_stream() -> None:
    with served(overview(2)) as page:
        headers = {"Authorization": f"Bearer {page.place.token}"}
        url = f"http://127.0.0.1:{page.place.port}/events"
        with httpx.stream("GET", url, headers=headers, timeout=30, trust_env=False) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("data:")
            page.stop()
            assert [line for line in lines if line.startswith("data:")] == []


def test_a_listener_that_comes_late_hears_the_newest_alone() -> None:
    with served(overview(2)) as page:
        for number in range(3, 6):
            page.tell(overview(number), LIVE)
        headers = {"Authorization": f"Bearer {page.place.token}"}
        url = f"http://127.0.0.1:{page.place.port}/events"
        with httpx.stream("GET", url, headers=headers, timeout=30, trust_env=False) as stream:
            first = next(stream.iter_lines())
    assert first.count('"data-key":"nodes/gpu-') == 5


def connected(page: Served, said: bytes = b"") -> socket.socket:
    found = socket.create_connection(("127.0.0.1", page.place.port), timeout=30)
    found.sendall(said)
    return found


def test_connections_that_ask_nothing_do_not_keep_the_owner_out(page: Served, client: httpx.Client) -> None:
    idle = [connected(page, b"GET / HTTP/1.1\r\nHo" if number % 2 else b"") for number in range(2 * LIMITS.connections)]
    try:
        assert client.get(DETAIL).status_code == 200
    finally:
        for each in idle:
            each.close()


def test_connections_that_ask_nothing_do_not_end_what_the_owner_follows(page: Served, client: httpx.Client) -> None:
    with client.stream("GET", "/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("data:")
        idle = [connected(page) for _ in range(2 * LIMITS.connections)]
        try:
            page.tell(overview(3))
            assert next(line for line in lines if line.startswith("data:"))
        finally:
            for each in idle:
                each.close()


@contextmanager
def following(page: Served, number: int) -> Iterator[None]:
    """So many pages that follow and read nothing: the kernel keeps what it has room for."""
    said = (
        f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{page.place.port}\r\nAuthorization: Bearer {page.place.token}\r\n\r\n"
    )
    with ExitStack() as stack:
        for _ in range(number):
            stack.enter_context(connected(page, said.encode()))
        until(lambda: page.feed.listeners == number, "pages that follow")
        yield


def held_after(page: Served, updates: int) -> int:
    """Bytes that are allocated after so many updates of everything, beyond those before."""
    tracemalloc.start()
    try:
        for number in range(updates):
            page.tell(renamed(number))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def renamed(number: int) -> Overview:
    """A cluster in which everything has another name than before."""
    found = overview(60)
    nodes = (msgspec.structs.replace(node, name=f"{node.name}-{number}") for node in found.nodes)
    return msgspec.structs.replace(found, nodes=tuple(nodes))


@pytest.mark.long
def test_pages_that_read_nothing_hold_a_picture_or_two_each_however_much_changes() -> None:
    with served(renamed(0)) as page, following(page, MOST_LISTENERS - 1):
        few, many = held_after(page, 3), held_after(page, 15)
        assert many < 2 * few
        headers = {"Authorization": f"Bearer {page.place.token}"}
        url = f"http://127.0.0.1:{page.place.port}"
        with httpx.stream("GET", f"{url}/events", headers=headers, timeout=30, trust_env=False) as stream:
            assert "gpu-00-00-14" in next(stream.iter_lines()), "who reads is told the newest"
        answer = httpx.get(f"{url}/detail?key=nodes/gpu-00-00-14", headers=headers, timeout=30, trust_env=False)
        assert answer.status_code == 200


def test_headers_without_end_are_refused(page: Served) -> None:
    line = b"X-Long: " + b"x" * 60_000 + b"\r\n"
    with (
        connected(page, b"GET / HTTP/1.1\r\n") as endless,
        pytest.raises(OSError, match=r"reset|[Bb]roken pipe"),
    ):
        endless.sendall(line * 1000)


def test_what_is_no_request_is_refused_and_other_servers_of_the_process_log_as_before(page: Served) -> None:
    with connected(page, b"this is no request\r\n\r\n") as sent:
        answer = b"".join(iter(lambda: sent.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert logging.getLogger("uvicorn.error").level != logging.ERROR


def test_pages_that_read_nothing_are_not_logged_when_they_leave(caplog: pytest.LogCaptureFixture) -> None:
    with served(renamed(0)) as page:
        with following(page, MOST_LISTENERS):
            for number in range(4):
                page.tell(renamed(number))
        until(lambda: page.feed.listeners == 0, "the end of all streams")
        page.tell(renamed(5))
        headers = {"Authorization": f"Bearer {page.place.token}"}
        url = f"http://127.0.0.1:{page.place.port}/events"
        with httpx.stream("GET", url, headers=headers, timeout=30, trust_env=False) as stream:
            assert "gpu-00-00-5" in next(stream.iter_lines()), "the others are served"
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("leaves", [True, False])
def test_only_the_end_of_a_stream_whose_client_left_is_silent(*, leaves: bool) -> None:
    async def application(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        raise ExceptionGroup("a stream", [anyio.BrokenResourceError()])

    async def receive() -> Message:
        return {"type": "http.disconnect" if leaves else "http.request"}

    async def send(_message: Message) -> None:
        raise AssertionError

    answer = silent_about_those_who_left(application)({"type": "http"}, receive, send)
    with nullcontext() if leaves else pytest.raises(ExceptionGroup, match="a stream"):
        asyncio.run(answer)  # type: ignore[arg-type]


def test_a_connection_that_was_refused_ends(page: Served) -> None:
    with connected(page, b"GET /events HTTP/1.1\r\nHost: example.com\r\nContent-Length: 9999999\r\n\r\n") as refused:
        answer = b"".join(iter(lambda: refused.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 421 ")
