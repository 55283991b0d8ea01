"""YAML files of one or more documents, read and written with comments and order kept."""

import io
import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from webhook.model.errors import ManifestError


def read_yaml(path: Path) -> list[Any]:
    """The documents of a file as plain values, empty documents left out.

    Raises:
        ManifestError: it cannot be read, or is not YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path}: cannot be read: {error}") from None
    return [document for document in _load(YAML(typ="safe", pure=True), text, str(path)) if document is not None]


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

    def text(self) -> str:
        """The documents as they are now."""
        out = io.StringIO()
        self._yaml.dump_all(self.documents, out)
        return out.getvalue()


def _list_offset(text: str) -> int:
    """How far the author indents list items below their key: 0 or 2."""
    match = re.search(r"^( *)(?:- )?[\w./-]+:[ ]*\n( *)- ", text, re.MULTILINE)
    return 2 if match and len(match[2]) > len(match[1]) else 0


def _load(yaml: YAML, text: str, source: str) -> list[Any]:
    try:
        return list(yaml.load_all(text))
    except MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ManifestError(f"{source}{line}: expected YAML: {error.problem or error.context}") from None
    except YAMLError as error:
        raise ManifestError(f"{source}: expected YAML: {error}") from None
