"""Standard input, for commands whose file may be ``-``."""

import sys
from typing import BinaryIO

from webhook.words.errors import ManifestError


def standard_input() -> BinaryIO:
    """Return the bytes of standard input.

    Raises:
        ManifestError: standard input is closed.
    """
    if sys.stdin is None:
        raise ManifestError("standard input is closed")
    return sys.stdin.buffer
