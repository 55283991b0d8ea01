"""The part of NCCL that an all-reduce needs. Only this module loads ``libnccl``.

The library is that of the container, never one that this project brings, because its paths are to be measured.
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
"""The path of the library in the wheels nvidia-nccl-cu12 and nvidia-nccl-cu13, on which PyTorch depends."""
LAST_ERROR = "ncclGetLastError"
"""Since NCCL 2.13. It takes a communicator that it does not use."""
FLOAT32, SUM = 7, 0
FLOAT32_BYTES = 4


class Nccl:
    """The loaded library. All methods raise CallFailed for calls that NCCL refuses.

    Raises:
        OSError: there is no such library.
    """

    def __init__(self) -> None:
        self.library = _load()

    def version(self) -> str:
        """Returns the version, such as ``2.27.3``."""
        number = c_int()
        self.library.call("ncclGetVersion", byref(number))
        return version_text(number.value)

    def unique_id(self) -> abi.UniqueId:
        """Returns an id by which ranks find each other. NCCL looks for the interfaces of the network for it."""
        found = abi.UniqueId()
        self.library.call("ncclGetUniqueId", byref(found))
        return found

    @contextmanager
    def all(self, ordinals: Sequence[int]) -> Iterator[list[int]]:
        """Makes a communicator for each of these cards, by CUDA's numbers, and destroys them at the end."""
        communicators = (abi.Communicator * len(ordinals))()
        self.library.call("ncclCommInitAll", communicators, len(ordinals), (c_int * len(ordinals))(*ordinals))
        try:
            yield [communicator or 0 for communicator in communicators]
        finally:
            for communicator in communicators:
                with suppress(CallFailed):
                    self.library.call("ncclCommDestroy", communicator or 0)

    @contextmanager
    def group(self) -> Iterator[None]:
        """Groups the calls of several cards into one operation."""
        self.library.call("ncclGroupStart")
        try:
            yield
        finally:
            self.library.call("ncclGroupEnd")

    def all_reduce(self, address: int, size: int, communicator: int, stream: int) -> None:
        """Queues an in-place sum of 32-bit floats in a stream."""
        count = size // FLOAT32_BYTES
        self.library.call("ncclAllReduce", address, address, count, FLOAT32, SUM, communicator, stream)


def version_text(number: int) -> str:
    """Returns the text of a version number, ``2.27.3`` for 22703. Before 2.9, numbers have four digits."""
    major, rest = divmod(number, 10000) if number >= 10000 else divmod(number, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _load() -> Library:
    """Loads the library by the dynamic linker, or else from a wheel in this Python environment."""
    try:
        return Library(LIBRARY, abi.NCCL, LAST_ERROR)
    except OSError:
        wheel = Path(sysconfig.get_path("platlib")) / _IN_WHEEL
        if not wheel.exists():
            raise
        return Library(str(wheel), abi.NCCL, LAST_ERROR)
