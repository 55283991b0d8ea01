"""Kubernetes manifests as people write them: texts of YAML or JSON that are read, changed and written back."""

import copy
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from jsonpatch import JsonPatchException
from jsonpointer import JsonPointerException
from ruamel.yaml import YAML
from ruamel.yaml.anchor import Anchor
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.mergevalue import MergeValue

from webhook.objects.manifest.pods import to_json
from webhook.objects.manifest.yaml_parser import MAX_DEPTH, load_yaml, parse_yaml
from webhook.words.errors import ManifestError, shorten

Change = Callable[[Any], None]
"""Changes a document in place."""

_SEPARATOR = re.compile(r"^(---[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z))", re.MULTILINE)
"""A line that separates documents, whatever stands around it: YAML 1.2, 9.1.2 (``c-forbidden``)."""
_JSON = re.compile(r"[ \t\r\n]*(?:\[[ \t\r\n]*)?\{[ \t\r\n]*\"")
_BLANKS = re.compile(r"[ \t\r\n]*")
_LIST = re.compile(r"^( *)(?:- )?[\w./-]+:[ ]*\n( *)- ", re.MULTILINE)
_BYTE_ORDER_MARK = "\ufeff"
_ONE_LINE = 2**31
_NESTED = (dict, list)
_LOST = (AttributeError, LookupError, TypeError, ValueError, JsonPatchException, JsonPointerException)
"""What a change or ruamel raises where the round trip of a document lost a value."""


class _Piece(msgspec.Struct, frozen=True):
    """A document of YAML, or a stream of JSON, between two separators."""

    separator: str
    """The line before it; empty at the begin of the text."""
    text: str
    values: list[Any]
    is_json: bool
    line: int


class Manifest:
    """The documents of a text."""

    def __init__(self, text: str, source: str) -> None:
        """Reads ``text``.

        Args:
            text: A text from an untrusted author.
            source: The name of the text in messages.

        Raises:
            ManifestError: the text is neither YAML nor JSON; the message says where.
        """
        self.source = source
        """The name of the text in messages."""
        self._pieces: list[_Piece] = []
        parts = ["", *_SEPARATOR.split(text.removeprefix(_BYTE_ORDER_MARK))]
        line = 1
        for separator, piece in zip(parts[::2], parts[1::2], strict=True):
            line += separator.count("\n")
            is_json = bool(_JSON.match(piece))
            values = parse_json(piece, source, line=line) if is_json else parse_yaml(piece, source, line=line)
            self._pieces.append(_Piece(separator, piece, values, is_json, line))
            line += piece.count("\n")
        self.documents = [value for piece in self._pieces for value in piece.values]
        """The documents that are not empty, in order, as plain values."""

    @property
    def is_json(self) -> bool:
        """Whether the text is a stream of JSON documents."""
        return len(self._pieces) == 1 and self._pieces[0].is_json

    def changed(self, changes: Mapping[int, Change]) -> tuple[str, str]:
        """Returns the text before and after changes of some documents, by their number, both in one layout.

        YAML keeps comments, order and quotes; aliases and merge keys of a changed document are written out. JSON is
        indented as kubectl does it. What has no change stays byte for byte.

        Raises:
            ManifestError: a change cannot be written so that every value stays.
        """
        before, after, number = [], [], 0
        for piece in self._pieces:
            own = [changes.get(number + index) for index in range(len(piece.values))]
            number += len(own)
            texts = (piece.text, piece.text)
            if any(own):
                texts = _changed_json(piece, own) if piece.is_json else _changed_yaml(piece, own, self.source)
            before += [piece.separator, texts[0]]
            after += [piece.separator, texts[1]]
        return "".join(before), "".join(after)


def read_yaml(path: Path) -> list[Any]:
    """Returns the documents of a file of YAML or JSON as plain values, without empty documents.

    Raises:
        ManifestError: the file cannot be read, or is neither.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: cannot be read: it is not UTF-8: {error.reason}") from None
    return Manifest(text, str(path)).documents


def format_yaml(document: Any) -> str:
    """Returns one document of plain values as YAML."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel annotates it as None
    yaml.width = _ONE_LINE
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def parse_json(text: str, source: str, *, line: int = 1) -> list[Any]:
    """Returns the documents of a text of JSON, one after the other, without those that are ``null``.

    Args:
        text: Documents with blanks between them.
        source: The name of the text in messages.
        line: The number of its first line.

    Raises:
        ManifestError: the text is not JSON, or nested too deep; the message says where.
    """
    decoder = json.JSONDecoder()
    found = []
    try:
        end = _after_blanks(text, 0)
        while end < len(text):
            value, end = decoder.raw_decode(text, end)
            found.append(value)
            end = _after_blanks(text, end)
    except json.JSONDecodeError as error:
        where = f"{source} line {line + error.lineno - 1} column {error.colno}"
        raise ManifestError(f"{where}: expected JSON: {error.msg}") from None
    except ValueError as error:
        raise ManifestError(f"{source}: expected JSON, found {shorten(str(error))}") from None
    except RecursionError:
        raise ManifestError(f"{source}: expected a manifest, found JSON that is nested too deep") from None
    _check_depth(found, source)
    return [value for value in found if value is not None]


def format_json(values: Sequence[Any]) -> str:
    """Returns documents as a stream of JSON, indented as kubectl does it."""
    return "".join(json.dumps(value, indent=4, ensure_ascii=False) + "\n" for value in values)


def _after_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match else position


def _check_depth(documents: list[Any], source: str) -> None:
    level: list[Any] = documents
    for _ in range(MAX_DEPTH + 1):
        children = (node.values() if isinstance(node, dict) else node for node in level if isinstance(node, _NESTED))
        level = [child for several in children for child in several]
    if level:
        raise ManifestError(
            f"{source}: expected a manifest, found JSON that is nested too deep (more than {MAX_DEPTH})"
        )


def _changed_json(piece: _Piece, changes: Sequence[Change | None]) -> tuple[str, str]:
    values = [_unshared(value) for value in piece.values]
    for value, change in zip(values, changes, strict=True):
        if change:
            change(value)
    return format_json(piece.values), format_json(values)


def _unshared(value: Any) -> Any:
    """Returns a copy in which no two places share a value, as if all aliases had been written out."""
    if isinstance(value, dict):
        return {key: _unshared(child) for key, child in value.items()}
    return [_unshared(child) for child in value] if isinstance(value, list) else value


def _changed_yaml(piece: _Piece, changes: Sequence[Change | None], source: str) -> tuple[str, str]:
    text, place = piece.text.replace("\r\n", "\n"), f"{source} line {piece.line}"
    expected = [_unshared(value) for value in piece.values]
    for value, change in zip(expected, changes, strict=True):
        if change:
            change(value)
    try:
        before, after = _round_trip(text, changes, place)
        is_kept = json.loads(to_json(parse_yaml(after, place), place)) == json.loads(to_json(expected, place))
    except _LOST:
        is_kept = False
    if not is_kept:
        raise ManifestError(
            f"{place}: expected YAML that can be changed without losing a value, found a form that cannot. "
            "Give the object as JSON, for example from kubectl get -o json"
        )
    if "\r\n" in piece.text:
        before, after = before.replace("\n", "\r\n"), after.replace("\n", "\r\n")
    return before, after


def _round_trip(text: str, changes: Sequence[Change | None], source: str) -> tuple[str, str]:
    yaml = _as_written(text)
    documents = [document for document in load_yaml(yaml, text, source) if document is not None]
    _write_out_aliases(documents, set())
    before = _dumped(yaml, documents)
    for document, change in zip(documents, changes, strict=True):
        if change:
            change(document)
    return before, _dumped(yaml, documents)


def _as_written(text: str) -> YAML:
    yaml = YAML(typ="rt", pure=True)
    yaml.preserve_quotes = True
    yaml.width = _ONE_LINE  # long commands stay on their line
    lists = _LIST.search(text)
    offset = 2 if lists and len(lists[2]) > len(lists[1]) else 0  # of the items of a list, below their key
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)
    return yaml


def _dumped(yaml: YAML, documents: Sequence[Any]) -> str:
    out = io.StringIO()
    yaml.dump_all(documents, out)
    return out.getvalue()


def _write_out_aliases(node: Any, seen: set[int]) -> None:
    """Gives every alias and merge key its own copy, so that a change in one place affects no other."""
    seen.add(id(node))
    if isinstance(node, CommentedMap) and hasattr(node, MergeValue.attrib):
        inherited = {key: value for base in node.merge for key, value in base.items() if node[key] is value}
        delattr(node, MergeValue.attrib)
        node.update(inherited)
    if hasattr(node, Anchor.attrib):
        delattr(node, Anchor.attrib)
    for key, child in list(node.items() if isinstance(node, dict) else enumerate(node)):
        if isinstance(child, _NESTED):
            if id(child) in seen:
                node[key] = copy.deepcopy(child)
            _write_out_aliases(node[key], seen)
