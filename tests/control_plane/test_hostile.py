"""Names that cannot be, at a real API server; and reviews that somebody else than the API server sends."""

import json
from typing import Any

import pytest
from kubernetes.client import ApiException, CoreV1Api, EventsV1Api

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import create_pod, created, gpu_container, gpu_pod
from tests.control_plane.scheduling import NODE, allocate, bind, bind_by_legacy_resource, stored
from tests.programs.server.asgi import binding_review
from tests.programs.server.conftest import RunningServer, until
from webhook.programs.log import LINE_LIMIT

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("h20_node")]

CONTROLS = "\x1b[31m\x85\x9b\u202e\u2066\u200b\u2028"


def logged(server: RunningServer) -> list[dict[str, Any]]:
    """What the server has logged: short lines of visible characters."""
    lines = server.out.read_bytes().splitlines()
    assert all(len(line) <= LINE_LIMIT and line.decode().isprintable() for line in lines)
    found = [json.loads(line) for line in lines]
    assert all(text.isprintable() for line in found for text in line.values() if isinstance(text, str))
    return found


@pytest.mark.parametrize("name", [CONTROLS, "a" * 1_000_000], ids=["controls", "long"])
def test_an_impossible_name_of_a_pod_is_refused_by_the_api_server_in_its_own_words(
    control_plane: ControlPlane, namespace: str, webhook: RunningServer, name: str
) -> None:
    before = len(logged(webhook))
    answer = create_pod(control_plane, namespace, gpu_pod(name, {}))
    assert answer.status == 422
    assert "metadata.name: Invalid value" in answer.message
    assert [line["reason"] for line in logged(webhook)[before:]] == ["injected", "already-injected"]


def test_a_generated_name_is_empty_when_we_are_asked(
    control_plane: ControlPlane, namespace: str, webhook: RunningServer
) -> None:
    pod = gpu_pod("", {})
    pod["metadata"] |= {"generateName": f"train-{CONTROLS}"}
    answer = create_pod(control_plane, namespace, pod)
    assert (answer.status, "metadata.generateName: Invalid value" in answer.message) == (422, True)
    pod["metadata"] |= {"generateName": "train-"}
    assert created(control_plane, namespace, pod)["metadata"]["name"].startswith("train-")
    assert logged(webhook)[-1]["name"] == "train-*"


def test_impossible_names_within_a_pod_are_refused_by_the_api_server_in_its_own_words(
    control_plane: ControlPlane, namespace: str, webhook: RunningServer
) -> None:
    container = gpu_container(f"worker{CONTROLS}")
    answer = create_pod(control_plane, namespace, gpu_pod("train", {f"team.example/{CONTROLS}": "x"}, container))
    assert answer.status == 422
    assert "metadata.annotations: Invalid value" in answer.message
    assert "spec.containers[0].name: Invalid value" in answer.message
    logged(webhook)


def test_forged_reviews_of_bindings_learn_nothing_and_make_no_event(
    admin: CoreV1Api, control_plane: ControlPlane, namespace: str, webhook: RunningServer
) -> None:
    created(control_plane, namespace, gpu_pod("train", {"gpu.topology/profile": "node-peers"}))
    allocate(admin, namespace, "train", (), (0, 1))
    text = "send money to https://evil.example"
    forged = [
        {"metadata": {"name": "train"}, "target": {"name": NODE}},
        {"metadata": {"name": "train"}, "target": {"name": text}},
        {"metadata": {"name": "train", "uid": text}, "target": {"name": NODE}},
        {"metadata": {"name": "train", "annotations": {"hami.io/vgpu-node": text}}, "target": {"name": NODE}},
    ]
    with webhook.client() as client:
        for binding in forged:
            body = binding_review(binding, namespace=namespace)
            response = client.post("/mutate/bindings", content=body).json()["response"]
            assert "patch" not in response
            assert "GPU-" not in json.dumps(response)
            assert NODE not in json.dumps(response)
    admin.patch_namespaced_pod("train", namespace, {"metadata": {"annotations": {"hami.io/vgpu-node": text}}})
    with pytest.raises(ApiException, match="was made for node send money"):  # to who may bind the pod
        bind(admin, namespace, "train")

    def notes() -> list[Any]:
        with control_plane.client() as client:
            return [event.note for event in EventsV1Api(client).list_namespaced_event(namespace).items]

    until(lambda: bool(notes()), "an Event on the pod")
    assert notes() == [f"GT303: pod {namespace}/train on node {NODE}: the allocation was made for another node"]
    logged(webhook)


def test_the_api_server_removes_the_uid_from_a_binding_of_the_legacy_resource(
    admin: CoreV1Api, control_plane: ControlPlane, namespace: str, webhook: RunningServer
) -> None:
    uid = created(control_plane, namespace, gpu_pod("train", {}))["metadata"]["uid"]
    allocate(admin, namespace, "train", (), (2, 5))
    bind_by_legacy_resource(admin, namespace, "train", uid=uid)
    node, annotations = stored(admin, namespace, "train")
    assert (node, "gpu.topology/link" in annotations) == (NODE, False)
    assert logged(webhook)[-1]["reason"] == "pod-not-named"
