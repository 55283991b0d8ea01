"""The process that touches the driver: ``python -m webhook.verify.worker DESCRIPTOR``.

A driver may hang, and a process that hangs in it may not even be killed. So whoever asks waits only so long
(``webhook.verify.supervisor``). What NCCL logs goes to standard output, so answers have a socket of their own.
"""

import ctypes
import signal
import socket
import sys
from functools import cached_property
from pathlib import Path

import msgspec

from webhook.discovery.discover import discover
from webhook.discovery.usage import read_usage
from webhook.topology.document import format_topology
from webhook.verify.cuda import LIBRARY, Cuda
from webhook.verify.library import CallFailed
from webhook.verify.measure import Cards, measure_pair, measure_set
from webhook.verify.messages import (
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
    Usage,
)
from webhook.verify.nccl import LIBRARY as NCCL_LIBRARY
from webhook.verify.nccl import Nccl

_SET_DEATH_SIGNAL = 1
"""``PR_SET_PDEATHSIG`` of prctl(2)."""


class Worker:
    """Does one step after the other. Libraries are loaded when a step first needs them, and stay."""

    def answer(self, request: ASK) -> TOLD:
        """What comes of one step."""
        try:
            return self._do(request)
        except CallFailed as error:
            return Failed(function=error.function, code=error.code)

    def _do(self, request: ASK) -> TOLD:
        match request:
            case LookAtMachine():
                return look_at_machine(request.node, Path(request.root))
            case LookAtCuda():
                return self._look_at_cuda()
            case LookAtNccl():
                return self._look_at_nccl()
            case MeasurePair():
                return measure_pair(self._cards, request.source, request.target, request.method)
            case MeasureSet():
                return measure_set(self._cards, self._nccl, request.cards, request.method)

    def _look_at_cuda(self) -> TOLD:
        try:
            cuda = self._cards.cuda
        except OSError as error:
            return NoLibrary(library=LIBRARY, said=str(error))
        return CudaDevices(version=cuda.version(), uuids=cuda.uuids())

    def _look_at_nccl(self) -> TOLD:
        try:
            return NcclVersion(version=self._nccl.version())
        except OSError as error:
            return NoLibrary(library=NCCL_LIBRARY, said=str(error))

    @cached_property
    def _cards(self) -> Cards:
        return Cards(Cuda())

    @cached_property
    def _nccl(self) -> Nccl:
        return Nccl()


def look_at_machine(node: str, root: Path) -> Machine:
    """What NVML and sysfs say."""
    usage = [Usage(uuid=card.uuid, processes=card.processes, used_bytes=card.used_bytes) for card in read_usage()]
    return Machine(topology=format_topology(discover(node=node, root=root)), usage=usage)


def serve(channel: socket.socket) -> None:
    """Answer until whoever asks has gone."""
    worker, decoder = Worker(), msgspec.json.Decoder(ASK)
    while request := channel.recv(MAX_BYTES):
        channel.send(msgspec.json.encode(worker.answer(decoder.decode(request))))


def main() -> None:
    """Serve the socket whose descriptor is the only argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: whoever asks decides
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)  # never stay behind with cards in hand
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        serve(channel)


if __name__ == "__main__":
    main()
