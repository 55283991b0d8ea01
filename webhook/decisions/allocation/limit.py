"""The limits of one allocation. An allocation beyond them is refused before it is parsed."""

from dataclasses import dataclass

from webhook.words.errors import FormatError, LimitError

MAX_CHARACTERS = 64 * 1024
"""All annotations of an object together have 256 KiB; a device takes about 60 characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AllocationLimits:
    """The limits of one pod's allocation, from the section ``limits`` of the configuration."""

    segments: int = 128
    """Segments; there is about one for each container."""
    devices: int = 256
    """GPUs and parts of GPUs of all segments together; also the limit of MIG instances."""

    def check_segments(self, found: int, source: str) -> None:
        """Raises LimitError if ``found`` segments are too many."""
        if found > self.segments:
            raise LimitError(source, setting="segments", most=self.segments, what="segments", found=found)

    def check_devices(self, found: int, source: str) -> None:
        """Raises LimitError if ``found`` devices are too many."""
        if found > self.devices:
            raise LimitError(source, setting="devices", most=self.devices, what="devices", found=found)


DEFAULT_LIMITS = AllocationLimits()
BY_LENGTH = AllocationLimits(segments=MAX_CHARACTERS + 1, devices=MAX_CHARACTERS + 1)
"""All that the text has room for: the remap program reads its own pod's allocation, and knows no configuration."""


def check_length(text: str, source: str) -> None:
    """Raises FormatError if ``text`` is longer than any allocation."""
    if len(text) > MAX_CHARACTERS:
        raise FormatError(source, expected=f"at most {MAX_CHARACTERS} characters", found=f"{len(text)} characters")
