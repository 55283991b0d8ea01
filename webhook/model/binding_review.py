"""Reviews of Bindings, in and out."""

from functools import lru_cache

import msgspec

from webhook.model.binding import BIND_SENTENCES, Binding, BindOutcome
from webhook.model.envelope import (
    AnyRequest,
    Reply,
    Response,
    Review,
    Status,
    decode_request,
    is_binding,
)
from webhook.model.outcome import fit
from webhook.model.patch import Operation, pointer

_STATUS_REASONS = {403: "Forbidden", 409: "Conflict", 422: "Invalid", 503: "ServiceUnavailable"}
"""apimachinery pkg/apis/meta/v1/types.go, StatusReason."""


LONG = 1024
"""Characters of an annotation whose JSON is worth keeping."""


class BindingRequest(AnyRequest[Binding]):
    """``request`` of a review."""

    @property
    def pod_name(self) -> str:
        """The name of the pod: of the request for ``pods/binding``, of the Binding for ``bindings``."""
        metadata = self.object.metadata if self.object else None
        return self.name or (metadata.name if metadata else None) or ""


_decoder = msgspec.json.Decoder(Review[BindingRequest])
_encoder = msgspec.json.Encoder()


def decode_binding_review(body: bytes) -> BindingRequest:
    """The request of a review of a Binding.

    Raises:
        MalformedReview: the body is not JSON, no ``admission.k8s.io/v1`` AdmissionReview, about something else than
            Bindings, or a field that we read has another type than in a Binding.
    """
    resources = "pods/binding or bindings of v1"
    return decode_request(body, _decoder, is_ours=is_binding, resources=resources, kind="Binding")


def binding_patch(binding: Binding, annotations: dict[str, str]) -> list[Operation]:
    """What puts ``annotations`` onto a Binding; nothing for those that it has already."""
    found = binding.annotations
    if not annotations:
        return []
    written = {key: _written(value) for key, value in annotations.items()}
    if binding.metadata is None:
        return [Operation("add", pointer("metadata"), {"annotations": written})]
    if found is None:
        return [Operation("add", pointer("metadata", "annotations"), written)]
    return [
        Operation("add", pointer("metadata", "annotations", key), value)
        for key, value in written.items()
        if found.get(key) != annotations[key]
    ]


def _written(value: str) -> str | msgspec.Raw:
    return value if len(value) < LONG else _encoded(value)


# The topology of a node is the same for all of its pods.
@lru_cache(maxsize=128)
def _encoded(value: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def encode_binding_reply(uid: str, binding: Binding, outcome: BindOutcome) -> bytes:
    """The answer to the review ``uid``; without anything to write there is no patch in it."""
    operations = binding_patch(binding, outcome.annotations) if outcome.allowed else []
    response = Response(
        uid=uid,
        allowed=outcome.allowed,
        status=None if outcome.allowed else _status(outcome),
        patch=_encoder.encode(operations) if operations else None,
        patch_type="JSONPatch" if operations else None,
        warnings=[fit(text) for text in outcome.warnings],
        audit_annotations=_audit(outcome),
    )
    return _encoder.encode(Reply(response))


def _status(outcome: BindOutcome) -> Status:
    message = outcome.message or BIND_SENTENCES[outcome.reason]
    return Status(message, _STATUS_REASONS[outcome.code], outcome.code)


def _audit(outcome: BindOutcome) -> dict[str, str]:
    found = {"outcome": str(outcome.kind), "reason": str(outcome.reason)}
    return found | {"profile": str(outcome.profile)} if outcome.profile else found
