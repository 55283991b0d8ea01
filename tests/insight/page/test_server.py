"""Who gets an answer from the page's server, and what it says to whom."""

import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.insight.page.overviews import overview
from tests.insight.page.served import Served, served
from webhook.insight.page.markup import ASSETS
from webhook.insight.page.server import LIMITS, find_place
from webhook.words.errors import GpuTopologyError

DETAIL = "/detail?key=nodes/gpu-00-00"


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


def test_the_owner_gets_answers_and_only_what_is_new(client: httpx.Client) -> None:
    assert "GPUs of node gpu-00-00" in client.get(DETAIL).text
    first = client.get("/overview")
    assert "gpu-00-00" in first.text
    known = {"If-None-Match": first.headers["ETag"]}
    again = client.get("/overview", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    filtered = client.get("/overview?q=gpu-00-01", headers=known)
    assert (filtered.status_code, "gpu-00-00" in filtered.text) == (200, False)


def test_before_the_cluster_is_known_there_are_no_contents() -> None:
    with served() as page:
        headers = {"Authorization": f"Bearer {page.place.token}"}
        url = f"http://127.0.0.1:{page.place.port}"
        answers = [httpx.get(f"{url}{path}", headers=headers, trust_env=False) for path in ("/overview", DETAIL)]
    assert [each.status_code for each in answers] == [204, 404]


@pytest.mark.parametrize("path", [DETAIL, "/overview", "/no-such", "/docs", "/openapi.json"])
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
@pytest.mark.parametrize("path", ["/", "/overview"])
def test_it_can_only_be_read(client: httpx.Client, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize("sites", [["cross-site"], ["same-site"], ["same-origin", "cross-site"]])
def test_a_page_from_elsewhere_is_refused_although_it_has_the_token(client: httpx.Client, sites: list[str]) -> None:
    assert client.get(DETAIL, headers=[("Sec-Fetch-Site", site) for site in sites]).status_code == 403
    assert client.get(DETAIL, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_every_answer_forbids_what_a_page_could_be_misused_for(client: httpx.Client) -> None:
    for path in ("/", "/assets/page.js", DETAIL, "/overview", "/no-such"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert (headers["x-frame-options"], headers["referrer-policy"]) == ("DENY", "no-referrer")
        assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
        same = ("cross-origin-opener-policy", "cross-origin-resource-policy")
        assert {headers[name] for name in same} == {"same-origin"}
        assert not [name for name in headers if name.startswith("access-control")]


def test_what_needs_no_token_says_nothing_of_the_cluster(client: httpx.Client) -> None:
    for path in ("/", *(f"/assets/{name}" for name in ASSETS)):
        answer = client.get(path, headers={"Authorization": ""})
        assert answer.status_code == 200
        assert "gpu-00" not in answer.text


def test_what_is_not_there_is_not_found_and_not_repeated(client: httpx.Client) -> None:
    for path in ("/detail", "/detail?key=<b>", "/no-such<b>", "/assets/..%2f..%2fpyproject.toml"):
        answer = client.get(path)
        assert answer.status_code in (403, 404)
        assert "<b>" not in answer.text


def test_it_is_not_to_be_reached_from_another_address(page: Served) -> None:
    assert page.place.bound.getsockname()[0] == "127.0.0.1"
    with socket.socket() as other, pytest.raises(OSError, match=r"."):
        other.connect(("127.0.0.2", page.place.port))


def test_a_port_that_is_taken_is_an_error_with_a_fix(page: Served) -> None:
    with pytest.raises(
        GpuTopologyError, match=r"cannot listen on 127\.0\.0\.1 port \d+: .*Choose another one with --port"
    ):
        find_place(page.place.port)


def test_connections_that_ask_nothing_do_not_keep_the_owner_out(page: Served, client: httpx.Client) -> None:
    idle = [socket.create_connection(("127.0.0.1", page.place.port), timeout=30) for _ in range(2 * LIMITS.connections)]
    try:
        for each in idle[::2]:
            each.sendall(b"GET / HTTP/1.1\r\nHo")
        assert client.get(DETAIL).status_code == 200
    finally:
        for each in idle:
            each.close()
