"""A multicast object of some cards: made, bound to memory of each, and freed.

NCCL does the same for NVLink SHARP when it starts, and ends with an error where the driver refuses it (NCCL
src/transport/nvls.cc, ncclNvlsGroupConnect).
"""

from collections.abc import Sequence
from contextlib import suppress
from ctypes import byref, c_int, c_size_t

from webhook.programs.verify import abi
from webhook.programs.verify.cuda import LIBRARY, Card
from webhook.programs.verify.library import CallFailed, Library
from webhook.programs.verify.measure import Cards

_SUPPORTED, _POSIX_FD, _RECOMMENDED, _PINNED, _ON_DEVICE = 132, 1, 1, 1, 1
"""``CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED`` and others of cuda.h."""

_Call = tuple[str, *tuple[object, ...]]
"""The name of a function of the driver, and its arguments."""


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

        Where the driver refuses a step, what was made before is freed: a later attempt would have less.

        Raises:
            CallFailed: the driver refuses a step.
        """
        cards = [self._cards.card(uuid) for uuid in uuids]
        ends: list[_Call] = []
        try:
            size = self._make(cards, ends)
            while ends:
                self._call(*ends.pop())
        except CallFailed:
            while ends:
                with suppress(CallFailed):
                    self._call(*ends.pop())
            raise
        return size

    def _make(self, cards: Sequence[Card], ends: list[_Call]) -> int:
        """Makes an object and binds memory of each card; adds the calls that end this, the last one first to call."""
        wanted = abi.MulticastObjectProp(num_devices=len(cards), handle_types=_POSIX_FD)
        size, shared = c_size_t(), abi.AllocationHandle()
        self._library.call("cuMulticastGetGranularity", byref(size), byref(wanted), _RECOMMENDED)
        wanted.size = size.value
        self._call("cuMulticastCreate", byref(shared), byref(wanted))
        ends.append(("cuMemRelease", shared))
        for card in cards:
            self._call("cuMulticastAddDevice", shared, card.device)
        for card in cards:
            self._bind(shared, card, size.value, ends)
        return size.value

    def _bind(self, shared: object, card: Card, size: int, ends: list[_Call]) -> None:
        location = abi.MemLocation(_ON_DEVICE, card.device)
        wanted = abi.MemAllocationProp(type=_PINNED, requested_handle_types=_POSIX_FD, location=location)
        memory = abi.AllocationHandle()
        self._call("cuMemCreate", byref(memory), size, byref(wanted), 0)
        ends.append(("cuMemRelease", memory))
        self._call("cuMulticastBindMem", shared, 0, memory, 0, size, 0)
        ends.append(("cuMulticastUnbind", shared, card.device, 0, size))

    def _has_attribute(self, uuid: str) -> bool:
        found = c_int()
        self._library.call("cuDeviceGetAttribute", byref(found), _SUPPORTED, self._cards.device(uuid))
        return bool(found.value)

    def _call(self, name: str, *arguments: object) -> None:
        self._library.call(name, *arguments)
        self.done.append(name)
