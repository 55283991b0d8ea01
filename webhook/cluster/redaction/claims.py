"""The reduction of ResourceClaims, their templates and ResourceSlices: see :mod:`webhook.cluster.redaction.objects`.

The structs of :mod:`webhook.objects.claims` are the list of what is kept. Of the parameters for drivers, which may be
anything, only the strategy of sharing is kept.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from webhook.cluster.redaction.parts import only, part
from webhook.objects.claims import VERSION, DeviceConfiguration, ResourceClaim, ResourceClaimTemplate, ResourceSlice

Object = dict[str, Any]


def kept_claim(document: Mapping[str, Any]) -> Object | None:
    """Keep the requests of a claim, its allocation, and the pods that may use it."""
    claim = _read(document, ResourceClaim)
    if claim is None:
        return None
    if claim.spec.devices:
        _cut_parameters(claim.spec.devices.config)
    if claim.allocation:
        _cut_parameters(claim.allocation.config)
    return _written(claim)


def kept_template(document: Mapping[str, Any]) -> Object | None:
    """Keep the requests of the claims that are made from a template."""
    template = _read(document, ResourceClaimTemplate)
    if template is None:
        return None
    if template.spec.spec.devices:
        _cut_parameters(template.spec.spec.devices.config)
    return _written(template)


def kept_slice(document: Mapping[str, Any]) -> Object | None:
    """Keep the devices of a slice: their attributes, such as UUIDs, and capacities."""
    found = _read(document, ResourceSlice)
    return None if found is None else _written(found)


_T = TypeVar("_T", ResourceClaim, ResourceClaimTemplate, ResourceSlice)


def _read(document: Mapping[str, Any], kind: type[_T]) -> _T | None:
    """Return the fields of an object; None for another version of the API, and for what no API server accepts."""
    if document.get("apiVersion") != VERSION:
        return None
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError:
        return None


def _cut_parameters(configurations: list[DeviceConfiguration] | None) -> None:
    for each in configurations or ():
        if each.opaque:
            parameters = each.opaque.parameters if isinstance(each.opaque.parameters, Mapping) else {}
            sharing = only(part(parameters, "sharing"), str, "strategy")
            each.opaque.parameters = {"sharing": sharing} if sharing else None


def _written(found: ResourceClaim | ResourceClaimTemplate | ResourceSlice) -> Object:
    written: Object = msgspec.to_builtins(found)
    return written
