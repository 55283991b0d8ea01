"""The process that calls the driver: ``python -m webhook.programs.verify.worker DESCRIPTOR``.

A driver may hang, and a process that hangs in it may not react even to SIGKILL. So the supervisor
(``webhook.programs.verify.process``) waits only for a limited time. NCCL logs to standard output, so answers have a
socket of their own.
"""

import ctypes
import signal
import socket
import sys
from functools import cached_property
from pathlib import Path

import msgspec

from webhook.hardware.discovery.machine import discover
from webhook.hardware.discovery.usage import read_usage
from webhook.hardware.measurement.report import MAX_TEXT
from webhook.hardware.topology.document import format_topology
from webhook.programs.verify.cuda import LIBRARY, Cuda
from webhook.programs.verify.library import CallFailed
from webhook.programs.verify.measure import Cards, Sharing, measure_pair, measure_set
from webhook.programs.verify.nccl import LIBRARY as NCCL_LIBRARY
from webhook.programs.verify.nccl import Nccl
from webhook.programs.verify.process import (
    ASK,
    MAX_BYTES,
    TOLD,
    CudaDevices,
    Failed,
    LookAtCuda,
    LookAtMachine,
    LookAtNccl,
    Machine,
    MeasurePair,
    MeasureSet,
    NcclVersion,
    NoLibrary,
    Offer,
    Offered,
    PairMeasured,
    SetMeasured,
    Take,
)
from webhook.words.printable import fitted

_SET_DEATH_SIGNAL = 1
"""``PR_SET_PDEATHSIG`` of prctl(2)."""


def no_library(name: str, error: OSError) -> NoLibrary:
    """Returns the answer for a library that cannot be loaded.

    If the library itself is absent, there is no further problem to report: then glibc's dlerror names this library, and
    otherwise another one.
    """
    said = str(error)
    is_absent = said.startswith(f"{name}: cannot open shared object file: No such file")
    return NoLibrary(library=name, problem="" if is_absent else fitted(said, MAX_TEXT))


class Worker:
    """The worker, which runs one step after the other. A library is loaded by the first step that needs it."""

    def answer(self, request: ASK) -> TOLD:
        """Runs one step and returns its answer."""
        try:
            return self._do(request)
        except CallFailed as error:
            return Failed(function=error.function, code=error.code, said=fitted(error.said, MAX_TEXT))

    def _do(self, request: ASK) -> TOLD:
        match request:
            case LookAtMachine():
                topology = discover(node=request.node, root=Path(request.root))
                return Machine(topology=format_topology(topology), usage=read_usage())
            case LookAtCuda():
                return self._look_at_cuda()
            case LookAtNccl():
                return self._look_at_nccl()
            case MeasurePair():
                return PairMeasured(pair=measure_pair(self._cards, request.source, request.target, request.method))
            case MeasureSet():
                return SetMeasured(together=measure_set(self._cards, self._nccl, request.cards, request.method))
            case Offer():
                return Offered(handle=self._sharing.offer(request.card, request.kind, request.size).hex())
            case Take():
                return self._sharing.take(request)

    def _look_at_cuda(self) -> TOLD:
        try:
            cuda = self._cards.cuda
        except OSError as error:
            return no_library(LIBRARY, error)
        return CudaDevices(version=cuda.version(), uuids=cuda.uuids())

    def _look_at_nccl(self) -> TOLD:
        try:
            return NcclVersion(version=self._nccl.version())
        except OSError as error:
            return no_library(NCCL_LIBRARY, error)

    @cached_property
    def _cards(self) -> Cards:
        return Cards(Cuda())

    @cached_property
    def _sharing(self) -> Sharing:
        return Sharing(self._cards)

    @cached_property
    def _nccl(self) -> Nccl:
        return Nccl()


def main() -> None:
    """Answers requests on the socket whose descriptor is the first argument, until the other end closes it.

    The kernel ends this process with its parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal: the supervisor decides
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)  # so that it never keeps cards in use
    worker, decoder = Worker(), msgspec.json.Decoder(ASK)
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        while request := channel.recv(MAX_BYTES):
            channel.sendall(msgspec.json.encode(worker.answer(decoder.decode(request))))


if __name__ == "__main__":
    main()
