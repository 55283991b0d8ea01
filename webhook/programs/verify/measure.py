"""The measurements of copies between cards, of an all-reduce, and of memory that two processes share.

The method is that of nvbandwidth: large copies between two events, and a few discarded samples first. No kernel holds
the stream until all copies are queued, because the time to queue a copy of 256 MiB does not matter.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from ctypes import byref, c_size_t

from webhook.hardware.discovery.counters import CounterReader
from webhook.hardware.discovery.facts import ByteCounter, CardCounters, Direction
from webhook.hardware.measurement.peers import HandleKind
from webhook.hardware.measurement.report import CardSet, Pair, ReducedSize, Warn
from webhook.hardware.measurement.verdict import CARRIED, CARRIED_OF_SET, middle, ring_factor
from webhook.programs.verify import abi
from webhook.programs.verify.cuda import WORD_BYTES, Card, Cuda
from webhook.programs.verify.library import CallFailed
from webhook.programs.verify.nccl import Nccl
from webhook.programs.verify.process import Method, Take, Taken

_PATTERN = 0x5A17C0DE
_BETWEEN_READINGS_SECONDS, _MOST_READINGS = 0.1, 20
"""The pause between two readings of counters that have not shown all bytes yet, and how often they are read."""
_SAMPLE_MS = 1000.0
INVALID_DEVICE = 101
"""``CUDA_ERROR_INVALID_DEVICE``."""
_SHARED_PATTERN = 0x0FF3E7ED
_FABRIC = 8
"""``CU_MEM_HANDLE_TYPE_FABRIC``."""
_PINNED, _ON_DEVICE, _READ_WRITE, _MINIMUM = 1, 1, 3, 0
_LAZY_PEER_ACCESS = 1
"""``CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS``."""
_Counters = Mapping[tuple[Direction, int], ByteCounter]


class Cards:
    """The cards that CUDA sees, opened when they are first used and kept open.

    Args:
        cuda: The driver.
    """

    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda
        self._ordinals = {uuid: ordinal for ordinal, uuid in enumerate(cuda.uuids())}
        self._open: dict[str, Card] = {}

    def card(self, uuid: str) -> Card:
        """Returns the card with a UUID.

        Raises:
            CallFailed: CUDA does not see the card, or it cannot be opened.
        """
        if uuid not in self._open:
            self._open[uuid] = self.cuda.open(self._ordinal(uuid))
        return self._open[uuid]

    def device(self, uuid: str) -> int:
        """Returns CUDA's handle of the card with a UUID, without opening it: that takes memory of the card.

        Raises:
            CallFailed: CUDA does not see the card.
        """
        return self.cuda.device(self._ordinal(uuid))

    def _ordinal(self, uuid: str) -> int:
        if uuid not in self._ordinals:
            raise CallFailed("cuDeviceGet", INVALID_DEVICE)
        return self._ordinals[uuid]


@contextmanager
def buffer(cuda: Cuda, card: Card, size: int) -> Iterator[int]:
    """Allocates memory of a card, and frees it at the end."""
    address = cuda.allocate(card, size)
    try:
        yield address
    finally:
        cuda.free(card, address)


def measure_pair(cards: Cards, source: str, target: str, method: Method) -> Pair:
    """Measures copies from one card to another, without peer access and, if the driver allows it, with it."""
    cuda, of, to = cards.cuda, cards.card(source), cards.card(target)
    size = method.copy_bytes
    with ExitStack() as stack:
        sent, received = (stack.enter_context(buffer(cuda, card, size)) for card in (of, to))
        stream = stack.enter_context(cuda.stream(of))

        def copy_times(bytes_: int, copies: int) -> list[float]:
            def queue() -> None:
                for _ in range(copies):
                    cuda.copy((to, received), (of, sent), bytes_, stream)

            return repeated(method, lambda: timed(cuda, of, stream, queue))

        access = cuda.can_access(of, to)
        cuda.disable_access(of, to)
        cuda.disable_access(to, of)  # as p2pBandwidthLatencyTest does: the driver may use the access of either side
        watch = _Watch()
        staged = rates(size * method.staged_copies, copy_times(size, method.staged_copies))
        if access:
            cuda.enable_access(of, to)
            watch = _Watch()
        cuda.fill(of, sent, size, _PATTERN)
        cuda.fill(to, received, size, 0)
        cuda.copy((to, received), (of, sent), size, stream)
        cuda.finish(of, stream)
        intact = cuda.holds(to, received, size, _PATTERN)
        samples = rates(size * method.copies, copy_times(size, method.copies)) if access else staged
        copied_bytes = size * ((method.copies if access else method.staged_copies) * method.rounds + 1)
        ends = (source, Direction.TX), (target, Direction.RX)
        sent_bytes, received_bytes = watch.moved(copied_bytes * CARRIED, *ends)
        latencies = [time_ * 1000 / method.latency_copies for time_ in copy_times(WORD_BYTES, method.latency_copies)]
        return Pair(
            source=source,
            target=target,
            peer_access=access,
            rank=cuda.rank(of, to),
            samples_gbps=samples,
            staged_samples_gbps=staged,
            latency_us=middle(latencies),
            copied_bytes=copied_bytes,
            sent_bytes=sent_bytes,
            received_bytes=received_bytes,
            warnings=[] if intact else [Warn.WRONG_DATA],
        )


def rates(size: int, milliseconds: Sequence[float]) -> list[float]:
    """Returns the GB/s of ``size`` bytes for each time. A time of 0, too short for the clock, is left out."""
    return [size / time_ / 1e6 for time_ in milliseconds if time_ > 0]


def timed(cuda: Cuda, card: Card, stream: int, queue: Callable[[], None]) -> float:
    """Returns the milliseconds that a stream takes for the work that ``queue`` puts into it."""
    with cuda.event(card) as start, cuda.event(card) as end:
        cuda.record(start, stream)
        queue()
        cuda.record(end, stream)
        cuda.wait(end)
        return cuda.milliseconds(start, end)


def repeated(method: Method, measure: Callable[[], float]) -> list[float]:
    """Repeats a measurement, and returns the samples after the warm-ups."""
    return [measure() for _ in range(method.rounds)][method.warm_ups :]


class _Watch:
    """The watch over the bytes that NVLinks move, from its construction on."""

    def __init__(self) -> None:
        self._reader = CounterReader()
        self._before = self._reader.read()

    def moved(self, enough: float, *ends: tuple[str, Direction]) -> list[int | None]:
        """Returns the bytes that each of these cards sent or received until now.

        Counters may be refreshed late, so they are read until they show ``enough`` bytes or rest.
        """
        since_us, uuids = time.time_ns() // 1000, [uuid for uuid, _ in ends]
        after = self._reader.read()
        for _ in range(_MOST_READINGS):
            found = [moved(self._before, after, uuid, way) for uuid, way in ends]
            if all(bytes_ is None or bytes_ >= enough for bytes_ in found):
                break
            time.sleep(_BETWEEN_READINGS_SECONDS)
            earlier, after = after, self._reader.read()
            if are_at_rest(earlier, after, uuids, since_us):
                break
        return [moved(self._before, after, uuid, way) for uuid, way in ends]


def moved(before: Iterable[CardCounters], after: Iterable[CardCounters], uuid: str, way: Direction) -> int | None:
    """Returns the bytes of one card in one direction, summed over all links in both readings; None if there are none.

    Of the forms in which the driver counts, the one that moved most counts: some drivers answer 0 in one of them. A
    counter with a lower value in the later reading is assumed to have overflowed once.
    """
    first, last = (_of(uuid, reading) for reading in (before, after))
    if first is None or last is None:
        return None
    forms = zip(_forms(first), _forms(last), strict=False)
    sums = [_risen(earlier, later, way) for earlier, later in forms]
    return max((found for found in sums if found is not None), default=None)


def are_at_rest(
    before: Iterable[CardCounters], after: Iterable[CardCounters], uuids: Collection[str], since_us: int
) -> bool:
    """Returns whether two readings show the final counters of work that ended before both.

    They do if they are equal, and NVML read the counters anew for each of them after the work. Cards without counters
    are at rest.

    Args:
        before: The earlier reading.
        after: The later reading.
        uuids: The cards.
        since_us: When the work had ended, in microseconds since 1970.
    """
    ends = ((_of(uuid, before), _of(uuid, after)) for uuid in uuids)
    return all(first is None or last is None or _is_at_rest(first, last, since_us) for first, last in ends)


def _is_at_rest(first: CardCounters, last: CardCounters, since_us: int) -> bool:
    is_read_anew = not first.nvlink_read_us or since_us <= first.nvlink_read_us < last.nvlink_read_us
    return is_read_anew and _forms(first) == _forms(last)


def _forms(card: CardCounters) -> tuple[_Counters, ...]:
    return card.nvlink_forms or (card.nvlink,)


def _risen(before: _Counters, after: _Counters, way: Direction) -> int | None:
    found = [
        (counter.bytes - before[place].bytes) % counter.begins_anew_at
        for place, counter in after.items()
        if place[0] is way and place in before
    ]
    return sum(found) if found else None


def _of(uuid: str, reading: Iterable[CardCounters]) -> CardCounters | None:
    return next((card for card in reading if card.uuid == uuid), None)


def measure_set(cards: Cards, nccl: Nccl, uuids: Sequence[str], method: Method) -> CardSet:
    """Measures all-reduces of several cards, all in this process, of several sizes."""
    cuda, members, factor = cards.cuda, [cards.card(uuid) for uuid in uuids], ring_factor(len(uuids))
    free_bytes = min(cuda.free_bytes(card) for card in members)
    # Half of the memory stays free for NCCL itself.
    *smaller, size = [size for size in method.reduced_bytes if size <= free_bytes // 2] or method.reduced_bytes[:1]
    with ExitStack() as stack:
        team = _Team(cuda, nccl, members, size, stack)
        latencies = [time_ * 1000 for time_ in team.times(method, method.small_bytes)[0]]
        medians = {each: middle(rates(each, team.times(method, each)[0])) for each in smaller}
        watch = _Watch()
        milliseconds, reductions = team.times(method, size)
        due = size * reductions * factor
        sent_bytes = watch.moved(due * CARRIED_OF_SET, *((uuid, Direction.TX) for uuid in uuids))
    return CardSet(
        cards=list(uuids),
        samples_gbps=[rate * factor for rate in rates(size, milliseconds)],
        reduced_bytes=size,
        reductions=reductions,
        sent_bytes=sent_bytes,
        latency_us=middle(latencies),
        smaller=[
            ReducedSize(reduced_bytes=each, busbw_gbps=None if rate is None else rate * factor)
            for each, rate in medians.items()
        ],
    )


class _Team:
    """The cards of an all-reduce, with a communicator, a stream and memory for each."""

    def __init__(self, cuda: Cuda, nccl: Nccl, members: Sequence[Card], size: int, stack: ExitStack) -> None:
        self._cuda, self._nccl, self._members = cuda, nccl, members
        self._addresses = [stack.enter_context(buffer(cuda, card, size)) for card in members]
        self._streams = [stack.enter_context(cuda.stream(card)) for card in members]
        for card, address in zip(members, self._addresses, strict=True):
            cuda.fill(card, address, size, 0)
        self._communicators = stack.enter_context(nccl.all([card.ordinal for card in members]))

    def times(self, method: Method, size: int) -> tuple[list[float], int]:
        """Returns the milliseconds of one all-reduce for each sample, and the number of all that were made.

        In each sample as many follow each other without a pause as fit into a second, so that a slow path does not take
        minutes.
        """
        in_a_row = max(1, min(method.reductions, int(_SAMPLE_MS / (self._timed(size, 1) or 1.0))))
        times = repeated(method, lambda: self._timed(size, in_a_row) / in_a_row)
        for card, stream in zip(self._members, self._streams, strict=True):
            self._cuda.finish(card, stream)
        return times, 1 + in_a_row * method.rounds

    def _timed(self, size: int, number: int) -> float:
        def queue() -> None:
            for _ in range(number):
                self._reduce(size)

        return timed(self._cuda, self._members[0], self._streams[0], queue)

    def _reduce(self, size: int) -> None:
        with self._nccl.group():
            for address, communicator, stream in zip(self._addresses, self._communicators, self._streams, strict=True):
                self._nccl.all_reduce(address, size, communicator, stream)


class Sharing:
    """The two sides of shared memory. Offered memory stays allocated until the process ends.

    Each handle, of CUDA IPC or of FABRIC (CUDA's virtual memory), has 64 bytes for the whole allocation.

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
            address, found = self._cuda.allocate(card, size), abi.IpcMemHandle()
            self._cuda.fill(card, address, size, _SHARED_PATTERN)
            self._call("cuIpcGetMemHandle", byref(found), address)
            return bytes(found.reserved)
        self._cuda.use(card)
        wanted = abi.MemAllocationProp(
            type=_PINNED, requested_handle_types=_FABRIC, location=abi.MemLocation(_ON_DEVICE, card.device)
        )
        granularity, handle, fabric = c_size_t(), abi.AllocationHandle(), abi.FabricHandle()
        self._call("cuMemGetAllocationGranularity", byref(granularity), byref(wanted), _MINIMUM)
        whole = -(-size // (granularity.value or 1)) * (granularity.value or 1)
        self._call("cuMemCreate", byref(handle), whole, byref(wanted), 0)
        self._cuda.fill(card, self._map(card, handle.value, whole), whole, _SHARED_PATTERN)
        self._call("cuMemExportToShareableHandle", byref(fabric), handle, _FABRIC, 0)
        return bytes(fabric.data)

    def take(self, request: Take) -> Taken:
        """Copies from memory that another process offered, and measures it."""
        card, size, method = self._cards.card(request.card), request.size, request.method
        with ExitStack() as stack:
            source = self._shared(card, request, stack)
            target = stack.enter_context(buffer(self._cuda, card, size))
            stream = stack.enter_context(self._cuda.stream(card))
            self._cuda.fill(card, target, size, 0)

            def queue() -> None:
                for _ in range(method.copies):
                    self._call("cuMemcpyDtoDAsync_v2", target, source, size, stream)

            times = repeated(method, lambda: timed(self._cuda, card, stream, queue))
            intact = self._cuda.holds(card, target, size, _SHARED_PATTERN)
        return Taken(gbps=rates(size * method.copies, times), intact=intact)

    def _shared(self, card: Card, request: Take, stack: ExitStack) -> int:
        """Returns the address of the offered memory, until the end of the stack."""
        self._cuda.use(card)
        handle = bytes.fromhex(request.handle)
        if request.kind is HandleKind.IPC:
            found = abi.DevicePointer()
            shared = abi.IpcMemHandle.from_buffer_copy(handle)
            self._call("cuIpcOpenMemHandle_v2", byref(found), shared, _LAZY_PEER_ACCESS)
            stack.callback(self._undo, "cuIpcCloseMemHandle", found)
            return found.value
        imported = abi.AllocationHandle()
        fabric = abi.FabricHandle.from_buffer_copy(handle)
        self._call("cuMemImportFromShareableHandle", byref(imported), byref(fabric), _FABRIC)
        stack.callback(self._undo, "cuMemRelease", imported)
        address = self._map(card, imported.value, request.size)
        stack.callback(self._undo, "cuMemAddressFree", address, request.size)
        stack.callback(self._undo, "cuMemUnmap", address, request.size)
        return address

    def _undo(self, function: str, *arguments: object) -> None:
        with suppress(CallFailed):
            self._call(function, *arguments)

    def _map(self, card: Card, handle: int, size: int) -> int:
        """Maps the memory for the card, and returns its address."""
        address = abi.DevicePointer()
        self._call("cuMemAddressReserve", byref(address), size, 0, 0, 0)
        self._call("cuMemMap", address, size, 0, handle, 0)
        access = abi.MemAccessDesc(abi.MemLocation(_ON_DEVICE, card.device), _READ_WRITE)
        self._call("cuMemSetAccess", address, size, byref(access), 1)
        return address.value
