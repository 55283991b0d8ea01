"""The annotation of Volcano: ``A:B:;C:``, a semicolon between containers and none at the end.

Volcano pkg/scheduler/api/devices/nvidia/vgpu/utils.go, encodePodDevices.
"""

from webhook.decisions.allocation.dialect import Dialect
from webhook.decisions.allocation.limit import BY_LENGTH, AllocationLimits
from webhook.decisions.allocation.model import Allocation
from webhook.decisions.allocation.segments import check_read_back, read_segments, write_segments
from webhook.words import names

_BETWEEN = ";"


def parse_volcano(text: str, source: str, limits: AllocationLimits = BY_LENGTH) -> Allocation:
    """Returns one segment for each piece between semicolons, empty pieces included, also one after the last semicolon.

    Raises:
        FormatError: a UUID or a number is malformed, or the text is longer than 64 Ki characters.
        LimitError: there are too many segments or devices.
    """
    segments = read_segments(text, source, limits)
    return Allocation(segments=() if segments == ((),) else segments)


def format_volcano(allocation: Allocation) -> str:
    """Returns the annotation's value as the scheduler writes it.

    Raises:
        FormatError: the form has no place for the allocation, for example for a device without a UUID.
    """
    text = _BETWEEN.join(write_segments(allocation.segments))
    return check_read_back(text, parse_volcano(text, "the allocation"), allocation, names.VOLCANO_DEVICES_ALLOCATED)


DIALECT = Dialect(
    family="volcano",
    key=names.VOLCANO_DEVICES_ALLOCATED,
    node_key=names.VOLCANO_ALLOCATED_NODE,
    parse=parse_volcano,
    format=format_volcano,
)
