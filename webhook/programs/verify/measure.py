"""The measurements of copies between cards, and of an all-reduce.

The method is that of nvbandwidth: large copies between two events, and a few discarded samples first. No kernel holds
the stream until all copies are queued, because the time to queue a copy of 256 MiB does not matter.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from webhook.hardware.discovery.counters import CounterReader
from webhook.hardware.discovery.facts import Direction
from webhook.hardware.measurement.judgements import ring_factor
from webhook.hardware.measurement.messages import Method, PairMeasured, Reduced, SetMeasured
from webhook.hardware.measurement.moved_bytes import are_at_rest, moved
from webhook.hardware.measurement.samples import rates
from webhook.hardware.measurement.verdict import CARRIED, CARRIED_OF_SET
from webhook.programs.verify.cuda import WORD_BYTES, Card, Cuda
from webhook.programs.verify.library import CallFailed
from webhook.programs.verify.nccl import Nccl

_PATTERN = 0x5A17C0DE
_BETWEEN_READINGS_SECONDS, _MOST_READINGS = 0.1, 20
"""The pause between two readings of counters that have not shown all bytes yet, and how often they are read."""
_SAMPLE_MS = 1000.0
INVALID_DEVICE = 101
"""``CUDA_ERROR_INVALID_DEVICE``."""


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


def measure_pair(cards: Cards, source: str, target: str, method: Method) -> PairMeasured:
    """Measures copies from one card to another, without peer access and, if the driver allows it, with it."""
    cuda, of, to = cards.cuda, cards.card(source), cards.card(target)
    with ExitStack() as stack:
        sent, received = (stack.enter_context(buffer(cuda, card, method.copy_bytes)) for card in (of, to))
        stream = stack.enter_context(cuda.stream(of))
        way = _Way(cuda, (of, sent), (to, received), stream)
        access = cuda.can_access(of, to)
        cuda.disable_access(of, to)
        cuda.disable_access(to, of)  # as p2pBandwidthLatencyTest does: the driver may use the access of either side
        watch = _Watch()
        staged = way.rates(method, method.staged_copies)
        if access:
            cuda.enable_access(of, to)
            watch = _Watch()
        intact, direct = way.intact(method), way.rates(method, method.copies) if access else []
        copies = method.copies if access else method.staged_copies
        copied_bytes = method.copy_bytes * (copies * method.rounds + 1)
        ends = (source, Direction.TX), (target, Direction.RX)
        sent_bytes, received_bytes = watch.moved(copied_bytes * CARRIED, *ends)
        return PairMeasured(
            peer_access=access,
            rank=cuda.rank(of, to),
            staged_gbps=staged,
            gbps=direct,
            latency_us=way.latencies(method),
            copied_bytes=copied_bytes,
            sent_bytes=sent_bytes,
            received_bytes=received_bytes,
            intact=intact,
        )


class _Way:
    """The way from memory of one card to memory of another."""

    def __init__(self, cuda: Cuda, source: tuple[Card, int], target: tuple[Card, int], stream: int) -> None:
        self._cuda, self._source, self._target, self._stream = cuda, source, target, stream

    def intact(self, method: Method) -> bool:
        """Returns whether a copy arrives intact, judged by its first and its last word."""
        size = method.copy_bytes
        self._cuda.fill(*self._source, size, _PATTERN)
        self._cuda.fill(*self._target, size, 0)
        self._timed(size, 1)
        return self._cuda.holds(*self._target, size, _PATTERN)

    def rates(self, method: Method, copies: int) -> list[float]:
        """Returns the GB/s of each sample."""
        times = repeated(method, lambda: self._timed(method.copy_bytes, copies))
        return rates(method.copy_bytes * copies, times)

    def latencies(self, method: Method) -> list[float]:
        """Returns the microseconds of one copy of a word for each sample; the copies follow one after the other."""
        times = repeated(method, lambda: self._timed(WORD_BYTES, method.latency_copies))
        return [time * 1000 / method.latency_copies for time in times]

    def _timed(self, size: int, copies: int) -> float:
        def queue() -> None:
            for _ in range(copies):
                self._cuda.copy(self._target, self._source, size, self._stream)

        return timed(self._cuda, self._source[0], self._stream, queue)


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


def measure_set(cards: Cards, nccl: Nccl, uuids: Sequence[str], method: Method) -> SetMeasured:
    """Measures all-reduces of several cards, all in this process, of several sizes."""
    cuda, members = cards.cuda, [cards.card(uuid) for uuid in uuids]
    sizes = _fitting(method.reduced_bytes, min(cuda.free_bytes(card) for card in members))
    with ExitStack() as stack:
        team = _Team(cuda, nccl, members, sizes[-1], stack)
        latencies = [time_ * 1000 for time_ in team.times(method, method.small_bytes)[0]]
        smaller = [Reduced(bytes=size, milliseconds=team.times(method, size)[0]) for size in sizes[:-1]]
        watch = _Watch()
        milliseconds, reductions = team.times(method, sizes[-1])
        due = sizes[-1] * reductions * ring_factor(len(uuids))
        sent_bytes = watch.moved(due * CARRIED_OF_SET, *((uuid, Direction.TX) for uuid in uuids))
    return SetMeasured(
        milliseconds=milliseconds,
        reduced_bytes=sizes[-1],
        reductions=reductions,
        sent_bytes=sent_bytes,
        smaller=smaller,
        latency_us=latencies,
    )


def _fitting(sizes: Sequence[int], free_bytes: int) -> Sequence[int]:
    """Returns the sizes that leave half of the memory free for NCCL itself; the least in any case."""
    return [size for size in sizes if size <= free_bytes // 2] or sizes[:1]


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
