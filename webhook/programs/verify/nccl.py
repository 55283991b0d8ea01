"""NCCL, as far as an all-reduce needs it: the only module that calls ``libnccl``.

It is never ours: the library of the container is the one whose paths count.
"""

import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import byref, c_int
from pathlib import Path

from webhook.programs.verify import abi
from webhook.programs.verify.library import CallFailed, Library

LIBRARY = "libnccl.so.2"
_IN_WHEEL = Path("nvidia", "nccl", "lib", LIBRARY)
"""Of the wheels nvidia-nccl-cu12 and nvidia-nccl-cu13, which PyTorch depends on."""
FLOAT32, SUM = 7, 0
FLOAT32_BYTES = 4


class Nccl:
    """The library, loaded.

    Raises:
        OSError: there is none. All methods raise CallFailed for what NCCL refuses.
    """

    def __init__(self) -> None:
        self.library = _load()

    def version(self) -> str:
        """Such as ``2.27.3``."""
        number = c_int()
        self.library.call("ncclGetVersion", byref(number))
        return version_text(number.value)

    @contextmanager
    def all(self, ordinals: Sequence[int]) -> Iterator[list[int]]:
        """A communicator for each of these cards, by CUDA's numbers, all in this process."""
        communicators = (abi.Communicator * len(ordinals))()
        self.library.call("ncclCommInitAll", communicators, len(ordinals), (c_int * len(ordinals))(*ordinals))
        try:
            yield [communicator or 0 for communicator in communicators]
        finally:
            for communicator in communicators:
                self._destroy(communicator or 0)

    @contextmanager
    def group(self) -> Iterator[None]:
        """Calls of several cards that belong together."""
        self.library.call("ncclGroupStart")
        try:
            yield
        finally:
            self.library.call("ncclGroupEnd")

    def all_reduce(self, address: int, size: int, communicator: int, stream: int) -> None:
        """Put the sum of 32-bit floats, in place, into a stream."""
        count = size // FLOAT32_BYTES
        self.library.call("ncclAllReduce", address, address, count, FLOAT32, SUM, communicator, stream)

    def _destroy(self, communicator: int) -> None:
        with suppress(CallFailed):
            self.library.call("ncclCommDestroy", communicator)


def version_text(number: int) -> str:
    """``2.27.3`` for 22703: from 2.9 on NCCL gives the minor number two digits more."""
    major, rest = divmod(number, 10000) if number >= 10000 else divmod(number, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _load() -> Library:
    """By the dynamic linker; else from a wheel beside this program."""
    try:
        return Library(LIBRARY, abi.NCCL)
    except OSError:
        wheel = Path(sysconfig.get_path("platlib")) / _IN_WHEEL
        if not wheel.exists():
            raise
        return Library(str(wheel), abi.NCCL)
