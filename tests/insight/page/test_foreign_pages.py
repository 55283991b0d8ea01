"""Pages from elsewhere in the browser of the owner: what they can do with the page on this machine.

They know the token here, which they do not in life, so that each protection is tried without the others.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from tests.insight.page.browser import Browser, Programs, browser
from tests.insight.page.overviews import overview
from tests.insight.page.served import Served, served

FOREIGN, REBOUND = "attacker.example", "127.0.0.2"
DETAIL = "/detail?key=nodes/gpu-00-00"
TRY_ALL = """
const [target, token, done] = arguments;
const headers = {Authorization: `Bearer ${token}`};
const loaded = (element) => new Promise((resolve) => {
    element.onload = () => resolve('loaded'); element.onerror = () => resolve('refused');
    document.body.append(element);
});
const tries = {
    read: () => fetch(target + '/detail?key=nodes/gpu-00-00', {headers}).then((each) => each.text()),
    'read of the empty page': () => fetch(target + '/').then((each) => each.text()),
    stream: () => fetch(target + '/events', {headers}).then((each) => each.text()),
    events: () => new Promise((resolve, reject) => {
        const source = new EventSource(target + '/events');
        source.onmessage = (each) => resolve(each.data); source.onerror = () => { source.close(); reject(); };
    }),
    post: () => fetch(target + '/detail', {method: 'POST', headers, body: 'x'}).then((each) => each.text()),
    'simple post': async () => {
        const said = await fetch(target + '/events', {method: 'POST', mode: 'no-cors', body: 'x'});
        if (said.type === 'opaque') throw said.type;
        return said.text();
    },
    script: async () => {
        const made = document.createElement('script'); made.src = target + '/assets/page.js';
        if (await loaded(made) === 'refused') throw 'refused';
    },
    image: async () => {
        const made = document.createElement('img'); made.src = target + '/assets/icon.svg';
        if (await loaded(made) === 'refused') throw 'refused';
    },
    frame: async () => {
        const made = document.createElement('iframe'); made.src = target + `/#token=${token}`;
        await loaded(made);
        if (made.contentDocument === null) throw 'of another origin';
        return made.contentDocument.title;
    },
};
(async () => {
    const found = {};
    for (const [name, attempt] of Object.entries(tries)) {
        try { found[name] = `got ${String(await attempt()).slice(0, 40)}`; } catch { found[name] = 'nothing'; }
    }
    done(found);
})();
"""
NOTHING = dict.fromkeys(
    ("read", "read of the empty page", "stream", "events", "post", "simple post", "script", "image", "frame"), "nothing"
)


OWN = {
    "/assets/page.js": ("text/javascript", b"window.theirs = 1"),
    "/assets/icon.svg": ("image/svg+xml", b'<svg xmlns="http://www.w3.org/2000/svg"/>'),
    "/events": ("text/event-stream", b"data: x\n\n"),
}
"""What the attacker's own server says to the same requests, which its own pages may read."""


class Attacker(BaseHTTPRequestHandler):
    """A server of a page of its own. With the port of the owner's page it hands requests on, as after a rebinding."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/attack" or not self.server.hands_on:  # type: ignore[attr-defined]
            self._say(200, *OWN.get(self.path, ("text/html", b"<!doctype html><title>attack</title><body>")))
            return
        answer = httpx.get(
            f"http://127.0.0.1:{self.server.server_port}{self.path}",  # type: ignore[attr-defined]
            headers=dict(self.headers.items()),
            trust_env=False,
            timeout=30,
        )
        self._say(answer.status_code, "text/html", answer.content)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say(200, "text/plain", b"done")

    def _say(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def attacker(port: int = 0) -> Iterator[int]:
    """The port of the attacker; ``port`` is that of the owner's page if requests are handed on to it."""
    with ThreadingHTTPServer((REBOUND, port), Attacker) as server:
        server.daemon_threads, server.hands_on = True, bool(port)  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture(scope="module")
def victim(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser to which the attacker's name leads to the attacker, on this machine."""
    hosts = f"MAP {FOREIGN} {REBOUND}"
    with browser(programs, tmp_path_factory.mktemp("victim"), hosts=hosts) as found:
        found.driver.set_script_timeout(30)
        yield found


@pytest.fixture
def page() -> Iterator[Served]:
    with served(overview(2)) as found:
        yield found


def tried(window: Browser, page: Served, target: str) -> dict[str, str]:
    found: dict[str, str] = window.driver.execute_async_script(TRY_ALL, target, page.place.token)
    return found


@pytest.mark.parametrize("host", [FOREIGN, REBOUND])
def test_a_page_from_elsewhere_reads_frames_and_runs_nothing(victim: Browser, page: Served, host: str) -> None:
    target = f"http://127.0.0.1:{page.place.port}"
    with attacker() as port:
        victim.open(f"http://{host}:{port}/attack")
        assert tried(victim, page, target) == NOTHING
        assert tried(victim, page, target.replace("127.0.0.1", "localhost")) == NOTHING
    assert page.feed.listeners == 0


def test_of_its_own_server_the_same_page_reads_everything(victim: Browser, page: Served) -> None:
    with attacker() as port:
        victim.open(f"http://{FOREIGN}:{port}/attack")
        found = tried(victim, page, f"http://{FOREIGN}:{port}")
    assert {name for name, said in found.items() if said.startswith("got ")} == NOTHING.keys()


def test_a_name_that_was_rebound_to_this_machine_reads_nothing(victim: Browser, page: Served) -> None:
    read = """const [token, done] = arguments;
        const headers = {Authorization: `Bearer ${token}`};
        const said = (path) => fetch(path, {headers}).then(async (each) => [each.status, await each.text()]);
        Promise.all(['/', '/detail?key=nodes/gpu-00-00'].map(said)).then(done);"""
    with attacker(page.place.port) as port:
        assert port == page.place.port
        victim.open(f"http://{FOREIGN}:{port}/attack")
        assert victim.driver.execute_async_script(read, page.place.token) == [[421, ""], [421, ""]]
        owner = {"Authorization": f"Bearer {page.place.token}", "Host": f"localhost:{port}"}
        answer = httpx.get(f"http://{REBOUND}:{port}{DETAIL}", headers=owner, trust_env=False, timeout=30)
        assert (answer.status_code, "gpu-00-00" in answer.text) == (200, True), "the way there is open"


def test_a_page_that_was_opened_by_another_is_out_of_its_reach(victim: Browser, page: Served) -> None:
    with attacker() as port:
        victim.open(f"http://{FOREIGN}:{port}/attack")
        victim.run("window.other = window.open(arguments[0])", page.place.url)
        opener = victim.driver.current_window_handle
        other = victim.until(
            lambda: next((each for each in victim.driver.window_handles if each != opener), None), "no window"
        )
        victim.driver.switch_to.window(other)
        try:
            victim.live()
            assert victim.run("return window.opener") is None
        finally:
            victim.driver.close()
            victim.driver.switch_to.window(opener)
        assert victim.run("return window.other.closed") is True, "the opener has no handle of it"


def test_the_page_itself_reads_what_others_do_not(victim: Browser, page: Served) -> None:
    victim.open(page.place.url)
    victim.live()
    read = """const [path, token, done] = arguments;
        fetch(path, {headers: {Authorization: `Bearer ${token}`}}).then((each) => each.text()).then(done);"""
    assert "gpu-00-00" in victim.driver.execute_async_script(read, DETAIL, page.place.token)
    assert page.feed.listeners == 1
