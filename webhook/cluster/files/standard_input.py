"""Standard input, for commands whose file may be ``-``."""

import sys
from typing import BinaryIO


def standard_input() -> BinaryIO:
    """What is read.

    Raises:
        ManifestError: it is closed.
    """
    if sys.stdin is None:
        from webhook.model.errors import ManifestError

        raise ManifestError("standard input is closed")
    return sys.stdin.buffer
