"""A C library whose functions return 0 for success."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from webhook.programs.verify.abi import Prototypes


class CallFailed(Exception):
    """A function of a library returned an error.

    Args:
        function: Its name.
        code: What it returned; -1 where the library does not have the function.
    """

    def __init__(self, function: str, code: int) -> None:
        self.function, self.code = function, code
        super().__init__(f"{function}: error {code}")


MISSING = -1
"""The code of a function that the library does not have."""


class Library:
    """Calls functions by their names.

    Args:
        path: Path, or name for the dynamic linker.
        prototypes: The functions.

    Raises:
        OSError: it cannot be loaded.
    """

    def __init__(self, path: str, prototypes: Prototypes) -> None:
        self._library = ctypes.CDLL(path)
        self._prototypes = prototypes
        self._functions: dict[str, Callable[..., int]] = {}

    def call(self, name: str, *arguments: Any, fine: Mapping[int, object] | None = None) -> None:
        """Call a function.

        Args:
            name: Of the function.
            arguments: As its prototype has them.
            fine: Errors that are no failure here.

        Raises:
            CallFailed: it returned another error.
        """
        code = self._function(name)(*arguments)
        if code and code not in (fine or ()):
            raise CallFailed(name, code)

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
