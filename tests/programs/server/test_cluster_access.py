"""The reviews with an API server beside the state directory: pods are read there, and Events go there."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cluster.api.stand_in import Line, Received, Turn, kubeconfig, serving, status
from tests.pods import Manifest
from tests.programs.server.asgi import application, binding_review, posted
from tests.programs.server.conftest import EXAMPLE_STATE
from tests.programs.server.test_bindings import injected, to_node
from tests.programs.server.test_starting import serve
from webhook.cluster.files.state import DirectoryState
from webhook.programs.server.cluster_access import LiveCluster

UNKNOWN = "the topology of node nowhere is not known. Is the agent running there?"

pytestmark = pytest.mark.usefixtures("without_proxy")


def api_server(pod: bytes, code: str = "200 OK") -> Turn:
    async def turn(request: Received, line: Line) -> None:
        if request.method == "GET":
            line.say(pod, code)
        else:
            line.say(b"{}", "201 Created")

    return turn


async def play(turn: Turn, directory: Path) -> tuple[Manifest, list[Received], list[Manifest]]:
    """The response about one Binding, what the API server got, and the log."""
    async with serving(turn) as stand_in:
        live = LiveCluster(kubeconfig(directory / "kubeconfig", f"http://127.0.0.1:{stand_in.port}"), seconds=20)
        with (directory / "log").open("wb") as log:
            app = application(DirectoryState(EXAMPLE_STATE), log, live.pods, live)
            answer = await posted(app, binding_review(to_node("nowhere")), path="/mutate/bindings")
            await live.close()
    return answer.response, stand_in.received, [*map(json.loads, (directory / "log").read_bytes().splitlines())]


def test_a_pod_is_read_at_the_api_server_and_its_event_is_written_there(tmp_path: Path) -> None:
    pod = json.dumps(injected(0, 1, node="nowhere")).encode()
    response, received, _ = asyncio.run(play(api_server(pod), tmp_path))
    assert response["warnings"] == [f"GT314: pod ml-workloads/train: {UNKNOWN}"]
    read, written = received
    assert (read.method, read.target) == ("GET", "/api/v1/namespaces/ml-workloads/pods/train")
    assert read.headers["user-agent"].startswith("gpu-topology-webhook/")
    assert (written.method, written.target) == ("POST", "/apis/events.k8s.io/v1/namespaces/ml-workloads/events")
    event = json.loads(written.body)
    assert (event["type"], event["reason"]) == ("Warning", "NotResolved")
    assert event["note"] == f"GT314: pod ml-workloads/train: {UNKNOWN}"
    assert event["regarding"]["uid"] == "0a6f8d0e-0d5b-4b63-9a0e-3f8b0f7d9c11"


def test_a_pod_whose_managed_fields_are_nested_too_deep_is_read_like_any_other(tmp_path: Path) -> None:
    """The API server keeps what a client writes there: tests/control_plane/test_analyze.py."""
    pod = injected(0, 1, node="nowhere")
    pod["metadata"]["managedFields"] = [{"fieldsV1": "HERE"}]
    text = json.dumps(pod).replace('"HERE"', '{"f:a":' * 9000 + "{}" + "}" * 9000)
    response, _, _ = asyncio.run(play(api_server(text.encode()), tmp_path))
    assert response["warnings"] == [f"GT314: pod ml-workloads/train: {UNKNOWN}"]


@pytest.mark.parametrize("answer", [b"[" * 9000, b"[]"], ids=["no-end", "a-list"])
def test_an_answer_that_is_no_pod_refuses_the_binding(answer: bytes, tmp_path: Path) -> None:
    response, _, _ = asyncio.run(play(api_server(answer), tmp_path))
    assert response["allowed"] is False
    assert response["status"]["message"] == "get pod ml-workloads/train: expected a pod, found something else"


def test_an_api_server_that_does_not_know_the_webhook_refuses_the_binding_with_its_words(tmp_path: Path) -> None:
    forbidden = api_server(status(403, 'pods "train" is forbidden'), "403 Forbidden")
    response, _, lines = asyncio.run(play(forbidden, tmp_path))
    assert (response["allowed"], response["status"]["code"]) == (False, 503)
    assert 'pods "train" is forbidden (403)' in response["status"]["message"]
    (line,) = lines
    assert line["reason"] == "pod-unreadable"


@pytest.mark.parametrize("text", ["", "{", "kind: Config"])
def test_a_kubeconfig_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    code, said = serve("--self-signed", "--kubeconfig", tmp_path / "kubeconfig", state=EXAMPLE_STATE)
    assert code == 1
    assert f"gpu-topology: {tmp_path / 'kubeconfig'}" in said
