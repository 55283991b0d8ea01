"""YAML files of one or more documents, read and written with comments and order kept."""

import copy
import io
import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.anchor import Anchor
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.mergevalue import MergeValue

from webhook.model.errors import ManifestError
from webhook.printable import fitted

MAX_NODES = 50_000
_PROBLEM_LIMIT = 200
_ALIAS = re.compile(r"(?:^|[\s\[{,:-])\*[^\s*]", re.MULTILINE)


def read_yaml(path: Path) -> list[Any]:
    """The documents of a file as plain values, empty documents left out.

    Raises:
        ManifestError: it cannot be read, or is not YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path}: cannot be read: {reason(error)}") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> list[Any]:
    """The documents of a text as plain values, empty documents left out.

    Args:
        text: From an untrusted author: only values of plain types come out of it.
        source: How messages call it.

    Raises:
        ManifestError: it is not YAML.
    """
    return [document for document in _load(YAML(typ="safe", pure=True), text, source) if document is not None]


def format_yaml(document: Any) -> str:
    """One document of plain values."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel annotates it as None
    yaml.width = 4096
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def reason(error: OSError | UnicodeDecodeError) -> str:
    """Why a file cannot be read, without repeating its name."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else f"it is not UTF-8: {error.reason}"


class Manifest:
    """A text of YAML documents that can be changed and written back as its author would have written it."""

    def __init__(self, text: str, source: str) -> None:
        """Read ``text``; ``source`` is what messages call it.

        Raises:
            ManifestError: it is not YAML.
        """
        self._yaml = YAML(typ="rt", pure=True)
        self._yaml.preserve_quotes = True
        self._yaml.width = 4096  # long commands stay on their line
        offset = _list_offset(text)
        self._yaml.indent(mapping=2, sequence=offset + 2, offset=offset)
        self._yaml.explicit_start = text.lstrip().startswith("---")
        self.documents: list[Any] = _load(self._yaml, text, source)
        """The documents; plain values with comments and order attached."""
        if _ALIAS.search(text):
            for document in self.documents:
                _write_out_aliases(document, set(), source)

    def text(self) -> str:
        """The documents as they are now."""
        out = io.StringIO()
        self._yaml.dump_all(self.documents, out)
        return out.getvalue()


def _write_out_aliases(node: Any, seen: set[int], source: str) -> None:
    """Give every alias and merge key its own copy, so that a change in one place stays there."""
    if len(seen) > MAX_NODES:
        raise ManifestError(f"{source}: expected a manifest, found aliases that stand for more than {MAX_NODES} nodes")
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
            _write_out_aliases(node[key], seen, source)


def _list_offset(text: str) -> int:
    """How far the author indents list items below their key: 0 or 2."""
    match = re.search(r"^( *)(?:- )?[\w./-]+:[ ]*\n( *)- ", text, re.MULTILINE)
    return 2 if match and len(match[2]) > len(match[1]) else 0


def _said(problem: str | None) -> str:
    """What ruamel says, for a message: it repeats keys as they are and, of one that stands there twice, both values."""
    return fitted(" ".join((problem or "something else").partition(" with value ")[0].split()), _PROBLEM_LIMIT)


def _load(yaml: YAML, text: str, source: str) -> list[Any]:
    try:
        return list(yaml.load_all(text))
    except MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ManifestError(f"{source}{line}: expected YAML: {_said(error.problem or error.context)}") from None
    except RecursionError:
        raise ManifestError(f"{source}: expected a manifest, found YAML that is nested too deep") from None
    except YAMLError as error:
        raise ManifestError(f"{source}: expected YAML: {_said(str(error))}") from None
    except (ArithmeticError, LookupError, TypeError, ValueError):  # from ruamel, for 2026-02-30 or !!bool a
        raise ManifestError(f"{source}: expected YAML, found a value that is not of its type") from None
