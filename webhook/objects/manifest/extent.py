"""The limits of a text: its length, its depth, and the size of what its aliases stand for."""

from itertools import chain
from typing import Any

from webhook.words.errors import ManifestError

MAX_COPIES = 50_000
"""The most lists and mappings that aliases may add to the written text. 64 entries of a list or mapping, or 64
characters of a text, count as one more."""
MAX_DEPTH = 200
"""The most lists and mappings in one another. The deepest manifests of Kubernetes have about 40."""
MAX_YAML = 8 * 1024 * 1024
"""The most characters of YAML in one text. They take two minutes; JSON of that size takes less than a second."""
_UNIT = 64
_NESTED = (dict, list)


def check_length(characters: int, source: str) -> None:
    """Refuses more YAML than can be read in a reasonable time.

    Raises:
        ManifestError: the text is too long.
    """
    if characters > MAX_YAML:
        raise ManifestError(
            f"{source}: expected at most {MAX_YAML // 1024**2} MiB of YAML, found more. "
            "Give JSON, which is read a hundred times faster (kubectl get -o json), or fewer objects"
        )


def check_extent(document: Any, source: str) -> None:
    """Refuses a document that is small as text and huge as a value. The work is linear in the text.

    Raises:
        ManifestError: its aliases stand for too much, it contains itself, or it is nested too deep.
    """
    extents: dict[int, int] = {}
    written = _Sum()
    extent = _extent(document, extents, written, MAX_DEPTH, source)
    if extent - written.total > MAX_COPIES:
        raise ManifestError(
            f"{source}: expected a manifest, found aliases that stand for more than {MAX_COPIES} lists and mappings. "
            "Write out what they stand for, in several files"
        )


def check_depth(document: Any, source: str) -> None:
    """Refuses a JSON document that is nested too deep. JSON has no aliases.

    Raises:
        ManifestError: the document is nested too deep.
    """
    level = [document] if isinstance(document, _NESTED) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return
        children = (node.values() if isinstance(node, dict) else node for node in level)
        level = [child for several in children for child in several if isinstance(child, _NESTED)]
    if level:
        raise _too_deep(source)


def _too_deep(source: str) -> ManifestError:
    return ManifestError(f"{source}: expected a manifest, found one that is nested too deep (more than {MAX_DEPTH})")


class _Sum:
    total = 0


def _extent(node: Any, extents: dict[int, int], written: _Sum, depth: int, source: str) -> int:
    if (isinstance(node, str) and len(node) < _UNIT) or not isinstance(node, str | dict | list):
        return 0
    known = extents.get(id(node))
    if known is not None:
        if known < 0:
            raise ManifestError(f"{source}: expected a manifest, found one that contains itself")
        return known
    if not depth:
        raise _too_deep(source)
    extents[id(node)] = -1
    own = len(node) // _UNIT + (not isinstance(node, str))
    written.total += own
    extent = own
    if not isinstance(node, str):
        for child in chain(node, node.values()) if isinstance(node, dict) else node:
            extent += _extent(child, extents, written, depth - 1, source)
    extents[id(node)] = extent
    return extent
