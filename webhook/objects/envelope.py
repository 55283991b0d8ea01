"""The AdmissionReview envelope, ``admission.k8s.io/v1``, which reviews of pods and of Bindings have in common."""

import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from webhook.objects.pod import Fields
from webhook.words.errors import GpuTopologyError, shorten
from webhook.words.object_names import NAMESPACE
from webhook.words.printable import fitted

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
PODS_PATH = "/mutate/pods"
BINDINGS_PATH = "/mutate/bindings"
_UID = re.compile(r"[0-9A-Za-z._:-]{1,128}")
"""The form of a uid. The API server sends a UUID (apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go)."""
_TOO_DEEP = "request body: expected an AdmissionReview, found JSON that is nested too deep"
_RULES = "Check the rules of the MutatingWebhookConfiguration"


class MalformedReview(GpuTopologyError):
    """The body is no review that can be answered: HTTP 400, and the API server applies its ``failurePolicy``."""


class Resource(Fields):
    """A group, version and resource."""

    group: str = ""
    version: str = ""
    resource: str = ""


T = TypeVar("T")


class AnyRequest(Fields, Generic[T]):
    """The ``request`` of a review about an object of a kind."""

    uid: str
    operation: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    sub_resource: str = ""
    dry_run: bool | None = None
    object: T | None = None


class _Head(Fields):
    """The fields that name the type of a document. The rest of it stays JSON, which takes a tenth of the memory."""

    api_version: msgspec.Raw = msgspec.Raw(b"null")
    kind: msgspec.Raw = msgspec.Raw(b"null")


R = TypeVar("R", bound="AnyRequest[Any]")


class Review(Fields, Generic[R]):
    """A review as the API server sends it."""

    api_version: str
    kind: str
    request: R | None = None


class Status(msgspec.Struct, frozen=True):
    """The refusal of a request; ``reason`` is a word of the API (apimachinery pkg/apis/meta/v1/types.go)."""

    message: str
    reason: str
    code: int
    status: str = "Failure"


class Response(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The ``response`` of a review; ``bytes`` are written in base64, as the API asks of patches, ``Raw`` as it is."""

    uid: str
    allowed: bool
    status: Status | None = None
    patch: bytes | msgspec.Raw | None = None
    patch_type: str | None = None
    warnings: list[str] = []
    audit_annotations: dict[str, str] = {}


class Reply(msgspec.Struct, frozen=True, rename="camel"):
    """An answered review."""

    response: Response
    api_version: str = API_VERSION
    kind: str = KIND


def decode_request(
    body: bytes,
    decoder: msgspec.json.Decoder[Review[R]],
    *,
    is_ours: Callable[[AnyRequest[Any]], bool],
    resources: str,
    kind: str,
) -> R:
    """Returns the request of a review.

    Args:
        body: The body of the HTTP request.
        decoder: The decoder of reviews about objects of this kind.
        is_ours: Returns whether a request is about such objects.
        resources: The name of the expected resources in messages.
        kind: The name of an object in messages.

    Raises:
        MalformedReview: the body is not JSON, no ``admission.k8s.io/v1`` AdmissionReview, about something else, without
            the object that is created, a field that is read has another type than it should, or the uid or the
            namespace is not one that the API server sends.
    """
    try:
        review = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise MalformedReview(_explain(body, error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedReview(f"request body: expected JSON, found something else: {error}") from None
    except RecursionError:
        raise MalformedReview(_TOO_DEEP) from None
    _check_version(review.api_version, review.kind)
    if review.request is None:
        raise MalformedReview("request: expected the request of an AdmissionReview, found none")
    request = review.request
    if not is_ours(request):
        raise _misdirected(request, expected=resources)
    _check_names(request)
    if request.operation == "CREATE" and request.object is None:
        raise MalformedReview(f"request.object: expected the {kind} that is being created, found none")
    return request


def is_pod(request: AnyRequest[Any]) -> bool:
    """Returns whether the request is about a pod itself."""
    resource = request.resource
    return (resource.group, resource.version, resource.resource, request.sub_resource) == ("", "v1", "pods", "")


def is_binding(request: AnyRequest[Any]) -> bool:
    """Returns whether the request is about the Binding of a pod: ``pods/binding``, or the older ``bindings``.

    Both run the same code of the API server (kubernetes pkg/registry/core/pod/storage/storage.go, BindingREST and
    LegacyBindingREST).
    """
    resource = request.resource
    if (resource.group, resource.version) != ("", "v1"):
        return False
    return (resource.resource, request.sub_resource) in (("pods", "binding"), ("bindings", ""))


def _check_names(request: AnyRequest[Any]) -> None:
    """Checks the fields that the API server itself writes into each review.

    The name of the object is not checked here: the API server checks it after admission and reports its faults.
    """
    if not _UID.fullmatch(request.uid):
        raise MalformedReview(f"request.uid: expected a UUID, found {shorten(request.uid)}")
    # The namespace exists: the admission plugin NamespaceLifecycle comes before webhooks (apiserver
    # pkg/server/plugins.go).
    if not NAMESPACE.fullmatch(request.namespace):
        found = shorten(request.namespace)
        raise MalformedReview(f"request.namespace: expected the name of a namespace, found {found}")


def _misdirected(request: AnyRequest[Any], *, expected: str) -> MalformedReview:
    """Returns the error for a review that came to the wrong path, or that no path of this webhook is for."""
    resource, sub_resource = request.resource, request.sub_resource
    name = f"{resource.resource}/{sub_resource}" if sub_resource else resource.resource
    found = f"{name} of {'/'.join(filter(None, (resource.group, resource.version)))}"
    hint = ""
    if is_pod(request):
        hint = f": reviews of pods belong to {PODS_PATH}"
    elif is_binding(request):
        hint = f": reviews of Bindings belong to {BINDINGS_PATH}"
    return MalformedReview(f"request.resource: expected {expected}, found {fitted(found, 128)}. {_RULES}{hint}")


def _check_version(api_version: str, kind: str) -> None:
    if api_version != API_VERSION:
        raise MalformedReview(
            f"apiVersion: expected {API_VERSION}, found {shorten(api_version)}. "
            "Set admissionReviewVersions: [v1] in the MutatingWebhookConfiguration"
        )
    if kind != KIND:
        raise MalformedReview(f"kind: expected {KIND}, found {shorten(kind)}")


def _explain(body: bytes, error: msgspec.ValidationError) -> str:
    """Returns why a body does not fit: first its type, then the place where it differs."""
    try:
        document = msgspec.json.decode(body, type=_Head)
        api_version, kind = (msgspec.json.decode(raw) for raw in (document.api_version, document.kind))
    except UnicodeDecodeError as broken:
        return f"request body: expected JSON, found something else: {broken}"
    except msgspec.ValidationError:
        return "request body: expected an AdmissionReview object, found another JSON value"
    except msgspec.MsgspecError as broken:
        return f"request body: expected an AdmissionReview, found a number that cannot be read: {broken}"
    except RecursionError:
        return _TOO_DEEP
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return (
            f"request body: expected an AdmissionReview of {API_VERSION}, found an object without apiVersion and kind"
        )
    _check_version(api_version, kind)
    return f"AdmissionReview: {error}"
