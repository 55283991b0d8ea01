"""The lines of a text with output of ``nvidia-smi``: with their places, without colours and non-breaking blanks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from webhook.hardware.topology.readers.limit import check_length
from webhook.words.errors import FormatError

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\([A-Z0-9]")
"""Terminal escapes. nvidia-smi underlines the header of the matrix even if it does not write to a terminal."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line and its place, as messages name it."""

    where: str
    text: str

    @property
    def words(self) -> list[str]:
        """The words of the line, which blanks and tabs separate."""
        return self.text.split()

    def checked(self) -> "Line":
        """Returns the line itself, if it is printable.

        Raises:
            FormatError: the line has control characters.
        """
        if not self.text.replace("\t", " ").isprintable():
            raise FormatError(self.where, expected="a line of printable characters", found=self.text)
        return self


def lines_of(text: str, *, source: str) -> Sequence[Line]:
    """Returns the lines of a text, which may have carriage returns.

    Raises:
        FormatError: the text is larger than 1 MiB.
    """
    check_length(text, source)
    plain = _ESCAPE.sub("", text).replace("\xa0", " ")
    return [Line(f"{source}: line {number}", line.rstrip("\r")) for number, line in enumerate(plain.split("\n"), 1)]
