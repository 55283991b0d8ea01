"""The use of each GPU: its number of processes and its used memory."""

from collections.abc import Callable
from typing import Any

import pynvml  # type: ignore[import-untyped]  # NVIDIA's bindings carry no types

from webhook.hardware.discovery.each_card import read_each_card
from webhook.hardware.discovery.facts import CardUsage


def read_usage() -> tuple[CardUsage, ...]:
    """Reads the use of the GPUs that can be reached now; none where NVML does not start or lists too many."""
    return read_each_card(_read_card)


def _read_card(_: int, handle: Any) -> CardUsage:
    compute = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    graphics = _ask(pynvml.nvmlDeviceGetGraphicsRunningProcesses, handle)
    told = [processes for processes in (compute, graphics) if processes is not None]
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)  # v1 counts the driver's own as used
    is_reserved_counted = memory is None
    memory = memory or _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return CardUsage(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        processes=sum(map(len, told)) if told else None,
        used_bytes=memory.used if memory else None,
        is_reserved_counted=bool(memory) and is_reserved_counted,
    )


def _ask(call: Callable[..., Any], *arguments: object) -> Any:
    try:
        return call(*arguments)
    except pynvml.NVMLError:
        return None
