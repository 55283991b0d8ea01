"""The annotation ``gpu.topology/claimed-gpus``: the GPUs that resource claims gave to the containers of a pod.

A container in the pod cannot read the claims, which are objects of their own. So bind writes their GPUs down:
``main=GPU-a,GPU-b;helper=GPU-a,GPU-b``. A MIG instance has the name of its device in brackets:
``GPU-a[gpu-0-mig-1g24gb-19-0]``.
"""

import re

from webhook.decisions.allocation.dialect import Dialect
from webhook.decisions.allocation.limit import BY_LENGTH, AllocationLimits, check_length
from webhook.decisions.allocation.model import Allocation, Device
from webhook.decisions.allocation.segments import check_read_back
from webhook.words import names
from webhook.words.errors import FormatError

_SEGMENT = re.compile(r"([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)=(.*)")
_DEVICE = re.compile(r"([A-Za-z0-9][-A-Za-z0-9]*)(?:\[([-.A-Za-z0-9]+)\])?")


def parse_claimed(text: str, source: str, limits: AllocationLimits = BY_LENGTH) -> Allocation:
    """Returns one segment for each container, with its name.

    Raises:
        FormatError: a segment names no container, or names one for the second time; or a device is malformed.
        LimitError: there are too many segments or devices.
    """
    check_length(text, source)
    pieces = text.split(";") if text else []
    limits.check_segments(len(pieces), source)
    limits.check_devices(text.count(",") + len(pieces), source)
    found: dict[str, tuple[Device, ...]] = {}
    for position, piece in enumerate(pieces, start=1):
        where = f"{source}: segment {position}"
        match = _SEGMENT.fullmatch(piece)
        if not match or match[1] in found:
            raise FormatError(where, expected='another container with its GPUs, such as "main=GPU-5c3f"', found=piece)
        found[match[1]] = tuple([_device(device, where) for device in match[2].split(",")])
    return Allocation(segments=tuple(found.values()), containers=tuple(found))


def format_claimed(allocation: Allocation) -> str:
    """Returns the annotation's value.

    Raises:
        FormatError: the form has no place for the allocation.
    """
    text = ";".join(
        f"{container}={','.join(map(_written, devices))}"
        for container, devices in zip(allocation.containers, allocation.segments, strict=True)
    )
    return check_read_back(text, parse_claimed(text, "the allocation"), allocation, names.CLAIMED_GPUS)


def _device(text: str, where: str) -> Device:
    match = _DEVICE.fullmatch(text)
    if not match:
        raise FormatError(where, expected='a UUID such as "GPU-5c3f"', found=text)
    return Device(uuid=match[1], mig=match[2] or "")


def _written(device: Device) -> str:
    return f"{device.uuid}[{device.mig}]" if device.mig else device.uuid


FAMILY = "claim"
DIALECT = Dialect(family=FAMILY, key=names.CLAIMED_GPUS, node_key="", parse=parse_claimed, format=format_claimed)
