"""The memory of a card that two processes share, by a handle of CUDA IPC or of FABRIC (CUDA's virtual memory).

Each handle has 64 bytes for the whole allocation.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import byref, c_size_t

from webhook.hardware.measurement.messages import HandleKind, Method, Take, Taken
from webhook.hardware.measurement.samples import rates
from webhook.programs.verify import abi
from webhook.programs.verify.cuda import Card
from webhook.programs.verify.library import CallFailed
from webhook.programs.verify.measure import Cards, buffer, repeated, timed

_PATTERN = 0x0FF3E7ED
_FABRIC = 8
"""``CU_MEM_HANDLE_TYPE_FABRIC``."""
_PINNED, _ON_DEVICE, _READ_WRITE, _MINIMUM = 1, 1, 3, 0
_LAZY_PEER_ACCESS = 1
"""``CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS``."""


class Sharing:
    """The two sides of shared memory. Offered memory stays allocated until the process ends.

    Args:
        cards: The cards that CUDA sees.
    """

    def __init__(self, cards: Cards) -> None:
        self._cards, self._cuda = cards, cards.cuda
        self._call = cards.cuda.library.call

    def offer(self, uuid: str, kind: HandleKind, size: int) -> bytes:
        """Allocates memory with a known pattern; returns its handle."""
        card = self._cards.card(uuid)
        if kind is HandleKind.IPC:
            address = self._cuda.allocate(card, size)
            self._cuda.fill(card, address, size, _PATTERN)
            found = abi.IpcMemHandle()
            self._call("cuIpcGetMemHandle", byref(found), address)
            return bytes(found.reserved)
        return self._offer_virtual(card, size)

    def take(self, request: Take) -> Taken:
        """Copies from memory that another process offered, and measures it."""
        card = self._cards.card(request.card)
        with self._mapped(card, request) as source, buffer(self._cuda, card, request.size) as target:
            self._cuda.fill(card, target, request.size, 0)
            gbps = self._rates(card, (target, source), request.size, request.method)
            intact = self._cuda.holds(card, target, request.size, _PATTERN)
        return Taken(gbps=gbps, intact=intact)

    def _rates(self, card: Card, ends: tuple[int, int], size: int, method: Method) -> list[float]:
        with self._cuda.stream(card) as stream:

            def queue() -> None:
                for _ in range(method.copies):
                    self._call("cuMemcpyDtoDAsync_v2", *ends, size, stream)

            times = repeated(method, lambda: timed(self._cuda, card, stream, queue))
        return rates(size * method.copies, times)

    @contextmanager
    def _mapped(self, card: Card, request: Take) -> Iterator[int]:
        self._cuda.use(card)
        if request.kind is HandleKind.FABRIC:
            with self._imported(request) as handle, self._at_address(card, handle, request.size) as address:
                yield address
            return
        found = abi.DevicePointer()
        handle_bytes = abi.IpcMemHandle.from_buffer_copy(bytes.fromhex(request.handle))
        self._call("cuIpcOpenMemHandle_v2", byref(found), handle_bytes, _LAZY_PEER_ACCESS)
        try:
            yield found.value
        finally:
            with suppress(CallFailed):
                self._call("cuIpcCloseMemHandle", found)

    @contextmanager
    def _imported(self, request: Take) -> Iterator[int]:
        found, fabric = abi.AllocationHandle(), abi.FabricHandle.from_buffer_copy(bytes.fromhex(request.handle))
        self._call("cuMemImportFromShareableHandle", byref(found), byref(fabric), _FABRIC)
        try:
            yield found.value
        finally:
            with suppress(CallFailed):
                self._call("cuMemRelease", found)

    @contextmanager
    def _at_address(self, card: Card, handle: int, size: int) -> Iterator[int]:
        address = self._map(card, handle, size)
        try:
            yield address
        finally:
            with suppress(CallFailed):
                self._call("cuMemUnmap", address, size)
                self._call("cuMemAddressFree", address, size)

    def _map(self, card: Card, handle: int, size: int) -> int:
        """Maps the memory for the card, and returns its address."""
        address = abi.DevicePointer()
        self._call("cuMemAddressReserve", byref(address), size, 0, 0, 0)
        self._call("cuMemMap", address, size, 0, handle, 0)
        access = abi.MemAccessDesc(abi.MemLocation(_ON_DEVICE, card.device), _READ_WRITE)
        self._call("cuMemSetAccess", address, size, byref(access), 1)
        return address.value

    def _offer_virtual(self, card: Card, size: int) -> bytes:
        self._cuda.use(card)
        wanted = abi.MemAllocationProp(
            type=_PINNED, requested_handle_types=_FABRIC, location=abi.MemLocation(_ON_DEVICE, card.device)
        )
        granularity, handle = c_size_t(), abi.AllocationHandle()
        self._call("cuMemGetAllocationGranularity", byref(granularity), byref(wanted), _MINIMUM)
        whole = -(-size // (granularity.value or 1)) * (granularity.value or 1)
        self._call("cuMemCreate", byref(handle), whole, byref(wanted), 0)
        self._cuda.fill(card, self._map(card, handle.value, whole), whole, _PATTERN)
        fabric = abi.FabricHandle()
        self._call("cuMemExportToShareableHandle", byref(fabric), handle, _FABRIC, 0)
        return bytes(fabric.data)
