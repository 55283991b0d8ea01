"""The program itself, asked over real TLS."""

import base64
import json
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from pathlib import Path

import httpx
import pytest

from certs.certificate import issue
from tests.pods import container, pod
from tests.programs.server.asgi import UID, review
from tests.programs.server.conftest import DEADLINE_S, NO_TLS, RunningServer, StartServer, until
from webhook import __version__


def test_a_review_is_answered(client: httpx.Client) -> None:
    answer = client.post("/mutate/pods", content=review(pod()))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    response = answer.json()["response"]
    assert response["uid"] == UID
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"], validate=True))[0]["op"] == "add"


def test_a_timeout_in_the_query_is_passed_over(client: httpx.Client) -> None:
    assert client.post("/mutate/pods?timeout=5s", content=review(pod())).status_code == 200


def test_the_content_type_does_not_matter(client: httpx.Client) -> None:
    headers = {"content-type": "text/plain"}
    assert client.post("/mutate/pods", content=review(pod()), headers=headers).status_code == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"kind": "Pod"}', b"\xff"])
def test_a_malformed_review_is_400_with_the_reason(client: httpx.Client, body: bytes) -> None:
    answer = client.post("/mutate/pods", content=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text.startswith("request body: expected ")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_another_method_is_405(client: httpx.Client, method: str) -> None:
    answer = client.request(method, "/mutate/pods")
    assert answer.status_code == 405
    assert answer.text == f"/mutate/pods: expected POST, found {method}"


@pytest.mark.parametrize("path", ["/", "/mutate", "/mutate/pods/", "/mutate/nodes", "/docs", "/openapi.json/x"])
def test_an_unknown_path_is_404(client: httpx.Client, path: str) -> None:
    assert client.post(path, content=review(pod())).status_code == 404


def test_one_connection_serves_many_reviews(example_server: RunningServer) -> None:
    connection = HTTPSConnection("127.0.0.1", example_server.port, context=example_server.context())
    connection.connect()
    first = connection.sock
    for _ in range(20):
        connection.request("POST", "/mutate/pods", body=review(pod()))
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read()
        assert connection.sock is first
    connection.close()


def test_a_rejected_review_does_not_end_the_connection(example_server: RunningServer) -> None:
    connection = HTTPSConnection("127.0.0.1", example_server.port, context=example_server.context())
    for body, status in ((b"{", 400), (review(pod()), 200)):
        connection.request("POST", "/mutate/pods", body=body)
        answer = connection.getresponse()
        assert answer.status == status
        answer.read()
        assert connection.sock is not None
    connection.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_of_today_is_spoken(example_server: RunningServer, version: ssl.TLSVersion) -> None:
    context = example_server.context()
    context.minimum_version = context.maximum_version = version
    with httpx.Client(verify=context, base_url=example_server.url, timeout=DEADLINE_S, trust_env=False) as client:
        assert client.post("/mutate/pods", content=review(pod())).status_code == 200


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_tls_1_1_is_declined_by_the_server(example_server: RunningServer) -> None:
    context = example_server.context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    connection = HTTPSConnection("127.0.0.1", example_server.port, context=context)
    with pytest.raises(ssl.SSLError, match=r"PROTOCOL_VERSION|EOF"):
        connection.connect()
    connection.close()


def test_a_client_that_does_not_trust_the_authority_is_not_served(example_server: RunningServer) -> None:
    connection = HTTPSConnection("127.0.0.1", example_server.port, context=ssl.create_default_context())
    with pytest.raises(ssl.SSLCertVerificationError, match="CERTIFICATE_VERIFY_FAILED"):
        connection.connect()
    connection.close()


def test_plain_http_on_the_tls_port_gets_no_answer(example_server: RunningServer) -> None:
    with pytest.raises(httpx.TransportError, match=r"."):
        httpx.get(f"http://127.0.0.1:{example_server.port}/mutate/pods", verify=NO_TLS, trust_env=False)


def test_health_and_readiness_are_answered_in_the_clear(example_server: RunningServer) -> None:
    health = example_server.probe("/healthz")
    assert (health.status_code, health.json()) == (200, {"status": "ok", "version": __version__})
    ready = example_server.probe("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})


@pytest.mark.parametrize("path", ["/mutate/pods", "/mutate/bindings", "/docs", "/redoc", "/openapi.json"])
def test_the_plain_port_answers_nothing_but_probes_and_metrics(example_server: RunningServer, path: str) -> None:
    url = f"http://127.0.0.1:{example_server.ops_port}{path}"
    assert httpx.post(url, content=review(pod()), verify=NO_TLS, trust_env=False).status_code == 404
    assert httpx.get(url, verify=NO_TLS, trust_env=False).status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/docs", "/redoc", "/openapi.json"])
def test_the_tls_port_answers_nothing_but_reviews(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 404
    assert client.post(path, content=review(pod())).status_code == 404


def pieces(number: int) -> Iterator[bytes]:
    for _ in range(number):
        yield b" " * 1024


def test_a_body_over_the_limit_is_413_by_its_length_and_by_its_pieces(start_server: StartServer) -> None:
    with start_server(config="server: {maxReviewBytes: 4096}").client() as client:
        answer = client.post("/mutate/pods", content=b" " * 4097)
        assert answer.status_code == 413
        assert answer.text == "request body: expected at most 4096 bytes (server.maxReviewBytes), found more"
        assert client.post("/mutate/pods", content=pieces(5)).status_code == 413
        for fits in (b" " * 4096, pieces(4)):
            assert client.post("/mutate/pods", content=fits).status_code == 400
        assert client.post("/mutate/pods", content=review(pod())).status_code == 200


def test_a_big_review_below_the_limit_is_answered(client: httpx.Client) -> None:
    big = pod(annotations={"example.com/blob": "x" * 1_000_000})
    assert client.post("/mutate/pods", content=review(big)).json()["response"]["patchType"] == "JSONPatch"


def test_each_answer_is_a_line_of_the_log_and_counted_at_the_plain_port(start_server: StartServer) -> None:
    server = start_server()
    with server.client() as client:
        assert client.post("/mutate/pods", content=review(pod())).status_code == 200
        assert client.post("/mutate/pods", content=review(pod(container(gpus=None)))).status_code == 200
        assert client.post("/mutate/pods", content=b"{").status_code == 400
    until(lambda: len(server.lines("admission", "rejected")) == 3, "three lines")
    injected, skipped, rejected = server.lines("admission", "rejected")
    assert (injected["outcome"], injected["reason"], injected["profile"]) == ("patch", "injected", "exclusive")
    assert (skipped["outcome"], skipped["reason"]) == ("skip", "no-gpu-request")
    assert (rejected["message"], rejected["status"]) == ("rejected", 400)
    metrics = server.probe("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=")
    counted = 'gpu_topology_admissions_total{outcome="patch",profile="exclusive",reason="injected"} 1.0'
    assert counted in metrics.text.splitlines()
    assert server.lines("library") == []
    assert server.err.read_text() == ""


def test_metrics_tell_when_the_certificates_end_and_which_versions_are_known(example_server: RunningServer) -> None:
    lines = example_server.probe("/metrics").text.splitlines()
    assert "gpu_topology_webhook_ready 1.0" in lines
    assert f'gpu_topology_webhook_build_info{{version="{__version__}"}} 1.0' in lines
    assert 'gpu_topology_cluster_info{hami="2.9.0",kubernetes="1.33.2"} 1.0' in lines
    name = "gpu_topology_certificate_expiry_timestamp_seconds"
    ends = {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith(f"{name}{{")}
    assert ends.keys() == {f'{name}{{certificate="serving"}}', f'{name}{{certificate="authority"}}'}
    assert all(29 < (end - time.time()) / 86400 < 31 for end in ends.values())


def test_where_it_listens_is_a_line_of_the_log(example_server: RunningServer) -> None:
    until(lambda: example_server.lines("started") != [], "the line")
    (started,) = example_server.lines("started")
    assert started["reviews"] == example_server.url
    assert started["probes"] == f"http://127.0.0.1:{example_server.ops_port}"


def test_with_an_authority_of_clients_only_they_are_served(start_server: StartServer, tmp_path: Path) -> None:
    ours = issue(["kube-apiserver"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    file = tmp_path / "clients.pem"
    file.write_bytes(ours.authority)
    server = start_server(config=f"server: {{clientAuthority: {file}}}")
    with (
        server.client() as client,
        pytest.raises(httpx.TransportError, match=r"(?i)certificate required|eof|reset|disconnected"),
    ):
        client.post("/mutate/pods", content=review(pod()))
    assert server.probe("/readyz").status_code == 200
