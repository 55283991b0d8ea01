"""Objects reach the API server as they were given: the client's models of them change nothing."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer
from typing import Any

import pytest

from tests.agent.looks import nowhere
from webhook.kube.client import ApiServer, connect

Requests = list[tuple[str, str, str, Any]]


@pytest.fixture
def requests() -> Requests:
    """Method, path, content type and body of each request, in their order."""
    return []


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests: Requests) -> Iterator[ApiServer]:
    """A connection at whose other end everything is noted."""
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)

    class Notes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append((self.command, self.path, self.headers["Content-Type"], body))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        do_PATCH = do_POST  # noqa: N815 - so http.server calls it

        def log_message(self, *_: object) -> None:
            pass

    with TCPServer(("127.0.0.1", 0), Notes) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(nowhere(f"http://127.0.0.1:{server.server_address[1]}")))
        connection = connect(kubeconfig, user_agent="test")
        yield connection
        connection.close()
        server.shutdown()
        thread.join()


def test_an_event_at_a_full_second_keeps_its_microseconds(api: ApiServer, requests: Requests) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "node-1.0", "namespace": "default"},
        "eventTime": "2026-11-20T21:51:20.000000Z",
        "unknown": {"field": 1},
    }
    api.create_event(event)
    ((method, path, _, body),) = requests
    assert (method, path) == ("POST", "/apis/events.k8s.io/v1/namespaces/default/events")
    assert body == event


def test_a_lease_is_applied_whoever_set_its_fields(api: ApiServer, requests: Requests) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "gpu-topology-node-1", "namespace": "ns"},
        "spec": {"renewTime": "2026-11-20T21:51:20.000000Z"},
    }
    api.apply_lease(lease, field_manager="tester")
    path = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/gpu-topology-node-1?fieldManager=tester&force=true"
    assert requests == [("PATCH", path, "application/apply-patch+yaml", lease)]


def test_a_config_map_is_applied_whoever_set_its_fields(api: ApiServer, requests: Requests) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}, "data": {}}
    api.apply_config_map(config_map, field_manager="tester")
    path = "/api/v1/namespaces/ns/configmaps/a?fieldManager=tester&force=true"
    assert requests == [("PATCH", path, "application/apply-patch+yaml", config_map)]
