"""The AdmissionReview envelope, ``admission.k8s.io/v1``, in and out."""

import msgspec

from webhook.model.errors import GpuTopologyError, shorten
from webhook.model.outcome import Kind, Outcome, Reason
from webhook.model.patch import Operation
from webhook.model.pod import Fields, Pod

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
_FORBIDDEN = frozenset({Reason.MISSING_PERMISSION})


class MalformedReview(GpuTopologyError):
    """A body that is no review which we can answer: HTTP 400, and the API server applies its ``failurePolicy``."""


class Resource(Fields):
    """A group, version and resource."""

    group: str = ""
    version: str = ""
    resource: str = ""


class Request(Fields):
    """``request`` of a review."""

    uid: str
    operation: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    sub_resource: str = ""
    dry_run: bool | None = None
    object: Pod | None = None


class Review(Fields):
    """A review as the API server sends it."""

    api_version: str
    kind: str
    request: Request | None = None


class Status(msgspec.Struct, frozen=True):
    """Why a request was refused."""

    message: str
    reason: str
    code: int
    status: str = "Failure"


class Response(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """``response`` of a review; ``bytes`` are written in base64, as the API asks for patches."""

    uid: str
    allowed: bool
    status: Status | None = None
    patch: bytes | None = None
    patch_type: str | None = None
    warnings: list[str] = []
    audit_annotations: dict[str, str] = {}


class Reply(msgspec.Struct, frozen=True, rename="camel"):
    """A review as we answer it."""

    response: Response
    api_version: str = API_VERSION
    kind: str = KIND


_TOO_DEEP = "request body: expected an AdmissionReview, found JSON that is nested too deep"

_decoder = msgspec.json.Decoder(Review)
_encoder = msgspec.json.Encoder()


def decode_review(body: bytes) -> Request:
    """The request of a pod review.

    Raises:
        MalformedReview: the body is not JSON, no ``admission.k8s.io/v1`` AdmissionReview, about something else than
            pods, or a field that we read has another type than in a pod.
    """
    try:
        review = _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise MalformedReview(_explain(body, error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedReview(f"request body: expected JSON, found something else: {error}") from None
    except RecursionError:
        raise MalformedReview(_TOO_DEEP) from None
    _check_version(review.api_version, review.kind)
    request = review.request
    if request is None:
        raise MalformedReview("request: expected the request of an AdmissionReview, found none")
    resource = request.resource
    if (resource.group, resource.version, resource.resource, request.sub_resource) != ("", "v1", "pods", ""):
        raise MalformedReview(
            f"request.resource: expected pods of v1, found {_display(resource, request.sub_resource)}. "
            "Check the rules of the MutatingWebhookConfiguration"
        )
    if request.operation == "CREATE" and request.object is None:
        raise MalformedReview("request.object: expected the pod that is being created, found none")
    return request


def encode_patch(operations: list[Operation]) -> bytes:
    """A JSON Patch document."""
    return _encoder.encode(operations)


def encode_reply(uid: str, outcome: Outcome) -> bytes:
    """The answer to the review ``uid``; without operations there is no patch in it."""
    if outcome.frame is None:
        outcome.frame = _encode_frame(outcome)
    before, after = outcome.frame
    return before + _encoder.encode(uid) + after


def _encode_frame(outcome: Outcome) -> tuple[bytes, bytes]:
    """What stands before and after the uid, which is all that differs between the answers to equal pods."""
    marker = "\x00uid"
    before, after = _encoder.encode(Reply(_respond(marker, outcome))).split(_encoder.encode(marker), 1)
    return before, after


def _respond(uid: str, outcome: Outcome) -> Response:
    audit = {"outcome": str(outcome.kind), "reason": str(outcome.reason)}
    if outcome.profile:
        audit["profile"] = outcome.profile
    if outcome.kind is Kind.REFUSE:
        forbidden = outcome.reason in _FORBIDDEN
        status = Status(outcome.message, "Forbidden" if forbidden else "Invalid", 403 if forbidden else 422)
        return Response(uid=uid, allowed=False, status=status, warnings=outcome.warnings, audit_annotations=audit)
    if not outcome.operations:
        return Response(uid=uid, allowed=True, warnings=outcome.warnings, audit_annotations=audit)
    return Response(
        uid=uid,
        allowed=True,
        patch=encode_patch(outcome.operations),
        patch_type="JSONPatch",
        warnings=outcome.warnings,
        audit_annotations=audit,
    )


def _check_version(api_version: str, kind: str) -> None:
    if api_version != API_VERSION:
        raise MalformedReview(
            f"apiVersion: expected {API_VERSION}, found {shorten(api_version)}. "
            "Set admissionReviewVersions: [v1] in the MutatingWebhookConfiguration"
        )
    if kind != KIND:
        raise MalformedReview(f"kind: expected {KIND}, found {shorten(kind)}")


def _explain(body: bytes, error: msgspec.ValidationError) -> str:
    """Why the body does not fit: first what it is, then where it differs."""
    try:
        document = msgspec.json.decode(body)
    except UnicodeDecodeError as broken:
        return f"request body: expected JSON, found something else: {broken}"
    except msgspec.MsgspecError as broken:
        return f"request body: expected an AdmissionReview, found a number that cannot be read: {broken}"
    except RecursionError:
        return _TOO_DEEP
    if not isinstance(document, dict):
        return "request body: expected an AdmissionReview object, found another JSON value"
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return (
            f"request body: expected an AdmissionReview of {API_VERSION}, found an object without apiVersion and kind"
        )
    _check_version(api_version, kind)
    return f"AdmissionReview: {error}"


def _display(resource: Resource, sub_resource: str) -> str:
    name = f"{resource.resource}/{sub_resource}" if sub_resource else resource.resource
    return f"{name} of {'/'.join(filter(None, (resource.group, resource.version)))}"
