"""Cuts an NCCL topology file into tags the way NCCL does, which is not XML: character by character, with its limits.

It imitates xmlGetNode and what it calls in NCCL 2.30.7, src/graph/xml.cc, so that the verdict on odd input follows from
the imitation.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import NoReturn

from webhook.model.errors import GpuTopologyError
from webhook.printable import printable
from webhook.topology.nccl.report import Diagnostic, Severity, fails, quoted
from webhook.topology.nccl.values import MAX_TEXT

MAX_ATTRIBUTES = 16
"""Stored with an element; NCCL drops the rest: MAX_ATTR_COUNT, src/graph/xml.h."""
MAX_RECURSION = 10_000
"""NCCL calls itself for each comment behind a comment, and for each level of elements that it skips. Measured with its
parser and the usual stack of 8 MiB: 20,000 comments are read, 40,000 end in a segmentation fault."""

_SPACE = re.compile(r"[ \n\r]*")
_END_OF_TOKEN = re.compile(r"[= >/\n\r]")
_BYTE_ORDER_MARK = "\xef\xbb\xbf"
_NAMED = {"\t": "a tab", "\n": "a line break", "\r": "a carriage return", " ": "a space", "\0": "a zero byte"}


class Unreadable(GpuTopologyError):
    """NCCL's parser gives up; communicators fail on every rank that reads the file."""

    def __init__(self, finding: Diagnostic) -> None:
        self.finding = finding
        super().__init__(str(finding))


class Kind(Enum):
    """What a tag does."""

    OPEN = auto()
    CLOSE = auto()
    SINGLE = auto()


@dataclass(frozen=True, slots=True)
class Tag:
    """One tag with its attributes as NCCL stores them."""

    kind: Kind
    name: str
    line: int
    attributes: tuple[tuple[str, str], ...] = ()
    dropped: int = 0


class Reader:
    """Cuts a file into tags.

    Raises:
        Unreadable: all methods, where NCCL gives up.
    """

    def __init__(self, text: bytes) -> None:
        # One character for each byte: the limits count bytes.
        self._text = text.decode("latin-1")
        self._position = 0
        self._counted = 0
        self._line = 1
        self.single_quotes: int | None = None

    @property
    def line(self) -> int:
        """Where reading is now, from 1."""
        self._line += self._text.count("\n", self._counted, self._position)
        self._counted = self._position
        return self._line

    def tag(self) -> Tag | None:
        """The next tag that is no comment, or nothing at the end of the file."""
        comments = 0
        while True:
            self._position = _SPACE.match(self._text, self._position).end()  # type: ignore[union-attr]  # matches ""
            if self._position == len(self._text):
                return None
            if self._text[self._position] != "<":
                words = f"XML Parse error : expecting '<', got '{printable(self._text[self._position])}'"
                self.give_up("between elements", '"<" behind spaces and line breaks only', self._here(), words)
            line = self.line
            self._position += 1
            name, end = self._name("")
            if name.startswith("!--"):
                comments += 1
                if comments > MAX_RECURSION:
                    self.crash("comments behind each other", f"more than {MAX_RECURSION}")
                self._skip_comment(name[3:], end)
            elif not name and end == "/":
                return self._closing_tag(line)
            else:
                return self._opening_tag(name, end, line)

    def _closing_tag(self, line: int) -> Tag:
        name, end = self._name("")
        if end != ">":
            words = f"XML Parse error : unexpected trailing {printable(end)} in closing tag {printable(name)}"
            self._step_back()
            self.give_up(_tag_of("/" + name), '">"', self._here(), words)
        return Tag(Kind.CLOSE, name, line)

    def _opening_tag(self, name: str, end: str, line: int) -> Tag:
        stored: list[tuple[str, str]] = []
        dropped = 0
        while end == " ":
            key, value, end = self._attribute(name)
            if len(stored) == MAX_ATTRIBUTES:
                dropped += 1
            else:
                stored.append((key, value))
        kind = Kind.OPEN
        if end == "/":
            # Whatever stands between the slash and the next ">" is lost.
            kind, (_, end) = Kind.SINGLE, self._name(name)
        if end != ">":
            self._step_back()
            words = f"XML Parse : expected >, got '{printable(end)}'"
            declared = name.startswith("?")
            expected = "no XML declaration" if declared else 'one space between attributes, then ">" or "/>"'
            self.give_up(_tag_of(name), expected, self._here(), words)
        return Tag(kind, name, line, tuple(stored), dropped)

    def _name(self, of: str) -> tuple[str, str]:
        """A name without a value, and the character that ended it."""
        name, end = self._token(of)
        if end == "=":
            words = f"XML Parse : Unexpected value with name {printable(name)}"
            self._step_back()
            expected = 'a name that ends with a space, a line break, a slash or ">"'
            self.give_up(_tag_of(of), expected, quoted(name + "="), words)
        return name, end

    def _attribute(self, of: str) -> tuple[str, str, str]:
        """Name, value and the character behind it; a name alone has an empty value."""
        name, end = self._token(of)
        if end != "=":
            return name, "", end
        return name, self._value(of), self._character(of)

    def _token(self, of: str) -> tuple[str, str]:
        start = self._position
        match = _END_OF_TOKEN.search(self._text, start, start + MAX_TEXT + 2)
        # An equals sign is looked at before the length, so a name in front of it may have one more.
        if not match or (match.start() - start > MAX_TEXT and match[0] != "="):
            self._too_long_or_cut(of, start, "name")
        self._position = match.end()
        return _c_string(self._text[start : match.start()]), match[0]

    def _value(self, of: str) -> str:
        quote = self._character(of)
        if quote not in ('"', "'"):
            self._step_back()
            self.give_up(
                _tag_of(of),
                "a double quote behind the equals sign",
                self._here(),
                "XML Parse : Expected (double) quote.",
            )
        if quote == "'" and self.single_quotes is None:
            self.single_quotes = self.line
        start = self._position
        end = self._text.find(quote, start, start + MAX_TEXT + 1)
        if end < 0:
            self._too_long_or_cut(of, start, "value")
        self._position = end + 1
        return _c_string(self._text[start:end])

    def _character(self, of: str) -> str:
        if self._position == len(self._text):
            self._cut(of)
        self._position += 1
        return self._text[self._position - 1]

    def _skip_comment(self, start: str, end: str) -> None:
        """Up to the end of the comment, of which ``start`` and ``end`` were read with the name."""
        window = ("..." + start + end)[-3:]
        for length in range(3):
            if (window + self._text[self._position : self._position + length])[-3:] == "-->":
                self._position += length
                return
        found = self._text.find("-->", self._position)
        if found < 0:
            self.give_up("a comment", '"-->"', "the end of the file", "XML Parse error : unterminated comment")
        self._position = found + 3

    def _too_long_or_cut(self, of: str, start: int, what: str) -> NoReturn:
        if len(self._text) - start < MAX_TEXT + 2:
            self._position = len(self._text)
            self._cut(of)
        text = self._text[start : start + MAX_TEXT + 1]
        words = f"Error : {what} {printable(_c_string(text[:20]))}... too long (max 255)"
        expected = f"a {what} of at most {MAX_TEXT} bytes"
        self.give_up(_tag_of(of), expected, f"a longer one, {quoted(_c_string(text))}", words)

    def _cut(self, of: str) -> NoReturn:
        self.give_up(_tag_of(of), "more characters", "the end of the file", "XML Parse : Unexpected EOF")

    def crash(self, where: str, found: str) -> NoReturn:
        """End where NCCL runs out of stack."""
        message = f"expected at most {MAX_RECURSION}, found {found}"
        consequence = "NCCL calls itself for each and crashes when its stack is used up"
        raise Unreadable(Diagnostic(Severity.ABORTS, self.line, where, message, consequence))

    def give_up(self, where: str, expected: str, found: str, words: str, result: str = "ncclInternalError") -> NoReturn:
        """End as NCCL does."""
        message = f"expected {expected}, found {found}"
        raise Unreadable(Diagnostic(Severity.ABORTS, self.line, where, message, fails(words, result)))

    def _step_back(self) -> None:
        """To the character that was read last, so that the message is about it."""
        self._position -= 1

    def _here(self) -> str:
        """The next characters in words."""
        rest = self._text[self._position : self._position + 20]
        if rest.startswith(_BYTE_ORDER_MARK):
            return "a byte order mark"
        return _NAMED.get(rest[:1]) or quoted(_c_string(rest.partition("\n")[0]))


def _tag_of(name: str) -> str:
    return f"the tag {quoted('<' + name)}"


def _c_string(text: str) -> str:
    """The bytes up to the first zero byte, where C ends a string, as text; bytes that are no UTF-8 stay apart."""
    return text.partition("\0")[0].encode("latin-1").decode("utf-8", "surrogateescape")
