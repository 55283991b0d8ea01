"""The file ``nccl.conf``, from which NCCL takes variables that its process does not have (``NCCL_CONF_FILE``).

NCCL reads it from 2.23 on. Each line has a name, ``=`` and the value, without quotes. Lines that begin with ``#`` are
comments only from 2.26 on, so no comment is written. Source: NCCL src/misc/param.cc, setEnvFile.
"""

import re
from collections.abc import Iterable

from webhook.words.errors import FormatError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LONGEST = 1023
"""The most bytes of a value; NCCL cuts the rest off."""


def format_nccl_settings(values: Iterable[tuple[str, str]]) -> str:
    """Returns the text of the file.

    Raises:
        FormatError: NCCL would read another name or another value.
    """
    return "".join(f"{_checked(name, value)}\n" for name, value in values)


def _checked(name: str, value: str) -> str:
    where = f"NCCL's configuration file: {name}"
    if not _NAME.fullmatch(name):
        raise FormatError(where, expected="letters, digits and _ in the name", found=name)
    if not value or not value.isprintable() or len(value.encode()) > _LONGEST:
        raise FormatError(where, expected=f"1 to {_LONGEST} printable bytes", found=value)
    return f"{name}={value}"
