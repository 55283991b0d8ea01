"""A text of YAML or JSON documents that can be changed and written back."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from webhook.objects.manifest.json_text import format_json, read_json
from webhook.objects.manifest.stream import Part, split
from webhook.objects.manifest.yaml_parser import YamlParser
from webhook.objects.manifest.yaml_text import json_copy, rewrite_yaml
from webhook.words.errors import ManifestError

Change = Callable[[Any], None]
"""Changes a document in place."""


class Document(msgspec.Struct, frozen=True):
    """One document of a manifest that is not empty."""

    value: Any
    """The document as plain values; two places that a YAML alias joins share their value."""
    text: str
    """The document as it was written."""
    is_json: bool
    source: str
    """The name of the text in messages."""
    line: int
    """The line on which the document begins, from 1."""

    def changed(self, change: Change) -> str:
        """Returns the text of the document after ``change``.

        Raises:
            ManifestError: the change cannot be written so that every value stays.
        """
        if not self.is_json:
            return rewrite_yaml(self.text, change, f"{self.source} line {self.line}")
        value = json_copy(self.value)
        change(value)
        return format_json(value, like=self.text)


class Manifest:
    """The documents of a text."""

    def __init__(self, text: str, source: str, *, ignores_tags: bool = True) -> None:
        """Reads ``text``.

        Args:
            text: A text from an untrusted author.
            source: The name of the text in messages.
            ignores_tags: Whether the author's own YAML tags are ignored, as kubectl does, instead of refused.

        Raises:
            ManifestError: the text is neither YAML nor JSON; the message says where.
        """
        self._pieces: list[str | Document] = []
        self.source = source
        """The name of the text in messages."""
        self._parser = YamlParser(source, ignores_tags=ignores_tags)
        for part in split(text):
            self._pieces.append(part.lead)
            if part.body:
                self._read(part)
            self._pieces.append(part.tail)
        self.documents = [piece for piece in self._pieces if isinstance(piece, Document)]
        """The documents that are not empty, in order."""

    @property
    def is_json(self) -> bool:
        """Whether the text is a stream of JSON documents, with nothing of YAML between them."""
        return all(piece.is_json if isinstance(piece, Document) else not piece.strip() for piece in self._pieces)

    def text(self, changes: Mapping[int, Change]) -> str:
        """Returns the text after changes of some documents, by their number; the others stay byte for byte."""
        pieces = []
        number = 0
        for piece in self._pieces:
            if isinstance(piece, str):
                pieces.append(piece)
                continue
            pieces.append(piece.changed(changes[number]) if number in changes else piece.text)
            number += 1
        return "".join(pieces)

    def _read(self, part: Part) -> None:
        problem = None
        if part.body.lstrip().startswith(("{", "[")):
            try:
                self._read_json(part)
            except ManifestError as error:  # perhaps YAML's flow style, such as {a: b}
                problem = error
            else:
                return
        try:
            values = self._parser.parse(part.body, part.line)
        except ManifestError as error:
            raise (problem if problem and _looks_like_json(part.body) else error) from None
        if len(values) > 1:
            raise ManifestError(f"{self.source} line {part.line}: expected lines of their own between documents (---)")
        self._pieces.extend(
            Document(value, part.body, is_json=False, source=self.source, line=part.line) for value in values
        )
        if not values:
            self._pieces.append(part.body)

    def _read_json(self, part: Part) -> None:
        pieces: list[str | Document] = []
        before = 0
        for value, start, end, line in read_json(part.body, self.source, part.line):
            pieces.append(part.body[before:start])
            text = part.body[start:end]
            pieces.append(text if value is None else Document(value, text, is_json=True, source=self.source, line=line))
            before = end
        self._pieces.extend([*pieces, part.body[before:]])


def _looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[") and text.lstrip()[1:].lstrip().startswith('"')
