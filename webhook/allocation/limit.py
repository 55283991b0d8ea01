"""How long an annotation may be that is taken apart here."""

from webhook.model.errors import FormatError

MAX_CHARACTERS = 64 * 1024
"""All annotations of an object together have 256 KiB; a device takes about 60 characters."""


def check_length(text: str, source: str) -> None:
    """Raises FormatError if ``text`` is longer than any allocation."""
    if len(text) > MAX_CHARACTERS:
        raise FormatError(source, expected=f"at most {MAX_CHARACTERS} characters", found=f"{len(text)} characters")
