"""One reading of each GPU. It starts and ends NVML, so that a driver can be unloaded before the next reading."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import pynvml  # type: ignore[import-untyped]  # NVIDIA's bindings carry no types

from webhook.hardware.topology.consistency import MAX_GPUS
from webhook.words.errors import FormatError

_Read = TypeVar("_Read")


def listed_cards() -> range:
    """Returns the indices of the GPUs that the driver lists. NVML must have been started.

    Raises:
        pynvml.NVMLError: the driver does not tell.
        FormatError: it lists more GPUs than a topology may have, so that none of them is asked anything.
    """
    count = pynvml.nvmlDeviceGetCount()
    if count > MAX_GPUS:
        fix = "No machine has so many: compare nvidia-smi -L with lspci, and see dmesg"
        raise FormatError(
            "nvmlDeviceGetCount of the NVIDIA driver", expected=f"at most {MAX_GPUS} GPUs", found=count, fix=fix
        )
    return range(count)


def read_each_card(read: Callable[[int, Any], _Read]) -> tuple[_Read, ...]:
    """Reads the GPUs that can be reached now; none where NVML does not start or lists too many.

    Raises no error of NVML.

    Args:
        read: Takes the index of a GPU and its handle. GPUs for which it raises an error of NVML are left out.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    found = []
    try:
        with suppress(pynvml.NVMLError, FormatError):
            for index in listed_cards():
                with suppress(pynvml.NVMLError, UnicodeDecodeError):  # a lost GPU gives no answer
                    found.append(read(index, pynvml.nvmlDeviceGetHandleByIndex(index)))
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
    return tuple(found)
