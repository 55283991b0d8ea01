"""Reviews of Bindings, as the API server writes and reads them."""

import base64
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pods import Manifest
from webhook.objects.binding import Binding, BindOutcome, BindReason, Target
from webhook.objects.binding_review import BindingRequest, decode_binding_review, encode_binding_reply
from webhook.objects.envelope import MalformedReview
from webhook.objects.pod import Metadata
from webhook.objects.review import decode_review
from webhook.words.choices import Profile
from webhook.words.outcome import Kind

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
LINK = {"gpu.topology/link": "NVLink"}
BINDINGS = {"group": "", "version": "v1", "resource": "bindings"}


def review(**request: Any) -> Manifest:
    fields = {
        "uid": UID,
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "binding",
        "namespace": "team-a",
        "name": "train",
        "object": {"metadata": {"name": "train", "uid": "u-1"}, "target": {"kind": "Node", "name": "h20-node-1"}},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**fields, **request}}


def decode(document: Manifest) -> BindingRequest:
    return decode_binding_review(json.dumps(document).encode())


def respond(binding: Binding, **outcome: Any) -> Manifest:
    wanted = {"kind": Kind.PATCH, "reason": BindReason.RESOLVED, "profile": Profile.EXCLUSIVE, **outcome}
    reply = json.loads(encode_binding_reply(UID, binding, BindOutcome(**wanted)))
    assert (reply["apiVersion"], reply["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    return dict(reply["response"])


def operations(response: Manifest) -> Any:
    return json.loads(base64.b64decode(response["patch"], validate=True))


def test_what_the_scheduler_asks_for_is_read() -> None:
    request = decode(review(dryRun=True))
    assert (request.uid, request.operation, request.namespace, request.pod_name) == (UID, "CREATE", "team-a", "train")
    assert request.dry_run is True
    assert request.object == Binding(Metadata(name="train", uid="u-1"), Target("h20-node-1"))


def test_a_binding_of_the_legacy_resource_names_the_pod_itself() -> None:
    request = decode(review(resource=BINDINGS, subResource="", name=""))
    assert request.pod_name == "train"


@pytest.mark.parametrize("binding", [{}, {"metadata": None}, {"metadata": {}}, {"metadata": {"name": None}}])
def test_a_legacy_binding_that_names_no_pod_has_none(binding: Manifest) -> None:
    assert decode(review(resource=BINDINGS, subResource="", name="", object=binding)).pod_name == ""


@pytest.mark.parametrize("binding", [{}, {"target": None}, {"target": {}}])
def test_a_binding_without_a_target_has_no_node(binding: Manifest) -> None:
    request = decode(review(object=binding))
    assert request.object is not None
    assert request.object.node == ""


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"subResource": "eviction"}, "pods/eviction of v1"),
        ({"resource": {**BINDINGS, "version": "v2"}, "subResource": ""}, "bindings of v2"),
        ({"resource": {**BINDINGS, "group": "x.io"}, "subResource": ""}, "bindings of x.io/v1"),
        ({"resource": BINDINGS, "subResource": "status"}, "bindings/status of v1"),
        ({"resource": {}}, "/binding of "),
    ],
)
def test_a_review_of_something_else_is_refused(change: Manifest, found: str) -> None:
    wanted = (
        rf"^request\.resource: expected pods/binding or bindings of v1, found {found}\. Check the rules of the M\w+$"
    )
    with pytest.raises(MalformedReview, match=wanted):
        decode(review(**change))


def test_a_review_of_a_pod_is_told_its_path() -> None:
    with pytest.raises(MalformedReview, match=r"found pods of v1\. .*: reviews of pods belong to /mutate/pods$"):
        decode(review(subResource="", object={"metadata": {"name": "train"}, "spec": {"containers": []}}))


@pytest.mark.parametrize("legacy", [False, True])
def test_a_review_of_a_binding_at_the_path_of_pods_is_told_its_own(legacy: bool) -> None:
    document = review(resource=BINDINGS, subResource="") if legacy else review()
    wanted = r"expected pods of v1, found .*bindings?.* of v1\. .*: reviews of Bindings belong to /mutate/bindings$"
    with pytest.raises(MalformedReview, match=wanted):
        decode_review(json.dumps(document).encode())


def test_a_creation_without_its_binding_is_refused() -> None:
    with pytest.raises(
        MalformedReview, match=r"^request\.object: expected the Binding that is being created, found none"
    ):
        decode(review(object=None))


@pytest.mark.parametrize(
    ("binding", "place"),
    [
        ([], r"\$\.request\.object"),
        ({"metadata": []}, r"\$\.request\.object\.metadata"),
        ({"metadata": {"annotations": {"a": 1}}}, r"\$\.request\.object\.metadata\.annotations\[\.\.\.\]"),
        ({"metadata": {"uid": 7}}, r"\$\.request\.object\.metadata\.uid"),
        ({"target": "h20"}, r"\$\.request\.object\.target"),
        ({"target": {"name": None}}, r"\$\.request\.object\.target\.name"),
    ],
)
def test_a_field_of_the_binding_with_a_wrong_type_is_named(binding: Any, place: str) -> None:
    with pytest.raises(MalformedReview, match=rf"^AdmissionReview: Expected .* at `{place}`$"):
        decode(review(object=binding))


def test_v1beta1_is_refused_with_the_remedy() -> None:
    with pytest.raises(MalformedReview, match=r"Set admissionReviewVersions: \[v1\]"):
        decode({**review(), "apiVersion": "admission.k8s.io/v1beta1"})


@pytest.mark.parametrize(
    ("binding", "written"),
    [
        ({}, {"op": "add", "path": "/metadata", "value": {"annotations": LINK}}),
        ({"metadata": None}, {"op": "add", "path": "/metadata", "value": {"annotations": LINK}}),
        ({"metadata": {"name": "train"}}, {"op": "add", "path": "/metadata/annotations", "value": LINK}),
        ({"metadata": {"annotations": None}}, {"op": "add", "path": "/metadata/annotations", "value": LINK}),
        (
            {"metadata": {"annotations": {}}},
            {"op": "add", "path": "/metadata/annotations/gpu.topology~1link", "value": "NVLink"},
        ),
        (
            {"metadata": {"annotations": {"a": "b", "gpu.topology/link": "SYS"}}},
            {"op": "add", "path": "/metadata/annotations/gpu.topology~1link", "value": "NVLink"},
        ),
    ],
)
def test_the_patch_applies_to_whatever_the_binding_has(binding: Manifest, written: Manifest) -> None:
    request = decode(review(object=binding))
    assert request.object is not None
    response = respond(request.object, annotations=LINK)
    assert response["patchType"] == "JSONPatch"
    assert operations(response) == [written]
    before = (binding.get("metadata") or {}).get("annotations") or {}
    assert jsonpatch.apply_patch(binding, operations(response))["metadata"]["annotations"] == before | LINK


KEYS = st.text("a~/.1é", min_size=1, max_size=6) | st.just("gpu.topology/node-topology")
ANNOTATIONS = st.dictionaries(KEYS, st.text(max_size=3) | st.just('{"node":"é"}'), max_size=4)


@given(found=st.none() | ANNOTATIONS, wanted=ANNOTATIONS, has_metadata=st.booleans())
def test_whatever_is_written_stands_on_the_binding_beside_what_was_there(
    found: dict[str, str] | None, wanted: dict[str, str], has_metadata: bool
) -> None:
    before: Manifest = {"target": {"name": "n", "x": 1}}
    if has_metadata or found is not None:
        before["metadata"] = {"name": "train", "x": 1} | ({} if found is None else {"annotations": found})
    request = decode(review(object=before))
    assert request.object is not None
    response = respond(request.object, annotations=wanted)
    after = jsonpatch.apply_patch(before, operations(response)) if "patch" in response else before
    assert (after.get("metadata") or {}).get("annotations", {}) == (found or {}) | wanted
    assert after["target"] == before["target"]
    assert {**after.get("metadata", {}), "annotations": 0} == {**before.get("metadata", {}), "annotations": 0}
    again = decode(review(object=after)).object
    assert again is not None
    assert "patch" not in respond(again, annotations=wanted)


def test_keys_are_escaped() -> None:
    binding = Binding(Metadata(annotations={"volcano.sh/vgpu-node": "n"}))
    written = operations(respond(binding, annotations={"gpu.topology/nccl-env.A~B": "1"}))
    assert written == [{"op": "add", "path": "/metadata/annotations/gpu.topology~1nccl-env.A~0B", "value": "1"}]


@pytest.mark.parametrize("annotations", [{}, LINK])
def test_nothing_to_write_is_no_patch(annotations: dict[str, str]) -> None:
    response = respond(Binding(Metadata(annotations=dict(LINK))), annotations=annotations)
    assert response == {
        "uid": UID,
        "allowed": True,
        "auditAnnotations": {"outcome": "patch", "reason": "resolved", "profile": "exclusive"},
    }


def test_a_pod_that_is_not_ours_has_no_profile_in_the_audit_log() -> None:
    response = respond(Binding(), kind=Kind.SKIP, reason=BindReason.NOT_INJECTED, profile=None)
    assert response["auditAnnotations"] == {"outcome": "skip", "reason": "not-injected"}


@pytest.mark.parametrize(
    ("code", "word"), [(403, "Forbidden"), (409, "Conflict"), (422, "Invalid"), (503, "ServiceUnavailable")]
)
def test_a_refusal_has_the_word_of_the_api_for_its_code_and_no_patch(code: int, word: str) -> None:
    response = respond(
        Binding(), kind=Kind.REFUSE, reason=BindReason.NODE_UNKNOWN, code=code, message="m", annotations=LINK
    )
    assert response == {
        "uid": UID,
        "allowed": False,
        "status": {"status": "Failure", "message": "m", "reason": word, "code": code},
        "auditAnnotations": {"outcome": "refuse", "reason": "node-unknown", "profile": "exclusive"},
    }


def test_a_refusal_without_a_message_says_the_sentence_of_its_reason() -> None:
    response = respond(Binding(), kind=Kind.REFUSE, reason=BindReason.NO_ALLOCATION, code=409)
    assert response["status"]["message"] == "The scheduler has given the pod no GPU."


def test_warnings_are_cut_to_what_the_api_server_takes() -> None:
    short, long = "s" * 119, "l" * 120
    response = respond(Binding(), kind=Kind.DEGRADED, reason=BindReason.NODE_UNKNOWN, warnings=[short, long])
    assert response["warnings"] == [short, "l" * 116 + "..."]
