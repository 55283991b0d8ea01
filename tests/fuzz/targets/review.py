"""Reviews of pods, from the bytes of a request to those of the answer."""

import asyncio
import json
from collections.abc import Awaitable, Iterator
from typing import Any

import jsonpatch
import msgspec

from tests.fuzz import effort, permissions
from tests.fuzz.laws import check_log_line, check_message, check_response, patch_of
from tests.fuzz.scenes import (
    Manifest,
    Scene,
    example_pods,
    golden_scenes,
    kept_log,
    peers,
    pod_review,
    read_scene,
    written,
)
from webhook.objects.envelope import MalformedReview
from webhook.programs.http.messages import BadRequest
from webhook.programs.server.counts import Counts
from webhook.programs.server.pods import PodReviews

FIXED_CALLS, CALLS_EACH = 150_000, 4.0
"""All variables that a namespace may ask for, in as many containers as are allowed, take 75,000 for 12 KiB."""


def seeds() -> Iterator[bytes]:
    """Golden cases before and after admission, the examples, and peers under each configuration."""
    for scene in golden_scenes():
        pod = scene.pop("pod")
        yield written(scene | {"review": pod_review(pod)})
    for pod in example_pods():
        yield written({"namespace": {"labels": {"gpu.topology/injection": "enabled"}}, "review": pod_review(pod)})
    for scene in peers():
        yield written(scene | {"review": pod_review(scene.pop("pod"))})
    yield written({"namespace": {"known": False}, "review": pod_review({"metadata": {}, "spec": {"containers": []}})})


def target(data: bytes) -> None:
    """Fails where an answer breaks a law."""
    scene = read_scene(data)
    reply = effort.sampled(scene.body, fixed=FIXED_CALLS, each=CALLS_EACH, work=lambda: answer(scene, scene.body))
    if reply is not None:
        check_reply(scene, reply)


def answer(scene: Scene, body: bytes) -> bytes | None:
    """The answer; ``None`` if the request is refused as none that can be answered."""
    with kept_log() as (log, lines):
        reviews = PodReviews(state=scene, claims=scene.claims, policy=scene.rules, log=log, counts=Counts(lambda: 0))
        try:
            found = reviews.answer(body, 0)
            reply = found if isinstance(found, bytes) else asyncio.run(_awaited(found))
        except (MalformedReview, BadRequest) as error:
            check_message(str(error))
            return None
        for line in lines():
            check_log_line(line)
        return reply


async def _awaited(reply: Awaitable[bytes]) -> bytes:
    return await reply


def check_reply(scene: Scene, reply: bytes) -> None:
    """The laws of answers."""
    allowed = check_response(scene.body, reply)
    if allowed is None:
        return
    request, answered = allowed
    if request.get("operation") == "CREATE":
        check_pod(scene, request, patch_of(answered), ours="profile" in answered["auditAnnotations"])


def check_pod(scene: Scene, request: Manifest, operations: list[Manifest], *, ours: bool) -> None:
    """The laws of a pod that is let in, and of one that a profile was applied to."""
    before = request["object"]
    permissions.check_operations(operations)
    after: Manifest = jsonpatch.apply_patch(before, operations)
    if not _is_read_by_an_api_server(after):
        return  # what is added can be what makes us read such fields, and no API server sends them
    again = response(scene, request, after)
    assert again["allowed"], "a second admission that refuses"
    assert patch_of(again) == [], f"a second admission that adds {patch_of(again)[:3]}"
    labels = scene.of.labels
    if ours:
        permissions.check_permissions(before, after, labels)
        permissions.check_injected(after, labels)
    if labels.get("gpu.topology/injection") == "enabled":
        _check_outputs(scene, request, permissions.outputs(after))


def _is_read_by_an_api_server(pod: Manifest) -> bool:
    """Whether containers, volumes and commands have the types that an API server decodes."""
    spec = pod.get("spec") or {}
    lists = [spec.get(field) or [] for field in ("initContainers", "containers", "volumes")]
    if not all(isinstance(each, list) and all(isinstance(entry, dict) for entry in each) for each in lists):
        return False
    containers = [*lists[0], *lists[1]]
    words = (container.get(field) or [] for container in containers for field in ("command", "args"))
    return all(isinstance(each, list) and all(isinstance(word, str) for word in each) for each in words)


def _check_outputs(scene: Scene, request: Manifest, found: Manifest) -> None:
    """What only we write does not depend on what a user wrote there."""
    forged = permissions.with_other_outputs(request["object"])
    answered = response(scene, request, forged)
    if not answered["allowed"]:  # putting a value right may be one operation too many
        assert answered["auditAnnotations"]["reason"] == "over-limit", "a pod that is refused for our outputs"
        return
    expected = permissions.outputs(jsonpatch.apply_patch(forged, patch_of(answered)))
    assert found == expected, f"outputs that follow from what a user wrote: {found}, {expected}"


def response(scene: Scene, request: Manifest, pod: Any) -> Manifest:
    """What is answered about another pod in the place of that of a request."""
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | {"object": pod}}
    reply = answer(scene, msgspec.json.encode(review))
    assert reply is not None, "a pod that was readable and is not any more"
    found: Manifest = json.loads(reply)["response"]
    return found
