"""A multicast object of some cards: made, bound to memory of each, and freed.

NCCL does the same for NVLink SHARP when it starts, and ends with an error where the driver refuses it (NCCL
src/transport/nvls.cc, ncclNvlsGroupConnect).
"""

from collections.abc import Sequence
from ctypes import byref, c_int, c_size_t

from webhook.programs.verify import abi
from webhook.programs.verify.cuda import LIBRARY, Card
from webhook.programs.verify.library import Library
from webhook.programs.verify.measure import Cards

_SUPPORTED, _POSIX_FD, _RECOMMENDED, _PINNED, _ON_DEVICE = 132, 1, 1, 1, 1
"""``CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED`` and others of cuda.h."""


class Multicast:
    """Multicast objects of cards.

    Args:
        cards: The cards that CUDA sees.

    Raises:
        OSError: there is no ``libcuda.so.1``.
    """

    def __init__(self, cards: Cards) -> None:
        self._cards = cards
        self._library = Library(LIBRARY, {**abi.CUDA, **abi.MULTICAST})
        self.done: list[str] = []
        """The functions that the driver has carried out."""

    def is_supported(self, uuids: Sequence[str]) -> bool:
        """Returns whether the driver says that all of these cards have multicast. NCCL asks the same.

        Raises:
            CallFailed: the driver gives no answer.
        """
        return all(map(self._has_attribute, uuids))

    def make(self, uuids: Sequence[str]) -> int:
        """Makes an object of these cards, binds memory of each, and frees all; returns the size in bytes.

        Raises:
            CallFailed: the driver refuses a step.
        """
        cards = [self._cards.card(uuid) for uuid in uuids]
        wanted = abi.MulticastObjectProp(num_devices=len(cards), handle_types=_POSIX_FD)
        size, shared = c_size_t(), abi.AllocationHandle()
        self._library.call("cuMulticastGetGranularity", byref(size), byref(wanted), _RECOMMENDED)
        wanted.size = size.value
        self._call("cuMulticastCreate", byref(shared), byref(wanted))
        for card in cards:
            self._call("cuMulticastAddDevice", shared, card.device)
        memories = [self._bound(shared.value, card, size.value) for card in cards]
        for card, memory in zip(cards, memories, strict=True):
            self._call("cuMulticastUnbind", shared, card.device, 0, size.value)
            self._call("cuMemRelease", memory)
        self._call("cuMemRelease", shared)
        return size.value

    def _bound(self, shared: int, card: Card, size: int) -> int:
        """Returns the handle of memory of a card that is bound to an object."""
        location = abi.MemLocation(_ON_DEVICE, card.device)
        wanted = abi.MemAllocationProp(type=_PINNED, requested_handle_types=_POSIX_FD, location=location)
        memory = abi.AllocationHandle()
        self._call("cuMemCreate", byref(memory), size, byref(wanted), 0)
        self._call("cuMulticastBindMem", shared, 0, memory, 0, size, 0)
        return memory.value

    def _has_attribute(self, uuid: str) -> bool:
        found = c_int()
        self._library.call("cuDeviceGetAttribute", byref(found), _SUPPORTED, self._cards.card(uuid).device)
        return bool(found.value)

    def _call(self, name: str, *arguments: object) -> None:
        self._library.call(name, *arguments)
        self.done.append(name)
