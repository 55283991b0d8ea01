"""A C library whose functions return 0 for success."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from webhook.programs.verify.abi import Prototypes


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


MISSING = -1
"""The code of a function that the library does not have."""


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
