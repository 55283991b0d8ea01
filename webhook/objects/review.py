"""The reviews of pods: decoding of requests and encoding of answers."""

import msgspec

from webhook.objects.envelope import AnyRequest, Reply, Response, Review, Status, decode_request, is_pod
from webhook.objects.pod import Pod
from webhook.words.outcome import MESSAGE_LIMIT, Kind, Outcome, Reason
from webhook.words.patch import Operation
from webhook.words.printable import fitted

_FORBIDDEN = frozenset({Reason.MISSING_PERMISSION})


Request = AnyRequest[Pod]

_decoder = msgspec.json.Decoder(Review[Request])
_encoder = msgspec.json.Encoder()


def decode_review(body: bytes) -> Request:
    """Returns the request of a pod review.

    Raises:
        MalformedReview: the body is not JSON, no ``admission.k8s.io/v1`` AdmissionReview, about something else than
            pods, or a field that is read has another type than in a pod.
    """
    return decode_request(body, _decoder, is_ours=is_pod, resources="pods of v1", kind="pod")


def encode_patch(operations: list[Operation]) -> bytes:
    """Returns a JSON Patch document."""
    return _encoder.encode(operations)


def encode_reply(uid: str, outcome: Outcome) -> bytes:
    """Returns the answer to the review ``uid``; without a patch if there are no operations."""
    return _encoder.encode(Reply(_respond(uid, outcome)))


def _respond(uid: str, outcome: Outcome) -> Response:
    audit = {"outcome": str(outcome.kind), "reason": str(outcome.reason)}
    if outcome.profile:
        audit["profile"] = outcome.profile
    if outcome.kind is Kind.REFUSE:
        forbidden = outcome.reason in _FORBIDDEN
        status = Status(
            fitted(outcome.message, MESSAGE_LIMIT), "Forbidden" if forbidden else "Invalid", 403 if forbidden else 422
        )
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
