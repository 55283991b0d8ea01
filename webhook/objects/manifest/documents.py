"""Files of YAML or JSON as plain values, and plain values as YAML."""

import io
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from webhook.objects.manifest.manifest import Manifest
from webhook.words.errors import ManifestError


def read_yaml(path: Path) -> list[Any]:
    """Returns the documents of a file as plain values, without empty documents.

    Raises:
        ManifestError: the file cannot be read, or is neither YAML nor JSON within the limits of a ``Manifest``.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path}: cannot be read: {reason(error)}") from None
    return [document.value for document in Manifest(text, str(path), ignores_tags=False).documents]


def format_yaml(document: Any) -> str:
    """Returns one document of plain values as YAML."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel annotates it as None
    yaml.width = 4096
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def reason(error: OSError | UnicodeDecodeError) -> str:
    """Returns why a file cannot be read, without repeating its name."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else f"it is not UTF-8: {error.reason}"
