"""The annotations of HAMi: ``A:B:;C:;``, every container ended by a semicolon (HAMi pkg/device/devices.go)."""

import re
from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from webhook.decisions.allocation.dialect import Dialect
from webhook.decisions.allocation.limit import BY_LENGTH, AllocationLimits
from webhook.decisions.allocation.model import Allocation, Device
from webhook.decisions.allocation.segments import check_read_back, read_segments, write_segments
from webhook.decisions.allocation.strict_json import described, read_json
from webhook.words import names
from webhook.words.errors import FormatError, LimitError

_END = ";"
_FIELDS = 4
_DIGITS = 9
"""The most digits of an amount. HAMi reads 32 bits."""
_MIG_LIST = "a list of MIG instances in JSON, each with gpuUUID"
_MIG_FIX = "Delete the annotation if the pod's GPUs are not in MIG mode"
_UNNAMED_PROFILE = "mig"
_GPU_UUID = re.compile(r"GPU-[0-9A-Za-z-]*")


def parse_hami(text: str, source: str, limits: AllocationLimits = BY_LENGTH) -> Allocation:
    """Returns one segment for each container that the version of HAMi counts; the last semicolon may be missing.

    Raises:
        FormatError: a UUID or a number is malformed, or the text is longer than 64 Ki characters.
        LimitError: there are too many segments or devices.
    """
    return Allocation(segments=read_segments(text.removesuffix(_END), source, limits) if text else ())


class Counted(NamedTuple):
    """A part of a card, or a whole one, that HAMi counts as used by one container."""

    uuid: str
    memory_mib: int
    cores: int
    """Cores in per cent of the card."""


def counted_parts(text: str) -> tuple[Counted, ...]:
    """Returns what HAMi counts as used by a pod with this list of devices, for each container and card.

    HAMi reads the list less strictly than ``parse_hami``: a number that is none counts as 0, but a device with fewer
    than four fields voids the list (pkg/device/devices.go, DecodeContainerDevices). HAMi 2.10 counts the greater of
    what init containers and the others use of a card; here both are counted.
    """
    pieces = [piece for segment in text.split(_END) for piece in segment.split(":") if "," in piece]
    devices = [piece.split(",", _FIELDS) for piece in pieces]
    if any(len(fields) < _FIELDS for fields in devices):
        return ()
    return tuple(
        Counted(uuid, _amount(fields[2]), _amount(fields[3]))
        for fields in devices
        if (uuid := fields[0].partition("[")[0])
    )


def _amount(text: str) -> int:
    return int(text) if len(text) <= _DIGITS and text.isascii() and text.isdigit() else 0


def format_hami(allocation: Allocation) -> str:
    """Returns the annotation's value as HAMi 2.10 writes it, but MIG instances as HAMi up to 2.9 writes them.

    Later versions write the profile of an instance into an annotation of its own.

    Raises:
        FormatError: the form has no place for the allocation, for example for a device without a UUID.
    """
    text = "".join(segment + _END for segment in write_segments(allocation.segments))
    return check_read_back(text, parse_hami(text, "the allocation"), allocation, names.HAMI_DEVICES_ALLOCATED)


DIALECT = Dialect(
    family="hami",
    key=names.HAMI_DEVICES_ALLOCATED,
    node_key=names.HAMI_ALLOCATED_NODE,
    parse=parse_hami,
    format=format_hami,
)


def parse_mig_allocations(text: str, source: str, limits: AllocationLimits = BY_LENGTH) -> dict[str, str]:
    """Reads ``hami.io/vgpu-mig-allocations`` of HAMi 2.10 (pkg/device/nvidia/mig_allocations.go).

    Returns:
        The UUIDs of the GPUs that are cut, each with the profiles of the pod's instances on it: ``1g.10gb``, or ``mig``
        if the annotation names none.

    Raises:
        FormatError: ``text`` is no list of objects with ``gpuUUID``, or a profile is no text.
        LimitError: there are more instances than devices allowed.
    """
    instances = read_json(text, source, expected=_MIG_LIST)
    if instances is not None and not isinstance(instances, list):
        raise FormatError(source, expected=_MIG_LIST, found=described(instances), fix=_MIG_FIX)
    limits.check_devices(len(instances or ()), source)
    profiles: dict[str, dict[str, None]] = {}
    for position, instance in enumerate(instances or []):
        uuid, profile = _instance(instance, f"{source}: [{position}]")
        told = profiles.setdefault(uuid, {})
        if profile:
            told[profile] = None
    return {uuid: " or ".join(told) or _UNNAMED_PROFILE for uuid, told in profiles.items()}


def with_mig_instances(allocation: Allocation, text: str, source: str, limits: AllocationLimits) -> Allocation:
    """Returns the allocation with the devices marked that ``hami.io/vgpu-mig-allocations`` names.

    HAMi never deletes that annotation, so one from an earlier attempt may stand beside an allocation of whole GPUs. It
    then names other GPUs and changes nothing. An annotation that cannot be read is ignored only if it names GPUs, and
    none of the allocation: an instance must not pass as a whole GPU, and an old annotation must not stop a pod.

    Raises:
        FormatError: the text cannot be read, and may be about the GPUs of the allocation.
        LimitError: there are more instances than devices allowed.
    """
    try:
        profiles = parse_mig_allocations(text, source, limits)
    except LimitError:
        raise
    except FormatError as error:
        if _names_only_others(text, allocation):
            return allocation
        raise FormatError(error.source, expected=error.expected, found=error.found, fix=_MIG_FIX) from None
    return replace(allocation, segments=tuple(_marked(segment, profiles) for segment in allocation.segments))


def _marked(segment: tuple[Device, ...], profiles: Mapping[str, str]) -> tuple[Device, ...]:
    return tuple(replace(device, mig=profiles.get(device.uuid, device.mig)) for device in segment)


def _instance(value: object, where: str) -> tuple[str, str]:
    """Returns UUID and profile of an instance; the profile may be empty."""
    uuid, profile = (value.get("gpuUUID"), value.get("profile")) if isinstance(value, dict) else (None, None)
    if not isinstance(uuid, str) or not uuid or not uuid.isprintable():
        found = f"gpuUUID {described(uuid)}" if isinstance(value, dict) else described(value)
        raise FormatError(where, expected='an object with gpuUUID "GPU-..."', found=found, fix=_MIG_FIX)
    profile = "" if profile is None else profile
    if not isinstance(profile, str) or not profile.isprintable():
        raise FormatError(
            f"{where}.profile", expected='a profile such as "1g.10gb"', found=described(profile), fix=_MIG_FIX
        )
    return uuid, profile


def _names_only_others(text: str, allocation: Allocation) -> bool:
    """Returns whether a text names GPUs, and none of the allocation.

    A text that was cut off may end within a UUID: a possible beginning of a UUID of the allocation counts as that UUID.
    """
    named = set(_GPU_UUID.findall(text))
    ours = {device.uuid for device in allocation.devices}
    return bool(named) and not _begins_one(named, ours) and not _begins_one(ours, named)


def _begins_one(beginnings: Collection[str], texts: Collection[str]) -> bool:
    """Returns whether one of ``texts`` begins with one of ``beginnings``.

    Among the sorted texts, one that begins so is the first that is not before the beginning.
    """
    ordered = sorted(texts)
    return any(text.startswith(beginning) for beginning in beginnings for text in _from(ordered, beginning))


def _from(ordered: list[str], beginning: str) -> list[str]:
    """Returns the first of the ordered texts that is not before ``beginning``, if there is one."""
    place = bisect_left(ordered, beginning)
    return ordered[place : place + 1]
