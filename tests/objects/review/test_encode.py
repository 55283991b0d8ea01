"""The answer to a review, as the API server reads it."""

import base64
import json
from typing import Any

import pytest

from tests.judge import TEAM_A, judge
from tests.pods import container, pod
from webhook.objects.pod import Namespace
from webhook.objects.review import encode_reply
from webhook.words.outcome import Kind, Outcome, Reason, fit_all

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def answer(manifest: dict[str, Any], namespace: Namespace = TEAM_A) -> dict[str, Any]:
    outcome, _ = judge(manifest, namespace)
    reply = json.loads(encode_reply(UID, outcome))
    assert (reply["apiVersion"], reply["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert reply.keys() == {"apiVersion", "kind", "response"}
    return dict(reply["response"])


def test_a_skipped_pod_is_allowed_without_a_patch() -> None:
    assert answer(pod(container(gpus=None))) == {
        "uid": UID,
        "allowed": True,
        "auditAnnotations": {"outcome": "skip", "reason": "no-gpu-request"},
    }


def test_a_skipped_pod_keeps_its_warning() -> None:
    response = answer(pod(container(gpus=None), annotations={"gpu.topology/inject": "true"}))
    assert response["warnings"] == ["GT128: the pod asks for injection, but no container asks for a GPU"]
    assert "patch" not in response


def test_an_injected_pod_gets_its_patch_in_base64_with_its_type() -> None:
    response = answer(pod())
    assert response["uid"] == UID
    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"
    assert response["auditAnnotations"] == {"outcome": "patch", "reason": "injected", "profile": "exclusive"}
    operations = json.loads(base64.b64decode(response["patch"], validate=True))
    mark = {"gpu.topology/injected": "0.1.0 exclusive"}
    written: dict[str, str] = {}
    for operation in operations:
        if operation["path"] == "/metadata/annotations":
            written |= operation["value"]
        elif operation["path"].startswith("/metadata/annotations/"):
            written[operation["path"].removeprefix("/metadata/annotations/").replace("~1", "/")] = operation["value"]
    assert mark.items() <= written.items()
    assert "status" not in response


def test_an_already_injected_pod_gets_no_patch() -> None:
    _, after = judge(pod())
    response = answer(after)
    assert "patch" not in response
    assert "patchType" not in response
    assert response["auditAnnotations"] == {"outcome": "skip", "reason": "already-injected", "profile": "exclusive"}


def test_a_mistake_of_the_user_is_422_with_the_reason() -> None:
    response = answer(pod(annotations={"gpu.topology/min-bandwidth": "fast"}))
    assert response == {
        "uid": UID,
        "allowed": False,
        "status": {
            "status": "Failure",
            "message": "GT151: an option cannot be read: annotation gpu.topology/min-bandwidth on pod team-a/train: "
            'expected a number of GB/s such as "100", found "fast". Correct the annotation',
            "reason": "Invalid",
            "code": 422,
        },
        "auditAnnotations": {"outcome": "refuse", "reason": "bad-annotation"},
    }


def test_a_missing_permission_is_403() -> None:
    status = answer(pod(annotations={"gpu.topology/profile": "node-peers"}))["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert 'gpu.topology/allow-host-ipc: "true"' in status["message"]


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.MISSING_PERMISSION])
def test_every_other_refusal_is_422(reason: Reason) -> None:
    reply = json.loads(encode_reply(UID, Outcome(kind=Kind.REFUSE, reason=reason, message="m")))
    assert reply["response"]["status"] == {"status": "Failure", "message": "m", "reason": "Invalid", "code": 422}
    assert "patch" not in reply["response"]


def test_a_degraded_pod_is_allowed_and_says_what_it_lacks() -> None:
    annotations = {"gpu.topology/profile": "node-peers", "gpu.topology/host-pid": "false"}
    labels = {
        "gpu.topology/injection": "enabled",
        "gpu.topology/allow-host-ipc": "true",
        "gpu.topology/allow-node-gpus": "true",
    }
    response = answer(pod(annotations=annotations), Namespace("team-a", labels))
    assert response["allowed"] is True
    assert response["auditAnnotations"] == {
        "outcome": "degraded",
        "reason": "namespace-withheld",
        "profile": "node-peers",
    }
    assert response["warnings"] == [
        "GT503: without host-pid pods of profile node-peers cannot reach each other's GPU memory"
    ]
    assert "patch" in response


@pytest.mark.parametrize("uid", ["", "x", "ünï", 'a"b', "u" * 10_000])
def test_the_uid_comes_back_as_it_was(uid: str) -> None:
    reply = json.loads(encode_reply(uid, Outcome(kind=Kind.SKIP, reason=Reason.NOT_A_CREATE)))
    assert reply["response"]["uid"] == uid


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, []),
        (30, [f"warning {number}" for number in range(30)]),
        (31, [*(f"warning {number}" for number in range(29)), "GT126: 2 more warnings"]),
        (5000, [*(f"warning {number}" for number in range(29)), "GT126: 4971 more warnings"]),
    ],
)
def test_no_more_warnings_than_the_api_server_passes_on(count: int, said: list[str]) -> None:
    assert fit_all([f"warning {number}" for number in range(count)]) == said


def test_a_warning_stays_under_120_characters() -> None:
    assert fit_all(["x" * 119, "y" * 120]) == ["x" * 119, "y" * 116 + "..."]
