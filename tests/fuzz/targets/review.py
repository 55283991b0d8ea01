"""Reviews of pods, from the bytes of a request to those of the answer."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import jsonpatch
import msgspec

from tests.fuzz import effort, permissions
from tests.fuzz.laws import REPLY_LIMIT, check_log_line, check_message
from tests.fuzz.scenes import Manifest, Scene, example_pods, golden_scenes, kept_log, pod_review, read_scene, written
from webhook.model.envelope import MalformedReview
from webhook.model.outcome import MAX_WARNINGS
from webhook.server.counts import Counts
from webhook.server.pods import PodReviews
from webhook.server.reviews import BadRequest

FIXED_CALLS, CALLS_EACH = 15_000, 4.0
"""The seeds take up to 10,000 calls where nothing is remembered yet, and 1,500 afterwards."""


def seeds() -> Iterator[bytes]:
    """Golden cases before and after admission, and the examples."""
    for scene in golden_scenes():
        pod = scene.pop("pod")
        yield written(scene | {"review": pod_review(pod)})
    for pod in example_pods():
        yield written({"namespace": {"labels": {"gpu.topology/injection": "enabled"}}, "review": pod_review(pod)})
    yield written(pod_review({"metadata": {}, "spec": {"containers": []}}))


def target(data: bytes) -> None:
    """Fails where an answer breaks a law."""
    scene = read_scene(data)
    reply = effort.sampled(scene.body, fixed=FIXED_CALLS, each=CALLS_EACH, work=lambda: answer(scene, scene.body))
    if reply is not None:
        check_reply(scene, reply)


def answer(scene: Scene, body: bytes) -> bytes | None:
    """The answer; ``None`` if the request is refused as none that can be answered."""
    with kept_log() as (log, lines):
        reviews = PodReviews(state=scene, policy=scene.rules, log=log, counts=Counts(lambda: 0))
        try:
            found = reviews.answer(body, 0)
        except (MalformedReview, BadRequest) as error:
            check_message(str(error))
            return None
        assert isinstance(found, bytes)
        for line in lines():
            check_log_line(line)
        return found


def check_reply(scene: Scene, reply: bytes) -> None:
    """The laws of answers."""
    try:
        request: Manifest = msgspec.json.decode(scene.body)["request"]
    except UnicodeDecodeError:
        return  # texts that we do not read are not decoded: whether they are UTF-8 is for the API server
    response = json.loads(reply)["response"]
    assert response["uid"] == request["uid"]
    patch = base64.b64decode(response.get("patch", ""))
    assert len(reply) <= REPLY_LIMIT, f"a reply of {len(reply)} bytes"
    warnings = response.get("warnings", [])
    assert len(warnings) <= MAX_WARNINGS
    assert all(len(warning) < 120 for warning in warnings)
    if not response["allowed"]:
        assert not patch
        assert response["auditAnnotations"]["reason"]
        check_message(response["status"]["message"])
        return
    if request.get("operation") == "CREATE":
        check_pod(scene, request, json.loads(patch or b"[]"), ours="profile" in response["auditAnnotations"])


def check_pod(scene: Scene, request: Manifest, operations: list[Manifest], *, ours: bool) -> None:
    """The laws of a pod that is let in, and of one that a profile was applied to."""
    before = request["object"]
    permissions.check_operations(operations)
    after: Manifest = jsonpatch.apply_patch(before, operations)
    again = decided(scene, request, after)
    assert again is not None, "a second admission that refuses"
    assert again == [], f"a second admission that adds {again[:3]}"
    labels = scene.of.labels
    if ours:
        permissions.check_permissions(before, after, labels)
        permissions.check_injected(after, labels)
    if labels.get("gpu.topology/injection") == "enabled":
        forged = permissions.with_other_outputs(before)
        expected = decided(scene, request, forged)
        assert expected is not None, "a pod that is refused for what it says in our outputs"
        found, ours_alone = permissions.outputs(after), permissions.outputs(jsonpatch.apply_patch(forged, expected))
        assert found == ours_alone, f"outputs that follow from what a user wrote: {found}, {ours_alone}"


def decided(scene: Scene, request: Manifest, pod: Any) -> list[Manifest] | None:
    """The patch for another pod in the place of that of a request; ``None`` if it is refused."""
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | {"object": pod}}
    reply = answer(scene, msgspec.json.encode(review))
    assert reply is not None, "a pod that was readable and is not any more"
    response = json.loads(reply)["response"]
    if not response["allowed"]:
        check_message(response["status"]["message"] or "-")
        return None
    found: list[Manifest] = json.loads(base64.b64decode(response.get("patch", "")) or b"[]")
    return found
