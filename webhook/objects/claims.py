"""The fields of ResourceClaims, templates and ResourceSlices that are read: resource.k8s.io/v1, k8s.io/api resource/v1.

Kubernetes 1.34 is the first version that serves ``v1``. Earlier versions have other fields, and the feature is off
there.
"""

from typing import Any, TypeVar

import msgspec

from webhook.objects.pod import Fields, Quantity
from webhook.words.errors import FormatError
from webhook.words.nesting import decode_answer
from webhook.words.shape import shape_problem

T = TypeVar("T")

VERSION = "resource.k8s.io/v1"
CLAIM, TEMPLATE, SLICE = KINDS = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")


class ClaimFields(Fields, omit_defaults=True):
    """The base of these types, which are also written: into a saved state, and as what is kept of an object."""


class Owner(ClaimFields):
    """An entry of ``metadata.ownerReferences``."""

    uid: str = ""
    controller: bool | None = None


class ObjectMetadata(ClaimFields):
    """The ``metadata`` of an object."""

    name: str = ""
    namespace: str = ""
    owner_references: list[Owner] | None = None


class CapacityRequest(ClaimFields):
    """The ``capacity`` of a request: the amounts of a device that several claims may share."""

    requests: dict[str, Quantity] | None = None


class ExactRequest(ClaimFields):
    """The ``exactly`` of a request, or an entry of ``firstAvailable``."""

    name: str = ""
    """The name of an entry of ``firstAvailable``."""
    device_class_name: str = ""
    allocation_mode: str | None = None
    """The mode: ``ExactCount``, which is the default, or ``All``."""
    count: int | None = None
    """The number of devices; 1 if absent."""
    admin_access: bool | None = None
    capacity: CapacityRequest | None = None


class DeviceRequest(ClaimFields):
    """An entry of ``spec.devices.requests``, with either ``exactly`` or ``firstAvailable``."""

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: list[ExactRequest] | None = None

    @property
    def alternatives(self) -> list[ExactRequest]:
        """The alternatives that may be allocated, the best first."""
        return [self.exactly] if self.exactly else self.first_available or []


class Opaque(ClaimFields):
    """Parameters for one driver."""

    driver: str = ""
    parameters: Any = None


class DeviceConfiguration(ClaimFields):
    """An entry of ``devices.config``."""

    requests: list[str] | None = None
    """The requests that the entry is for; empty: all."""
    opaque: Opaque | None = None


class DeviceClaim(ClaimFields):
    """The ``spec.devices`` of a ResourceClaim."""

    requests: list[DeviceRequest] | None = None
    config: list[DeviceConfiguration] | None = None


class ClaimSpec(ClaimFields):
    """The ``spec`` of a ResourceClaim, and of the claims that a template makes."""

    devices: DeviceClaim | None = None


class Result(ClaimFields):
    """An entry of ``status.allocation.devices.results``: one device."""

    request: str = ""
    """The name of the request: ``main``, or ``main/alternative``."""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: dict[str, Quantity] | None = None


class AllocatedDevices(ClaimFields):
    """The ``status.allocation.devices`` of a ResourceClaim."""

    results: list[Result] | None = None
    config: list[DeviceConfiguration] | None = None


class ClaimAllocation(ClaimFields):
    """The ``status.allocation`` of a ResourceClaim."""

    devices: AllocatedDevices | None = None


class Consumer(ClaimFields):
    """An entry of ``status.reservedFor``."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class ClaimStatus(ClaimFields):
    """The ``status`` of a ResourceClaim."""

    allocation: ClaimAllocation | None = None
    reserved_for: list[Consumer] | None = None


class ResourceClaim(ClaimFields):
    """A ResourceClaim."""

    metadata: ObjectMetadata = msgspec.field(default_factory=ObjectMetadata)
    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: ClaimStatus | None = None

    @property
    def allocation(self) -> AllocatedDevices | None:
        """The devices that the claim was given; ``None`` if it was given none yet."""
        allocation = self.status.allocation if self.status else None
        return (allocation.devices or AllocatedDevices()) if allocation else None

    @property
    def consumers(self) -> list[Consumer]:
        """The pods, or groups of pods, that may use the claim now."""
        return (self.status.reserved_for if self.status else None) or []


class TemplateSpec(ClaimFields):
    """The ``spec`` of a ResourceClaimTemplate."""

    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)


class ResourceClaimTemplate(ClaimFields):
    """A ResourceClaimTemplate."""

    metadata: ObjectMetadata = msgspec.field(default_factory=ObjectMetadata)
    spec: TemplateSpec = msgspec.field(default_factory=TemplateSpec)


class Attribute(ClaimFields):
    """The value of an attribute, in one of the fields."""

    string: str | None = None
    version: str | None = None
    int_: int | None = msgspec.field(name="int", default=None)
    bool_: bool | None = msgspec.field(name="bool", default=None)


class Capacity(ClaimFields):
    """The value of a capacity."""

    value: Quantity = ""


class SliceDevice(ClaimFields):
    """An entry of ``spec.devices``."""

    name: str = ""
    attributes: dict[str, Attribute] | None = None
    capacity: dict[str, Capacity] | None = None

    def text(self, attribute: str, driver: str) -> str:
        """Returns an attribute as text; empty if it is missing or not text.

        A name without a domain belongs to the driver, which may also spell its domain out: k8s.io/api resource/v1,
        QualifiedName.
        """
        attributes = self.attributes or {}
        found = attributes.get(attribute) or attributes.get(f"{driver}/{attribute}")
        return (found.string if found else None) or ""

    def numbers(self, driver: str) -> dict[str, int]:
        """Returns the attributes of the driver that are numbers, by their names without a domain."""
        attributes, own = self.attributes or {}, f"{driver}/"
        return {name.removeprefix(own): value.int_ for name, value in attributes.items() if value.int_ is not None}


class Pool(ClaimFields):
    """The ``spec.pool`` of a ResourceSlice."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(ClaimFields):
    """The ``spec`` of a ResourceSlice."""

    driver: str = ""
    pool: Pool = msgspec.field(default_factory=Pool)
    node_name: str | None = None
    devices: list[SliceDevice] | None = None


class ResourceSlice(ClaimFields):
    """A ResourceSlice."""

    metadata: ObjectMetadata = msgspec.field(default_factory=ObjectMetadata)
    spec: SliceSpec = msgspec.field(default_factory=SliceSpec)


def decode_claim(document: bytes, source: str) -> ResourceClaim:
    """Returns a ResourceClaim from JSON.

    Raises:
        FormatError: the document is not a ResourceClaim.
    """
    return _decode(_CLAIM, document, source, "a ResourceClaim")


def decode_template(document: bytes, source: str) -> ResourceClaimTemplate:
    """Returns a ResourceClaimTemplate from JSON.

    Raises:
        FormatError: the document is not a ResourceClaimTemplate.
    """
    return _decode(_TEMPLATE, document, source, "a ResourceClaimTemplate")


def decode_slice(document: bytes, source: str) -> ResourceSlice:
    """Returns a ResourceSlice from JSON.

    Raises:
        FormatError: the document is not a ResourceSlice.
    """
    return _decode(_SLICE, document, source, "a ResourceSlice")


def _decode(decoder: msgspec.json.Decoder[T], document: bytes, source: str, expected: str) -> T:
    try:
        return decode_answer(decoder, document)
    except msgspec.DecodeError as error:
        raise FormatError(source, expected=expected, found=shape_problem(error)) from None


_CLAIM = msgspec.json.Decoder(ResourceClaim)
_TEMPLATE = msgspec.json.Decoder(ResourceClaimTemplate)
_SLICE = msgspec.json.Decoder(ResourceSlice)
