"""The reviews of Bindings: decoding of requests and encoding of answers."""

from binascii import b2a_base64
from functools import lru_cache
from typing import Any

import msgspec

from webhook.objects.binding import BIND_SENTENCES, Binding, BindOutcome
from webhook.objects.envelope import AnyRequest, Reply, Response, Review, Status, decode_request, is_binding
from webhook.words import names
from webhook.words.outcome import MESSAGE_LIMIT, fit_all
from webhook.words.patch import Operation, pointer
from webhook.words.printable import fitted

_STATUS_REASONS = {403: "Forbidden", 409: "Conflict", 422: "Invalid", 503: "ServiceUnavailable"}
"""The reason of each HTTP code: apimachinery pkg/apis/meta/v1/types.go, StatusReason."""


class BindingRequest(AnyRequest[Binding]):
    """The ``request`` of a review of a Binding."""

    @property
    def pod_name(self) -> str:
        """The name of the pod: from the request for ``pods/binding``, from the Binding for ``bindings``."""
        metadata = self.object.metadata if self.object else None
        return self.name or (metadata.name if metadata else None) or ""


_ANNOTATIONS = pointer("metadata", "annotations")
_decoder = msgspec.json.Decoder(Review[BindingRequest])
_encoder = msgspec.json.Encoder()


def decode_binding_review(body: bytes) -> BindingRequest:
    """Returns the request of a review of a Binding.

    Raises:
        MalformedReview: the body is not JSON, no ``admission.k8s.io/v1`` AdmissionReview, about something else than
            Bindings, or a field that is read has another type than in a Binding.
    """
    resources = "pods/binding or bindings of v1"
    return decode_request(body, _decoder, is_ours=is_binding, resources=resources, kind="Binding")


def encode_binding_reply(uid: str, binding: Binding, outcome: BindOutcome) -> bytes:
    """Returns the answer to the review ``uid``; without a patch if there is nothing to write."""
    patch = _patch(binding, outcome.annotations) if outcome.allowed else None
    response = Response(
        uid=uid,
        allowed=outcome.allowed,
        status=None if outcome.allowed else _status(outcome),
        patch=patch,
        patch_type="JSONPatch" if patch else None,
        warnings=fit_all(outcome.warnings),
        audit_annotations=_audit(outcome),
    )
    return _encoder.encode(Reply(response))


def _patch(binding: Binding, annotations: dict[str, str]) -> bytes | msgspec.Raw | None:
    """Returns the patch that puts ``annotations`` onto a Binding, ``None`` if the Binding has them already.

    The patch is JSON, or JSON in base64 and quotes. The topology is most of the text and the same for all pods of a
    node. It stands last, and is in base64 already.
    """
    found = binding.annotations
    missing: dict[str, Any] = (
        {key: value for key, value in annotations.items() if found.get(key) != value} if found else annotations.copy()
    )
    topology = missing.pop(names.NODE_TOPOLOGY, None)
    if topology is not None:
        text = _encoder.encode(_operations(binding, missing | {names.NODE_TOPOLOGY: msgspec.Raw()}))
        place = text.rindex(b":") + 1
        return msgspec.Raw(b'"%b%b%b"' % (_base64(text[:place]), _written(topology), _base64(text[place:])))
    return _encoder.encode(_operations(binding, missing)) if missing else None


def _operations(binding: Binding, missing: dict[str, Any]) -> list[Operation]:
    if binding.metadata is None:
        return [Operation("add", pointer("metadata"), {"annotations": missing})]
    if binding.annotations is None:
        return [Operation("add", _ANNOTATIONS, missing)]
    return [Operation("add", pointer("metadata", "annotations", key), value) for key, value in missing.items()]


@lru_cache(maxsize=128)
def _written(topology: str) -> bytes:
    return _base64(msgspec.json.encode(topology))


def _base64(part: bytes) -> bytes:
    """Returns ``part`` in base64, with spaces at its end so that more can follow: three bytes become four letters.

    ``part`` ends between tokens.
    """
    return b2a_base64(part + b" " * (-len(part) % 3), newline=False)


def _status(outcome: BindOutcome) -> Status:
    message = outcome.message or BIND_SENTENCES[outcome.reason]
    return Status(fitted(message, MESSAGE_LIMIT), _STATUS_REASONS[outcome.code], outcome.code)


def _audit(outcome: BindOutcome) -> dict[str, str]:
    found = {"outcome": str(outcome.kind), "reason": str(outcome.reason)}
    return found | {"profile": str(outcome.profile)} if outcome.profile else found
