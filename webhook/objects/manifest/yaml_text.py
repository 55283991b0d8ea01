"""The change of one YAML document, written back as its author would have written it."""

import copy
import io
import re
from collections.abc import Callable
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.anchor import Anchor
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.mergevalue import MergeValue

from webhook.objects.manifest.pods import to_json
from webhook.objects.manifest.yaml_parser import load_yaml, parse_yaml
from webhook.words.errors import ManifestError

_ONE_LINE = 2**31
_OPEN_END = "\n...\n"


def rewrite_yaml(text: str, change: Callable[[Any], None], source: str) -> str:
    """Returns ``text`` after ``change``, with the comments, the order and the quotes of what stays.

    Args:
        text: One document.
        change: A function that changes its document in place.
        source: The name of the text in messages.

    Raises:
        ManifestError: the change cannot be written so that every value stays.
    """
    plain_text = text.replace("\r\n", "\n")
    yaml = _as_written(plain_text)
    (document,) = load_yaml(yaml, plain_text, source)
    _write_out_aliases(document, set())
    change(document)
    out = io.StringIO()
    yaml.dump(document, out)
    written = out.getvalue()
    if written.endswith(_OPEN_END):
        written = written[: 1 - len(_OPEN_END)]
    _check(written, plain_text, change, source)
    return written.replace("\n", "\r\n") if "\r\n" in text else written


def _as_written(text: str) -> YAML:
    yaml = YAML(typ="rt", pure=True)
    yaml.preserve_quotes = True
    yaml.width = _ONE_LINE  # long commands stay on their line
    offset = _list_offset(text)
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)
    yaml.explicit_start = text.startswith("---")
    return yaml


def _check(written: str, text: str, change: Callable[[Any], None], source: str) -> None:
    """Compares the written text with the document as plain values, changed in the same way."""
    (expected,) = parse_yaml(text, source, ignores_tags=True)
    expected = json_copy(expected)
    change(expected)
    found = parse_yaml(written, source, ignores_tags=True)
    if len(found) != 1 or (found[0] != expected and to_json(found[0]) != to_json(expected)):
        raise ManifestError(
            f"{source}: expected YAML that can be changed without losing a value, found a form that cannot. "
            "Give the object as JSON, for example from kubectl get -o json"
        )


def json_copy(document: Any) -> Any:
    """Returns a copy in which no two places share a value, as if all aliases had been written out."""
    if isinstance(document, dict):
        return {key: json_copy(value) for key, value in document.items()}
    return [json_copy(value) for value in document] if isinstance(document, list) else document


def _write_out_aliases(node: Any, seen: set[int]) -> None:
    """Gives every alias and merge key its own copy, so that a change in one place affects no other."""
    seen.add(id(node))
    if isinstance(node, CommentedMap) and hasattr(node, MergeValue.attrib):
        bases = list(node.merge)
        inherited = {key: value for base in bases for key, value in base.items() if node[key] is value}
        delattr(node, MergeValue.attrib)
        node.update(inherited)
    if hasattr(node, Anchor.attrib):
        delattr(node, Anchor.attrib)
    for key, child in list(node.items() if isinstance(node, dict) else enumerate(node)):
        if isinstance(child, dict | list):
            if id(child) in seen:
                node[key] = copy.deepcopy(child)
            _write_out_aliases(node[key], seen)


def _list_offset(text: str) -> int:
    """Returns by how many blanks the author indents list items below their key: 0 or 2."""
    match = re.search(r"^( *)(?:- )?[\w./-]+:[ ]*\n( *)- ", text, re.MULTILINE)
    return 2 if match and len(match[2]) > len(match[1]) else 0
