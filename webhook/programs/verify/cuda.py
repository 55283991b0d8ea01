"""CUDA's driver API, as far as copies between cards need it: the only module that calls ``libcuda``.

Memory, streams and events belong to primary contexts, because ``cuCtxCreate`` changed its arguments twice. Cards are
known by their UUIDs: CUDA counts them by speed unless told otherwise, NVML by their places on the bus.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import byref, c_float, c_int, c_size_t, c_uint
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
    """The driver, started.

    Raises:
        OSError: there is no ``libcuda.so.1``.
        CallFailed: it does not start. All methods raise it for what the driver refuses.
    """

    def __init__(self) -> None:
        self.library = Library(LIBRARY, abi.CUDA)
        self.library.call("cuInit", 0)

    def version(self) -> str:
        """Of CUDA that the driver knows, such as ``12.8``."""
        number = self._number("cuDriverGetVersion")
        return f"{number // 1000}.{number % 1000 // 10}"

    def uuids(self) -> list[str]:
        """Of the devices in CUDA's order. An instance of MIG has a UUID of its own, which is that of no card."""
        return [self._uuid(self._device(ordinal)) for ordinal in range(self._number("cuDeviceGetCount"))]

    def open(self, ordinal: int) -> Card:
        """A card with its primary context, which takes several hundred MB of its memory."""
        device, context = self._device(ordinal), abi.Context()
        self.library.call("cuDevicePrimaryCtxRetain", byref(context), device)
        return Card(uuid=self._uuid(device), ordinal=ordinal, device=device, context=context.value or 0)

    def close(self, card: Card) -> None:
        """Give its context back."""
        self.library.call("cuDevicePrimaryCtxRelease_v2", card.device)

    def use(self, card: Card) -> None:
        """Calls without a context are about this card from now on."""
        self.library.call("cuCtxSetCurrent", card.context)

    def can_access(self, card: Card, peer: Card) -> bool:
        """Whether ``card`` may reach the memory of ``peer`` itself."""
        return self._number("cuDeviceCanAccessPeer", card.device, peer.device) == 1

    def rank(self, source: Card, target: Card) -> int | None:
        """How the driver ranks the link between two cards; None if it does not."""
        try:
            return self._number("cuDeviceGetP2PAttribute", _P2P_RANK, source.device, target.device)
        except CallFailed:
            return None

    def enable_access(self, card: Card, peer: Card) -> None:
        """Let ``card`` reach the memory of ``peer``."""
        self.use(card)
        self.library.call("cuCtxEnablePeerAccess", peer.context, 0, fine=_ALREADY_ENABLED)

    def disable_access(self, card: Card, peer: Card) -> None:
        """Take that back."""
        self.use(card)
        self.library.call("cuCtxDisablePeerAccess", peer.context, fine=_NOT_ENABLED)

    def free_bytes(self, card: Card) -> int:
        """Memory of the card that can be had."""
        self.use(card)
        free, total = c_size_t(), c_size_t()
        self.library.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def allocate(self, card: Card, size: int) -> int:
        """An address of so many bytes on the card."""
        self.use(card)
        address = abi.DevicePointer()
        self.library.call("cuMemAlloc_v2", byref(address), size)
        return address.value

    def free(self, card: Card, address: int) -> None:
        """Give memory back."""
        self.use(card)
        self.library.call("cuMemFree_v2", address)

    def fill(self, card: Card, address: int, size: int, word: int) -> None:
        """Write one word of 32 bits all over."""
        self.use(card)
        self.library.call("cuMemsetD32_v2", address, word, size // WORD_BYTES)
        self.finish(card, None)  # of device memory it returns before it is done

    def holds(self, card: Card, address: int, size: int, word: int) -> bool:
        """Whether the first and the last word of 32 bits are as ``fill`` writes them."""
        self.use(card)
        return all(self._word_at(address + offset) == word for offset in (0, size - WORD_BYTES))

    def finish(self, card: Card, stream: int | None) -> None:
        """Until all is done that is in a stream; None for the default one."""
        self.use(card)
        self.library.call("cuStreamSynchronize", stream)

    @contextmanager
    def stream(self, card: Card) -> Iterator[int]:
        """A stream of the card."""
        self.use(card)
        stream = abi.Stream()
        self.library.call("cuStreamCreate", byref(stream), _NON_BLOCKING)
        try:
            yield stream.value or 0
        finally:
            with suppress(CallFailed):
                self.library.call("cuStreamDestroy_v2", stream)

    @contextmanager
    def event(self, card: Card) -> Iterator[int]:
        """An event of the card."""
        self.use(card)
        event = abi.Event()
        self.library.call("cuEventCreate", byref(event), 0)
        try:
            yield event.value or 0
        finally:
            with suppress(CallFailed):
                self.library.call("cuEventDestroy_v2", event)

    def copy(self, target: tuple[Card, int], source: tuple[Card, int], size: int, stream: int) -> None:
        """Put a copy from address to address into a stream.

        It works without peer access too, through the memory of the host: success says nothing about the way.
        """
        (to, to_address), (of, of_address) = target, source
        self.library.call("cuMemcpyPeerAsync", to_address, to.context, of_address, of.context, size, stream)

    def record(self, event: int, stream: int) -> None:
        """Put an event into a stream."""
        self.library.call("cuEventRecord", event, stream)

    def wait(self, event: int) -> None:
        """Until an event has come."""
        self.library.call("cuEventSynchronize", event)

    def milliseconds(self, start: int, end: int) -> float:
        """Between two events that have come."""
        found = c_float()
        self.library.call("cuEventElapsedTime", byref(found), start, end)
        return found.value

    def _number(self, name: str, *arguments: int) -> int:
        found = c_int()
        self.library.call(name, byref(found), *arguments)
        return found.value

    def _word_at(self, address: int) -> int:
        word = c_uint()
        self.library.call("cuMemcpyDtoH_v2", byref(word), address, WORD_BYTES)
        return word.value

    def _device(self, ordinal: int) -> int:
        return self._number("cuDeviceGet", ordinal)

    def _uuid(self, device: int) -> str:
        found = abi.Uuid()
        self.library.call("cuDeviceGetUuid_v2", byref(found), device)
        return f"GPU-{UUID(bytes=bytes(found.bytes))}"
