"""The value of the annotation ``gpu.topology/injected``."""

import msgspec

from webhook.words import names
from webhook.words.choices import Profile
from webhook.words.errors import FormatError


class Mark(msgspec.Struct, frozen=True):
    """The version and the profile with which a pod was prepared: ``0.1.0 exclusive``."""

    version: str
    profile: Profile

    @classmethod
    def parse(cls, text: str, *, source: str = f"annotation {names.INJECTED}") -> "Mark":
        """Reads the annotation.

        Raises:
            FormatError: the text is not a version and a profile.
        """
        version, separator, profile = text.partition(" ")
        if not version or not separator or profile not in list(Profile):
            raise FormatError(source, expected='a version and a profile such as "0.1.0 exclusive"', found=text)
        return cls(version, Profile(profile))

    def format(self) -> str:
        """Returns the text of the annotation."""
        return f"{self.version} {self.profile}"
