"""The text around what ``nvidia-smi`` printed: lines that know where they stand, without colours and odd blanks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from webhook.hardware.topology.readers.limit import check_length
from webhook.words.errors import FormatError

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\([A-Z0-9]")
"""nvidia-smi underlines the header of the matrix whether or not it writes to a terminal."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line and how messages call it."""

    where: str
    text: str

    @property
    def words(self) -> list[str]:
        """What stands between blanks and tabs."""
        return self.text.split()

    def checked(self) -> "Line":
        """The line itself, if a terminal can show it.

        Raises:
            FormatError: it holds control characters.
        """
        if not self.text.replace("\t", " ").isprintable():
            raise FormatError(self.where, expected="a line of printable characters", found=self.text)
        return self


def lines_of(text: str, *, source: str) -> Sequence[Line]:
    """The lines of a text, with or without carriage returns.

    Raises:
        FormatError: the text is larger than 1 MiB.
    """
    check_length(text, source)
    plain = _ESCAPE.sub("", text).replace("\xa0", " ")
    return [Line(f"{source}: line {number}", line.rstrip("\r")) for number, line in enumerate(plain.split("\n"), 1)]
