"""One reading of each GPU. It starts and ends NVML, so that a driver can be unloaded before the next reading."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import pynvml  # type: ignore[import-untyped]  # NVIDIA's bindings carry no types

_Read = TypeVar("_Read")


def read_each_card(read: Callable[[int, Any], _Read]) -> tuple[_Read, ...]:
    """Reads the GPUs that can be reached now; none where NVML does not start. Raises no error of NVML.

    Args:
        read: Takes the index of a GPU and its handle. GPUs for which it raises an error of NVML are left out.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    found = []
    try:
        with suppress(pynvml.NVMLError):
            for index in range(pynvml.nvmlDeviceGetCount()):
                with suppress(pynvml.NVMLError, UnicodeDecodeError):  # a lost GPU gives no answer
                    found.append(read(index, pynvml.nvmlDeviceGetHandleByIndex(index)))
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
    return tuple(found)
