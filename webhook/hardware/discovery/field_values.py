"""Values of NVML's fields, each read by the type that NVML gives it.

``nvmlDeviceGetFieldValues`` answers for many fields at once and succeeds as a whole. Each value has an error of its own
(``nvmlReturn``) or a type (``valueType``), which says which member of the union holds the value: ``nvml.h``. The type
of a field is not documented and may change with the driver. A counter of 64 bits must not be read as one of 32 bits:
NVLink's counter in KiB would begin again after 4 TiB, which is seconds or minutes of traffic.
"""

from collections.abc import Sequence
from typing import Any

import pynvml  # type: ignore[import-untyped]  # NVIDIA's bindings carry no types

from webhook.hardware.discovery.facts import FieldValue, ValueType

_MEMBERS = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: (ValueType.DOUBLE, "dVal"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: (ValueType.UNSIGNED_INT, "uiVal"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: (ValueType.UNSIGNED_LONG, "ulVal"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: (ValueType.UNSIGNED_LONG_LONG, "ullVal"),
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: (ValueType.SIGNED_LONG_LONG, "sllVal"),
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: (ValueType.SIGNED_INT, "siVal"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: (ValueType.UNSIGNED_SHORT, "usVal"),
}


def read_fields(handle: Any, ids: Sequence[int | tuple[int, int]]) -> tuple[FieldValue, ...]:
    """Reads fields of one GPU: one value for each of ``ids``, in the same order.

    Args:
        handle: The GPU, while NVML is started.
        ids: Fields, ``NVML_FI_DEV_...``, or pairs of a field and its scope; the scope is 0 unless given. For fields of
            NVLinks it is the number of the link.

    Raises:
        pynvml.NVMLError: the call as a whole fails, as with a driver that does not have it.
    """
    if not ids:  # NVML rejects an empty list as an invalid argument
        return ()
    return tuple(map(_field_value, pynvml.nvmlDeviceGetFieldValues(handle, ids)))


def _field_value(answer: Any) -> FieldValue:
    found = FieldValue(field=answer.fieldId, scope=answer.scopeId, error=answer.nvmlReturn)
    if found.error != pynvml.NVML_SUCCESS or answer.valueType not in _MEMBERS:
        return found
    type_, member = _MEMBERS[answer.valueType]
    return FieldValue(
        field=found.field,
        scope=found.scope,
        value=getattr(answer.value, member),
        type=type_,
        timestamp_us=answer.timestamp,
    )
