"""The versions of the surrounding components, compared by their numbers alone."""

import re

import msgspec

from webhook.words.errors import FormatError

_NUMBERS = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?(?![0-9])")
"""The numbers of a version, with ASCII digits and a limit, because Python's ``int`` also reads the digits of other
alphabets and fails above 4,300 digits."""


class Version(msgspec.Struct, frozen=True, order=True):
    """A release such as HAMi 2.10.0 or Kubernetes 1.33.2; suffixes (``-gke.100``, ``+k3s1``) do not count."""

    major: int
    minor: int
    patch: int = 0

    @classmethod
    def parse(cls, text: str, *, source: str) -> "Version":
        """Reads a version such as ``v2.10.0``, ``1.33`` or ``v1.31.4+k3s1``.

        Raises:
            FormatError: ``text`` does not start with such numbers.
        """
        match = _NUMBERS.match(text)
        if not match:
            raise FormatError(source, expected='a version such as "2.10.0"', found=text)
        major, minor, patch = match.groups(default="0")
        return cls(int(major), int(minor), int(patch))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"
