"""A C library whose functions return 0 for success, and the explanations of the error codes of CUDA and of NCCL."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from webhook.programs.verify.abi import Prototypes

MISSING = -1
"""The code of a function that the library does not have."""
_CUDA: Mapping[int, str] = {
    1: "invalid value; of a shared handle: the card of the other process is not visible here",
    2: "out of memory",
    3: "the driver is not initialised",
    100: "no CUDA device is visible: see CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES",
    101: "no such device",
    201: "invalid context; of a shared handle: both processes have the same PID value, or the thread has no context",
    205: "the memory cannot be mapped",
    208: "the memory is mapped already",
    217: "peer access is not supported between these cards",
    304: "a call of the operating system failed",
    401: "the operation is not possible in the present state: does the fabric manager run, and do the NVSwitches work?",
    704: "peer access is enabled already",
    711: "too many peers",
    719: "the card reported a fault: see dmesg",
    800: "not permitted",
    801: "not supported",
    802: "the system is not ready: is the fabric manager running?",
    803: "the driver and libcuda are of different versions",
    999: "unknown error",
}
_NCCL: Mapping[int, str] = {
    1: "a call of CUDA failed: see NCCL_DEBUG=INFO",
    2: "a call of the system failed: see NCCL_DEBUG=INFO",
    3: "NCCL found an error of its own",
    4: "invalid argument",
    5: "invalid usage",
    6: "another rank failed",
    7: "the call goes on in the background",
    8: "another rank gave no answer in time",
}


class CallFailed(Exception):
    """The error of a library function that returned an error code.

    Args:
        function: The name of the function.
        code: The returned code; -1 if the library does not have the function.
        said: What the library says of its last error; empty if it says nothing.
    """

    def __init__(self, function: str, code: int, said: str = "") -> None:
        self.function, self.code, self.said = function, code, said
        super().__init__(f"{function}: error {code}")


class Library:
    """The library, whose functions are called by name.

    Args:
        path: The path, or a name for the dynamic linker.
        prototypes: The functions.
        last_error: The function that returns the text of the last error, and takes a null pointer; empty if there is
            none.

    Raises:
        OSError: the library cannot be loaded.
    """

    def __init__(self, path: str, prototypes: Prototypes, last_error: str = "") -> None:
        self._library = ctypes.CDLL(path)
        self._prototypes, self._last_error = prototypes, last_error
        self._functions: dict[str, Callable[..., int]] = {}

    def call(self, name: str, *arguments: Any, fine: Mapping[int, object] | None = None) -> None:
        """Calls a function.

        Args:
            name: The name of the function.
            arguments: The arguments of its prototype.
            fine: Error codes that are no failure here.

        Raises:
            CallFailed: the function returned another error, or the library does not have it.
        """
        code = self._function(name)(*arguments)
        if code and code not in (fine or ()):
            raise CallFailed(name, code, self._said())

    def _said(self) -> str:
        found = getattr(self._library, self._last_error, None) if self._last_error else None
        if found is None:
            return ""
        found.argtypes, found.restype = [ctypes.c_void_p], ctypes.c_char_p
        return (found(None) or b"").decode(errors="replace").strip()

    def _function(self, name: str) -> Callable[..., int]:
        found = self._functions.get(name)
        if found is None:
            try:
                found = self._library[name]
            except AttributeError:
                raise CallFailed(name, MISSING) from None
            found.argtypes, found.restype = list(self._prototypes[name]), ctypes.c_int
            self._functions[name] = found
        return found


def explained(function: str, code: int) -> str:
    """Returns a sentence about an error code, such as ``cuInit returned 802: the system is not ready``."""
    if code == MISSING:
        return f"the library has no {function}: it is too old"
    words = (_NCCL if function.startswith("nccl") else _CUDA).get(code)
    return f"{function} returned {code}" + (f": {words}" if words else "")
