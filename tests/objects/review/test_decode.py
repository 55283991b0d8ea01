"""Bodies that are no review which we can answer, each with its reason; and the odd ones that are."""

import json
from typing import Any

import pytest

from webhook.objects.envelope import MalformedReview
from webhook.objects.review import decode_review

Manifest = dict[str, Any]


def review(**request: Any) -> Manifest:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "operation": "CREATE",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "team-a",
            "object": {"metadata": {"name": "train"}, "spec": {"containers": [{"name": "train"}]}},
            **request,
        },
    }


def body(document: Any) -> bytes:
    return json.dumps(document).encode()


def with_pod(pod: Any) -> bytes:
    return body(review(object=pod))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"   ",
        b"\x00",
        b"\xff\xfe{}",
        b"{",
        b"apiVersion: v1",
        b"<xml/>",
        b'{"a": 1}trailing',
        b'"\xc3("',
        b"[" * 5000,
    ],
)
def test_what_is_not_json_is_said_to_be_none(text: bytes) -> None:
    with pytest.raises(MalformedReview, match=r"^request body: expected "):
        decode_review(text)


@pytest.mark.parametrize("document", [None, 1, "review", [], [{}], True])
def test_another_json_value_is_no_review(document: Any) -> None:
    with pytest.raises(
        MalformedReview, match=r"^request body: expected an AdmissionReview object, found another JSON value$"
    ):
        decode_review(body(document))


@pytest.mark.parametrize(
    "document", [{}, {"kind": "AdmissionReview"}, {"apiVersion": 1, "kind": 2}, {"apiVersion": None}]
)
def test_an_object_without_version_and_kind_is_no_review(document: Any) -> None:
    with pytest.raises(MalformedReview, match="found an object without apiVersion and kind"):
        decode_review(body(document))


def test_another_kubernetes_object_is_no_review() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}}
    with pytest.raises(MalformedReview, match=r'^apiVersion: expected admission\.k8s\.io/v1, found "v1"\. '):
        decode_review(body(pod))


def test_v1beta1_is_refused_with_the_remedy() -> None:
    old = {**review(), "apiVersion": "admission.k8s.io/v1beta1"}
    wanted = r'expected admission\.k8s\.io/v1, found "admission\.k8s\.io/v1beta1"\. Set admissionReviewVersions: \[v1\]'
    with pytest.raises(MalformedReview, match=wanted):
        decode_review(body(old))


def test_v1beta1_with_a_request_that_does_not_fit_still_names_the_version() -> None:
    old = {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": 7}
    with pytest.raises(MalformedReview, match=r'found "admission.k8s.io/v1beta1"'):
        decode_review(body(old))


def test_another_kind_of_the_group_is_refused() -> None:
    with pytest.raises(MalformedReview, match=r'^kind: expected AdmissionReview, found "ConversionReview"$'):
        decode_review(body({**review(), "kind": "ConversionReview"}))


@pytest.mark.parametrize("document", [{}, {"request": None}, {"response": {"uid": "1", "allowed": True}}])
def test_a_review_without_a_request_is_refused(document: Manifest) -> None:
    envelope = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", **document}
    with pytest.raises(MalformedReview, match=r"^request: expected the request of an AdmissionReview, found none$"):
        decode_review(body(envelope))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"resource": {"group": "apps", "version": "v1", "resource": "deployments"}}, "deployments of apps/v1"),
        ({"resource": {"group": "", "version": "v2", "resource": "pods"}}, "pods of v2"),
        ({"resource": {"group": "metrics.k8s.io", "version": "v1", "resource": "pods"}}, "pods of metrics.k8s.io/v1"),
        ({"subResource": "ephemeralcontainers"}, "pods/ephemeralcontainers of v1"),
        ({"subResource": "binding"}, "pods/binding of v1"),
        ({"resource": {}}, "found  of"),
    ],
)
def test_another_resource_than_pods_is_refused(change: Manifest, found: str) -> None:
    wanted = rf"^request\.resource: expected pods of v1, .*{found}.*MutatingWebhookConfiguration"
    with pytest.raises(MalformedReview, match=wanted):
        decode_review(body(review(**change)))


@pytest.mark.parametrize("change", [{"object": None}, {"object": ...}])
def test_a_creation_without_its_pod_is_refused(change: Manifest) -> None:
    document = review(**{key: value for key, value in change.items() if value is not ...})
    if change["object"] is ...:
        del document["request"]["object"]
    with pytest.raises(MalformedReview, match=r"^request.object: expected the pod that is being created, found none$"):
        decode_review(body(document))


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_a_request_of_another_operation_needs_no_object(operation: str) -> None:
    request = decode_review(body(review(operation=operation, object=None)))
    assert (request.operation, request.object) == (operation, None)


@pytest.mark.parametrize(
    ("request_field", "place"),
    [
        ({"uid": 7}, r"\$\.request\.uid"),
        ({"uid": None}, r"\$\.request\.uid"),
        ({"operation": ["CREATE"]}, r"\$\.request\.operation"),
        ({"resource": "pods"}, r"\$\.request\.resource"),
        ({"namespace": 3}, r"\$\.request\.namespace"),
        ({"dryRun": "yes"}, r"\$\.request\.dryRun"),
        ({"object": []}, r"\$\.request\.object"),
        ({"object": "train"}, r"\$\.request\.object"),
    ],
)
def test_a_field_of_the_request_with_a_wrong_type_is_named(request_field: Manifest, place: str) -> None:
    with pytest.raises(MalformedReview, match=rf"^AdmissionReview: Expected .* at `{place}`$"):
        decode_review(body(review(**request_field)))


@pytest.mark.parametrize(
    ("pod", "place"),
    [
        ({"spec": []}, r"\$\.request\.object\.spec"),
        ({"metadata": "x"}, r"\$\.request\.object\.metadata"),
        ({"metadata": {"annotations": ["a"]}}, r"\$\.request\.object\.metadata\.annotations"),
        ({"metadata": {"annotations": {"a": 1}}}, r"\$\.request\.object\.metadata\.annotations\[\.\.\.\]"),
        ({"metadata": {"labels": {"a": True}}}, r"\$\.request\.object\.metadata\.labels\[\.\.\.\]"),
        ({"spec": {"containers": {}}}, r"\$\.request\.object\.spec\.containers"),
        ({"spec": {"containers": ["train"]}}, r"\$\.request\.object\.spec\.containers\[0\]"),
        ({"spec": {"containers": [{"name": "a"}, {"name": 1}]}}, r"\$\.request\.object\.spec\.containers\[1\]\.name"),
        (
            {"spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": [2]}}}]}},
            r"\$\.request\.object\.spec\.containers\[0\]\.resources\.limits\[\.\.\.\]",
        ),
        ({"spec": {"hostIPC": "yes"}}, r"\$\.request\.object\.spec\.hostIPC"),
    ],
)
def test_a_field_of_the_pod_with_a_wrong_type_is_named(pod: Manifest, place: str) -> None:
    with pytest.raises(MalformedReview, match=rf"^AdmissionReview: .* at `{place}`$"):
        decode_review(with_pod(pod))


def test_unknown_fields_everywhere_are_passed_over() -> None:
    document = review(
        unknown={"a": [1]},
        options={"kind": "CreateOptions"},
        userInfo={"username": "u", "groups": None},
        object={
            "x": 1,
            "metadata": {"name": "train", "managedFields": [{"fieldsV1": {"f:x": {}}}], "x": None},
            "spec": {"x": {}, "containers": [{"name": "train", "x": [], "env": [{"name": "A", "x": 0}]}]},
        },
    )
    document["x"] = "y"
    document["request"]["resource"]["x"] = 1
    request = decode_review(body(document))
    assert request.object is not None
    assert request.object.display_name == "train"


def test_null_lists_are_read_as_none() -> None:
    lists = {"env": None, "volumeMounts": None, "resources": None, "command": None, "envFrom": None}
    spec = {"containers": [{"name": "train", **lists}], "initContainers": None, "volumes": None, "affinity": None}
    request = decode_review(with_pod({"metadata": {"annotations": None, "labels": None}, "spec": spec}))
    assert request.object is not None
    assert request.object.annotations == {}


def test_a_dry_run_is_known_as_one() -> None:
    assert decode_review(body(review(dryRun=True))).dry_run is True
    assert decode_review(body(review(dryRun=None))).dry_run is None


def test_a_pod_with_a_deep_unknown_field_is_read() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = {"x": [deep]}
    assert decode_review(with_pod({"status": deep, "spec": {"containers": [{"name": "train"}]}})).object is not None


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
def test_a_huge_version_or_kind_is_cut_in_the_message(field: str) -> None:
    with pytest.raises(MalformedReview, match=f"^{field}: expected ") as caught:
        decode_review(body({**review(), field: "x" * 100_000}))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}")], ids=["lists", "objects"])
def test_a_body_that_is_nested_too_deep_is_refused(brackets: tuple[bytes, bytes]) -> None:
    opening, closing = brackets
    deep = opening * 100_000 + b"1" + closing * 100_000
    with pytest.raises(MalformedReview, match=r"^request body: expected "):
        decode_review(body(review()).replace(b'"operation"', b'"x": ' + deep + b', "operation"'))


@pytest.mark.parametrize("number", [b"1e400", b"9" * 5000])
def test_a_number_that_no_json_reader_takes_is_said_to_be_one(number: bytes) -> None:
    pod = {"spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 4711}}}]}}
    with pytest.raises(MalformedReview, match=r"(?i)number|out of range") as caught:
        decode_review(with_pod(pod).replace(b"4711", number))
    assert len(str(caught.value)) < 500
