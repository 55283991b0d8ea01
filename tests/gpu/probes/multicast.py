"""``multicast UUID``: a multicast object of one card is made, bound and freed, as NVLS needs it between cards."""

import sys
from ctypes import POINTER, Structure, byref, c_int, c_size_t, c_uint, c_uint64, c_ulonglong
from typing import Any

from tests.gpu.probes.ending import ended, not_tried
from webhook.programs.verify import abi
from webhook.programs.verify.cuda import LIBRARY, Card, Cuda
from webhook.programs.verify.errors import explained
from webhook.programs.verify.library import CallFailed, Library
from webhook.programs.verify.measure import Cards

_SUPPORTED, _POSIX_FD, _RECOMMENDED, _PINNED, _ON_DEVICE = 132, 1, 1, 1, 1
"""``CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED`` and others of cuda.h."""


class MulticastObjectProp(Structure):
    """``CUmulticastObjectProp``."""

    _fields_ = [("num_devices", c_uint), ("size", c_size_t), ("handle_types", c_ulonglong), ("flags", c_ulonglong)]


MULTICAST: abi.Prototypes = {
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, abi.Device),
    "cuMulticastGetGranularity": (POINTER(c_size_t), POINTER(MulticastObjectProp), c_int),
    "cuMulticastCreate": (POINTER(c_uint64), POINTER(MulticastObjectProp)),
    "cuMulticastAddDevice": (c_uint64, abi.Device),
    "cuMulticastBindMem": (c_uint64, c_size_t, c_uint64, c_size_t, c_size_t, c_ulonglong),
    "cuMulticastUnbind": (c_uint64, abi.Device, c_size_t, c_size_t),
}


def main() -> None:
    """Try it on one card."""
    try:
        cards = Cards(Cuda())
        card = cards.card(sys.argv[1])
        library = Library(LIBRARY, {**abi.CUDA, **MULTICAST})
        supported = c_int()
        library.call("cuDeviceGetAttribute", byref(supported), _SUPPORTED, card.device)
    except OSError as error:
        not_tried(str(error))
    except CallFailed as error:
        not_tried(explained(error.function, error.code))
    if not supported.value:
        not_tried("the driver says that this card has no multicast")
    seen: dict[str, Any] = {"done": []}
    try:
        _try(library, card, seen)
    except CallFailed as error:
        ended(seen, explained(error.function, error.code))
    ended(seen)


def _try(library: Library, card: Card, seen: dict[str, Any]) -> None:
    wanted, size = MulticastObjectProp(num_devices=1, handle_types=_POSIX_FD), c_size_t()
    library.call("cuMulticastGetGranularity", byref(size), byref(wanted), _RECOMMENDED)
    wanted.size = seen["granularity"] = size.value
    shared, memory = c_uint64(), c_uint64()
    prop = abi.MemAllocationProp(
        type=_PINNED, requested_handle_types=_POSIX_FD, location=abi.MemLocation(_ON_DEVICE, card.device)
    )
    for name, arguments in (
        ("cuMulticastCreate", (byref(shared), byref(wanted))),
        ("cuMulticastAddDevice", (shared, card.device)),
        ("cuMemCreate", (byref(memory), size.value, byref(prop), 0)),
        ("cuMulticastBindMem", (shared, 0, memory, 0, size.value, 0)),
        ("cuMulticastUnbind", (shared, card.device, 0, size.value)),
        ("cuMemRelease", (memory,)),
        ("cuMemRelease", (shared,)),
    ):
        library.call(name, *arguments)
        seen["done"].append(name)


if __name__ == "__main__":
    main()
