"""The grammar that HAMi and Volcano share: ``uuid,type,MiB,percent:`` for each device, ``;`` between containers.

It is written by EncodePodSingleDevice of HAMi pkg/device/devices.go, and by encodePodDevices of Volcano
pkg/scheduler/api/devices/nvidia/vgpu/utils.go. Their decoders take the first four fields of a device and ignore more.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from webhook.decisions.allocation.limit import AllocationLimits, check_length
from webhook.decisions.allocation.model import Allocation, Device
from webhook.words.errors import FormatError

Segments = tuple[tuple[Device, ...], ...]

MEMORABLE = 1024
"""The most characters of a text that is cached, about those of 16 GPUs: users can write longer texts."""
_FIELDS = 4
_UUID = re.compile(r"([!-Z\\^-~]+)(?:\[([!-Z\\^-~]+)\])?")
"""The UUID of a GPU. In HAMi up to 2.9 and in Volcano, group and position in brackets name a MIG instance on it."""
_NUMBER = re.compile(r"[0-9]{1,10}")


def read_segments(text: str, source: str, limits: AllocationLimits) -> Segments:
    """Returns the pieces between semicolons, each with its devices; the text after the last semicolon is a piece, too.

    A device without a UUID is skipped: HAMi 2.5 writes ``,,0,0:`` for a container without GPUs
    (pkg/scheduler/score.go), whose segment stays in its place, empty. HAMi's decoders also skip an incomplete device;
    here that is an error, because the segment would name fewer cards than the container got.

    Args:
        text: The annotation's value.
        source: The name of the annotation in messages.
        limits: The limits of the allocation. Each text between two colons counts as a device.

    Raises:
        FormatError: a UUID or a number is malformed, or the text is longer than 64 Ki characters.
        LimitError: there are too many segments or devices.
    """
    check_length(text, source)
    limits.check_segments(text.count(";") + 1, source)
    limits.check_devices(text.count(":"), source)
    try:
        return _known_segments(text) if len(text) <= MEMORABLE else _segments(text, _device)
    except _BadFieldError as error:
        raise FormatError(source + error.place, expected=error.expected, found=error.found) from None


def write_segments(segments: Sequence[Sequence[Device]]) -> list[str]:
    """Returns the texts between the semicolons."""
    return ["".join(_written(device) for device in segment) for segment in segments]


def check_read_back(text: str, read: Allocation, allocation: Allocation, key: str) -> str:
    """Returns ``text`` if it holds all of ``allocation``: not every form has a place for everything.

    Raises:
        FormatError: ``read``, the allocation that ``text`` was read as, is another one.
    """
    if read != allocation:
        raise FormatError("the allocation", expected=f"what annotation {key} can hold", found=allocation)
    return text


class _BadFieldError(Exception):
    """A field of a segment is malformed; ``place`` names the segment."""

    def __init__(self, expected: str, found: str, place: str = "") -> None:
        self.expected, self.found, self.place = expected, found, place
        super().__init__(expected)


def _segments(text: str, device: Callable[[str], Device | None]) -> Segments:
    if not text.isprintable():
        raise _BadFieldError("printable characters", text)
    segments = []
    for position, segment in enumerate(text.split(";"), start=1):
        try:
            segments.append(tuple([found for piece in segment.split(":") if piece and (found := device(piece))]))
        except _BadFieldError as error:
            raise _BadFieldError(error.expected, error.found, f": segment {position}") from None
    return tuple(segments)


# The same whole nodes and well-linked cards are allocated again and again.
@lru_cache(maxsize=1024)
def _known_segments(text: str) -> Segments:
    return _segments(text, _known_device)


# A whole card is written in the same way each time that it is allocated.
@lru_cache(maxsize=4096)
def _known_device(piece: str) -> Device | None:
    return _device(piece)


def _device(piece: str) -> Device | None:
    fields = piece.split(",")
    if not fields[0]:
        return None
    if len(fields) < _FIELDS:
        raise _BadFieldError("uuid,type,MiB,percent for each device", piece)
    uuid, kind, memory, cores, *_ = fields
    match = _UUID.fullmatch(uuid)
    if not match:
        raise _BadFieldError('a UUID such as "GPU-5c3f..." or "GPU-5c3f...[1-0]"', uuid)
    return Device(
        uuid=match[1],
        kind=kind,
        memory_mib=_number(memory, "MiB of memory"),
        cores=_number(cores, "cores in percent"),
        mig=match[2] or "",
    )


def _number(text: str, what: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise _BadFieldError(f'a number for {what}, such as "100"', text)
    return int(text)


def _written(device: Device) -> str:
    uuid = f"{device.uuid}[{device.mig}]" if device.mig else device.uuid
    return f"{uuid},{device.kind},{device.memory_mib},{device.cores}:"
