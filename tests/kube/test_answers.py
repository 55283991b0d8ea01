"""What is no answer of an API server, such as the page of a proxy in between, is taken for its absence."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer

import pytest

from tests.agent.looks import nowhere
from webhook.kube.client import ApiServer, connect
from webhook.kube.errors import ApiServerAway

Proxy = Callable[[bytes], ApiServer]


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """Answers everything with the same page."""
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    pages: list[bytes] = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(pages[0])

        def log_message(self, *_: object) -> None:
            pass

    with TCPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(nowhere(f"http://127.0.0.1:{server.server_address[1]}")))
        api = connect(kubeconfig, user_agent="test")

        def answering(page: bytes) -> ApiServer:
            pages.append(page)
            return api

        yield answering
        api.close()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("page", [b"", b"<html>", b"[]", b"null", b"{", b"\xff"])
def test_a_page_that_is_no_object_is_no_answer(proxy: Proxy, page: bytes) -> None:
    with pytest.raises(ApiServerAway, match=r"get node a: expected an object from the API server, found "):
        proxy(page).node("a")


def test_an_object_is_given_as_it_was_sent(proxy: Proxy) -> None:
    assert proxy(b'{"kind": "Node", "unknown": {"field": 1}}').node("a") == {"kind": "Node", "unknown": {"field": 1}}
