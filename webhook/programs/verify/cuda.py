"""The part of CUDA's driver API that copies between cards need. Only this module loads ``libcuda``.

Memory, streams and events belong to primary contexts, because ``cuCtxCreate`` changed its arguments twice. Cards are
identified by their UUIDs, because CUDA numbers them by speed by default, and NVML by their places on the bus.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_void_p
from dataclasses import dataclass
from uuid import UUID

from webhook.programs.verify import abi
from webhook.programs.verify.library import CallFailed, Library

LIBRARY = "libcuda.so.1"
_P2P_RANK = 1
"""``CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK``."""
_ALREADY_ENABLED = {704: "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"}
_NOT_ENABLED = {705: "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"}
_NON_BLOCKING = 1
"""``CU_STREAM_NON_BLOCKING``."""
WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Card:
    """A card that CUDA sees, with its primary context."""

    uuid: str
    ordinal: int
    device: int
    context: int


class Cuda:
    """The initialised driver.

    Raises:
        OSError: there is no ``libcuda.so.1``.
        CallFailed: the driver does not start. All methods raise it for calls that the driver refuses.
    """

    def __init__(self) -> None:
        self.library = Library(LIBRARY, abi.CUDA)
        self.library.call("cuInit", 0)

    def version(self) -> str:
        """Returns the newest CUDA version that the driver supports, such as ``12.8``."""
        number = self._number("cuDriverGetVersion")
        return f"{number // 1000}.{number % 1000 // 10}"

    def uuids(self) -> list[str]:
        """Returns the UUIDs of the devices in CUDA's order. A MIG instance has a UUID of its own, unlike any card's."""
        return [self._uuid(self.device(ordinal)) for ordinal in range(self._number("cuDeviceGetCount"))]

    def open(self, ordinal: int) -> Card:
        """Opens a card with its primary context, which takes several hundred MB of the card's memory."""
        device, context = self.device(ordinal), abi.Context()
        self.library.call("cuDevicePrimaryCtxRetain", byref(context), device)
        return Card(uuid=self._uuid(device), ordinal=ordinal, device=device, context=context.value or 0)

    def close(self, card: Card) -> None:
        """Releases the primary context of a card."""
        self.library.call("cuDevicePrimaryCtxRelease_v2", card.device)

    def use(self, card: Card) -> None:
        """Makes the card's context current, for the following calls without a context."""
        self.library.call("cuCtxSetCurrent", card.context)

    def can_access(self, card: Card, peer: Card) -> bool:
        """Returns whether ``card`` can access the memory of ``peer`` directly."""
        return self._number("cuDeviceCanAccessPeer", card.device, peer.device) == 1

    def rank(self, source: Card, target: Card) -> int | None:
        """Returns the driver's performance rank of the link between two cards; None if it gives none."""
        try:
            return self._number("cuDeviceGetP2PAttribute", _P2P_RANK, source.device, target.device)
        except CallFailed:
            return None

    def enable_access(self, card: Card, peer: Card) -> None:
        """Enables direct access of ``card`` to the memory of ``peer``."""
        self.use(card)
        self.library.call("cuCtxEnablePeerAccess", peer.context, 0, fine=_ALREADY_ENABLED)

    def disable_access(self, card: Card, peer: Card) -> None:
        """Disables direct access of ``card`` to the memory of ``peer``."""
        self.use(card)
        self.library.call("cuCtxDisablePeerAccess", peer.context, fine=_NOT_ENABLED)

    def free_bytes(self, card: Card) -> int:
        """Returns the number of free bytes of the card's memory."""
        self.use(card)
        free, total = c_size_t(), c_size_t()
        self.library.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def allocate(self, card: Card, size: int) -> int:
        """Allocates memory on the card and returns its address."""
        self.use(card)
        address = abi.DevicePointer()
        self.library.call("cuMemAlloc_v2", byref(address), size)
        return address.value

    def free(self, card: Card, address: int) -> None:
        """Frees allocated memory."""
        self.use(card)
        self.library.call("cuMemFree_v2", address)

    def fill(self, card: Card, address: int, size: int, word: int) -> None:
        """Fills memory with a 32-bit word."""
        self.use(card)
        self.library.call("cuMemsetD32_v2", address, word, size // WORD_BYTES)
        self.finish(card, None)  # for device memory, cuMemsetD32 returns before it is done

    def holds(self, card: Card, address: int, size: int, word: int) -> bool:
        """Returns whether the first and the last 32-bit word are those that ``fill`` writes."""
        self.use(card)
        found = c_uint(), c_uint()
        for each, offset in zip(found, (0, size - WORD_BYTES), strict=True):
            self.library.call("cuMemcpyDtoH_v2", byref(each), address + offset, WORD_BYTES)
        return all(each.value == word for each in found)

    def finish(self, card: Card, stream: int | None) -> None:
        """Waits until all work of a stream is done. None is the default stream."""
        self.use(card)
        self.library.call("cuStreamSynchronize", stream)

    def stream(self, card: Card) -> AbstractContextManager[int]:
        """Creates a stream of the card, and destroys it at the end."""
        return self._created("Stream", card, _NON_BLOCKING)

    def event(self, card: Card) -> AbstractContextManager[int]:
        """Creates an event of the card, and destroys it at the end."""
        return self._created("Event", card, 0)

    @contextmanager
    def _created(self, kind: str, card: Card, flags: int) -> Iterator[int]:
        self.use(card)
        found = c_void_p()
        self.library.call(f"cu{kind}Create", byref(found), flags)
        try:
            yield found.value or 0
        finally:
            with suppress(CallFailed):
                self.library.call(f"cu{kind}Destroy_v2", found)

    def copy(self, target: tuple[Card, int], source: tuple[Card, int], size: int, stream: int) -> None:
        """Queues a copy from ``source`` to ``target`` in a stream.

        The copy also works without peer access, through the memory of the host. So success does not prove a direct
        way.
        """
        (to, to_address), (of, of_address) = target, source
        self.library.call("cuMemcpyPeerAsync", to_address, to.context, of_address, of.context, size, stream)

    def record(self, event: int, stream: int) -> None:
        """Queues an event in a stream."""
        self.library.call("cuEventRecord", event, stream)

    def wait(self, event: int) -> None:
        """Waits until an event has been reached."""
        self.library.call("cuEventSynchronize", event)

    def milliseconds(self, start: int, end: int) -> float:
        """Returns the milliseconds between two events that have been reached."""
        found = c_float()
        self.library.call("cuEventElapsedTime", byref(found), start, end)
        return found.value

    def _number(self, name: str, *arguments: int) -> int:
        found = c_int()
        self.library.call(name, byref(found), *arguments)
        return found.value

    def device(self, ordinal: int) -> int:
        """Returns CUDA's handle of a device, without opening it."""
        return self._number("cuDeviceGet", ordinal)

    def _uuid(self, device: int) -> str:
        found = abi.Uuid()
        self.library.call("cuDeviceGetUuid_v2", byref(found), device)
        return f"GPU-{UUID(bytes=bytes(found.bytes))}"
