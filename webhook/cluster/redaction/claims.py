"""The reduction of ResourceClaims, their templates and ResourceSlices: see :mod:`webhook.cluster.redaction.objects`.

Of the parameters for drivers only the strategy of sharing is kept, and no selector.
"""

from collections.abc import Callable, Mapping
from typing import Any

from webhook.cluster.redaction.parts import only, part, parts, texts, words

Object = dict[str, Any]

VERSION = "resource.k8s.io/v1"
CLAIM, TEMPLATE, SLICE = KINDS = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")


def _of_version(read: Callable[[Mapping[str, Any]], Object]) -> Callable[[Mapping[str, Any]], Object | None]:
    """Restrict a reader to the present version of the API. Nothing here reads the fields of earlier versions."""
    return lambda document: read(document) if document.get("apiVersion") == VERSION else None


@_of_version
def kept_claim(document: Mapping[str, Any]) -> Object:
    """Keep the requests of a claim, its allocation, and the pods that may use it."""
    status = part(document, "status")
    found: Object = {}
    if "allocation" in status:
        found["allocation"] = {"devices": _allocated(part(part(status, "allocation"), "devices"))}
    consumers = [only(each, str, "resource", "name", "uid") for each in parts(status, "reservedFor")]
    if consumers:
        found["reservedFor"] = consumers
    return {"metadata": _metadata(document), "spec": _spec(part(document, "spec")), "status": found}


@_of_version
def kept_template(document: Mapping[str, Any]) -> Object:
    """Keep the requests of the claims that are made from a template."""
    spec = part(part(document, "spec"), "spec")
    return {"metadata": _metadata(document), "spec": {"spec": _spec(spec)}}


@_of_version
def kept_slice(document: Mapping[str, Any]) -> Object:
    """Keep the devices of a slice: attributes that are texts or numbers, such as UUIDs, and capacities."""
    spec = part(document, "spec")
    pool = part(spec, "pool")
    found = only(spec, str, "driver", "nodeName")
    found["pool"] = only(pool, str, "name") | only(pool, int, "generation", "resourceSliceCount")
    found["devices"] = list(map(_device, parts(spec, "devices")))
    return {"metadata": _metadata(document), "spec": found}


def _metadata(document: Mapping[str, Any]) -> Object:
    found = part(document, "metadata")
    owners = [
        only(owner, str, "kind", "name", "uid") | only(owner, bool, "controller")
        for owner in parts(found, "ownerReferences")
    ]
    return only(found, str, "name", "namespace", "uid") | ({"ownerReferences": owners} if owners else {})


def _spec(spec: Mapping[str, Any]) -> Object:
    devices = part(spec, "devices")
    found: Object = {"requests": list(map(_request, parts(devices, "requests")))}
    return {"devices": found | _configurations(devices)}


def _request(request: Mapping[str, Any]) -> Object:
    found = only(request, str, "name")
    if "exactly" in request:
        found["exactly"] = _exactly(part(request, "exactly"))
    if "firstAvailable" in request:
        found["firstAvailable"] = list(map(_exactly, parts(request, "firstAvailable")))
    return found


def _exactly(asked: Mapping[str, Any]) -> Object:
    found = only(asked, str, "name", "deviceClassName", "allocationMode") | only(asked, bool, "adminAccess")
    found |= only(asked, int, "count")
    amounts = _amounts(part(part(asked, "capacity"), "requests"))
    return found | ({"capacity": {"requests": amounts}} if amounts else {})


def _allocated(devices: Mapping[str, Any]) -> Object:
    return {"results": list(map(_result, parts(devices, "results")))} | _configurations(devices)


def _result(result: Mapping[str, Any]) -> Object:
    found = only(result, str, "request", "driver", "pool", "device", "shareID") | only(result, bool, "adminAccess")
    amounts = _amounts(part(result, "consumedCapacity"))
    return found | ({"consumedCapacity": amounts} if amounts else {})


def _configurations(devices: Mapping[str, Any]) -> Object:
    found = []
    for each in parts(devices, "config"):
        opaque = part(each, "opaque")
        sharing = only(part(part(opaque, "parameters"), "sharing"), str, "strategy")
        if sharing:
            kept = only(opaque, str, "driver") | {"parameters": {"sharing": sharing}}
            found.append({"requests": list(words(each, "requests")), "opaque": kept})
    return {"config": found} if found else {}


def _device(device: Mapping[str, Any]) -> Object:
    attributes = {
        name: kept
        for name, value in part(device, "attributes").items()
        if isinstance(value, Mapping) and (kept := only(value, str, "string") or only(value, int, "int"))
    }
    capacity = {
        name: {"value": value["value"]}
        for name, value in part(device, "capacity").items()
        if isinstance(value, Mapping) and isinstance(value.get("value"), str | int)
    }
    return only(device, str, "name") | {"attributes": attributes} | ({"capacity": capacity} if capacity else {})


def _amounts(found: Mapping[str, Any]) -> Object:
    return texts({"found": found}, "found")
