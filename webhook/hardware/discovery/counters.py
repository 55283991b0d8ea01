"""Traffic counters of each GPU from NVML: bytes over NVLink and PCIe since its driver was loaded, and utilisation.

NVLink's bytes are payload. Drivers count them for each link in one of two forms: in KiB (fields 138 and 139), and from
NVLink 5 on in bytes (202 and 204). ``nvml.h`` calls the latter unsupported on earlier links. Where a driver answers 0
in one form and counts in the other, the form in which it counts is taken. The scope ``UINT_MAX``, the sum of all links,
is never read: some libraries do not know it and may answer 0.

Counters need no privilege: NVIDIA's dcgm-exporter reads them as another user than root, without capabilities.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pynvml  # type: ignore[import-untyped]  # NVIDIA's bindings carry no types

from webhook.hardware.discovery.each_card import read_each_card
from webhook.hardware.discovery.facts import ByteCounter, CardCounters, Direction, FieldValue, ValueType
from webhook.hardware.discovery.field_values import read_fields

_Handle = Any
_Field = tuple[int, int]
"""A field and its scope."""
_NvlinkCounters = Mapping[tuple[Direction, int], ByteCounter]

_LINK_COUNT = (pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0)
_IN_BYTES = {
    pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES: Direction.TX,
    pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES: Direction.RX,
}
_IN_KIB = {
    pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX: Direction.TX,
    pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX: Direction.RX,
}
_NVLINK = _IN_BYTES | _IN_KIB
_PCIE = {pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES: Direction.TX, pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES: Direction.RX}
_UNITS = {**dict.fromkeys(_IN_BYTES, 1), **dict.fromkeys(_IN_KIB, 1024), **dict.fromkeys(_PCIE, 1)}
"""Bytes for each unit of a field."""
_BITS = {ValueType.UNSIGNED_INT: 32, ValueType.SIGNED_INT: 31, ValueType.UNSIGNED_SHORT: 16}
_MOST_BITS = 64
_ASKED_ANEW_AFTER = 40
"""Readings after which fields without a value are read again: a link may have come up."""


class CounterReader:
    """Reads the counters of all GPUs. It remembers the fields that each GPU has, and reads only those."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Field, ...]] = {}
        """The fields with a value, by the UUID of the GPU."""
        self._readings = 0

    def read(self) -> tuple[CardCounters, ...]:
        """Returns the present counters of the GPUs that can be reached; none where NVML does not start.

        Never raises an error of NVML. A GPU in MIG mode has no utilisation and no traffic over NVLink.
        """
        self._readings += 1
        if self._readings % _ASKED_ANEW_AFTER == 0:
            self._known.clear()
        return read_each_card(self._read_card)

    def _read_card(self, index: int, handle: _Handle) -> CardCounters:
        uuid = pynvml.nvmlDeviceGetUUID(handle)
        values = self._values(handle, uuid)
        counters = _counters(values)
        forms = tuple(_nvlink(counters, form) for form in (_IN_BYTES, _IN_KIB))
        times = (value.timestamp_us for value in values if value.field in _NVLINK and value.unsigned is not None)
        return CardCounters(
            index=index,
            uuid=uuid,
            nvlink=_chosen(forms),
            nvlink_forms=forms,
            nvlink_read_us=min(times, default=0),
            pcie={way: counters[of, 0] for of, way in _PCIE.items() if (of, 0) in counters},
            utilization=_read_utilization(handle),
        )

    def _values(self, handle: _Handle, uuid: str) -> tuple[FieldValue, ...]:
        known = self._known.get(uuid)
        fields = _fields(handle) if known is None else known
        values = _read(handle, fields)
        answered = {(value.field, value.scope) for value in values if value.unsigned is not None}
        if known is None:
            self._known[uuid] = tuple(field for field in fields if field in answered)
        elif len(answered) < len(known):
            del self._known[uuid]
        return values


def _fields(handle: _Handle) -> tuple[_Field, ...]:
    """Returns all fields that a GPU may have, with those of each NVLink that its link count covers."""
    (count,) = _read(handle, (_LINK_COUNT,)) or (FieldValue(field=0),)
    links = range(min(count.unsigned or 0, pynvml.NVML_NVLINK_MAX_LINKS))
    return (*((of, 0) for of in _PCIE), *((of, link) for of in (*_IN_BYTES, *_IN_KIB) for link in links))


def _read(handle: _Handle, fields: Sequence[_Field]) -> tuple[FieldValue, ...]:
    """Returns the values of fields; none from a driver that has no fields.

    Raises:
        pynvml.NVMLError: the GPU is lost.
    """
    try:
        return read_fields(handle, fields)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise
        return ()


def _counters(values: Iterable[FieldValue]) -> dict[_Field, ByteCounter]:
    """Returns the counters, in bytes, of the fields that have a value."""
    found = {}
    for value in values:
        number = value.unsigned
        bits = _BITS.get(value.type, _MOST_BITS) if value.type else _MOST_BITS
        # All ones mean "not available" in NVML.
        if number is not None and number < 2**bits - 1 and value.field in _UNITS:
            unit = _UNITS[value.field]
            found[value.field, value.scope] = ByteCounter(number * unit, 2**bits * unit)
    return found


def _nvlink(counters: Mapping[_Field, ByteCounter], form: Mapping[int, Direction]) -> _NvlinkCounters:
    """Returns the NVLink counters of one form, by direction and link."""
    return {(form[of], link): counter for (of, link), counter in counters.items() if of in form}


def _chosen(forms: Sequence[_NvlinkCounters]) -> _NvlinkCounters:
    """Returns the first form that has moved; where none has, the first that the driver has."""
    moved = (form for form in forms if any(counter.bytes for counter in form.values()))
    return next(moved, next(filter(None, forms), {}))


def _read_utilization(handle: _Handle) -> float | None:
    try:
        percent: int = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise
        return None
    return percent / 100.0 if percent <= 100 else None
