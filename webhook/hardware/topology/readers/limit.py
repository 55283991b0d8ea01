"""The length limit of a text that a reader parses."""

from webhook.hardware.topology.document import MAX_BYTES
from webhook.words.errors import FormatError


def check_length(text: str, source: str) -> None:
    """Raises FormatError if ``text`` is longer than a topology in JSON may be."""
    if len(text) > MAX_BYTES:
        raise FormatError(source, expected=f"at most {MAX_BYTES} characters", found=f"{len(text)} characters")
