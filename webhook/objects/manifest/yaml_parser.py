"""The only parser of foreign YAML: it returns plain values, of which aliases make no more than a text could say."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from webhook.words.errors import ManifestError
from webhook.words.printable import fitted

MAX_ADDED = 100_000
"""The most values that aliases may stand for, beside one for each character of the text."""
MAX_DEPTH = 200
"""The most lists and mappings in one another. The deepest manifests of Kubernetes have about 40."""
_UNIT = 64
"""The number of characters of a text that count as one more value."""
_PROBLEM_LIMIT = 200


class _Constructor(SafeConstructor):
    """Makes plain values. As kubectl does, it ignores the author's own tags, such as ``!Ref``; dates stay texts."""

    most = MAX_ADDED

    def construct_document(self, node: Any) -> Any:
        _check_extent(node, self.most)
        try:
            return super().construct_document(node)
        except (ArithmeticError, LookupError, TypeError, ValueError):  # from ruamel, for !!bool a
            raise MarkedYAMLError(
                problem="found a value that is not of its type", problem_mark=node.start_mark
            ) from None

    def construct_untagged(self, node: Any) -> Any:
        if isinstance(node, MappingNode):
            return self.construct_mapping(node, deep=True)
        if isinstance(node, SequenceNode):
            return self.construct_sequence(node, deep=True)
        return self.construct_scalar(node)


_Constructor.add_constructor(None, _Constructor.construct_untagged)
_Constructor.add_constructor("tag:yaml.org,2002:timestamp", SafeConstructor.construct_yaml_str)


def parse_yaml(text: str, source: str, *, line: int = 1) -> list[Any]:
    """Returns the documents of a text as plain values, without empty ones.

    Args:
        text: A text from an untrusted author.
        source: The name of the text in messages.
        line: The number of its first line.

    Raises:
        ManifestError: the text is not YAML, a document is nested too deep, or its aliases stand for more than a text of
            its size could say.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    yaml.constructor.most = len(text) + MAX_ADDED
    return [document for document in load_yaml(yaml, text, source, line=line) if document is not None]


def load_yaml(yaml: YAML, text: str, source: str, *, line: int = 1) -> list[Any]:
    """Returns the documents of a text as ``yaml`` loads them; the other arguments are those of :func:`parse_yaml`.

    Raises:
        ManifestError: the text is not YAML; the message says where.
    """
    yaml.composer.warn_double_anchors = False
    try:
        return list(yaml.load_all(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" line {line + mark.line}" if mark else ""
        said = _said(error.problem or error.context)
        raise ManifestError(
            f"{source}{where}: expected YAML: {said}{_remedy(said, text, mark.line if mark else 0)}"
        ) from None
    except RecursionError:
        raise ManifestError(f"{source}: expected a manifest, found YAML that is nested too deep") from None
    except ReaderError as error:
        at = line + text.count("\n", 0, error.position)
        code = error.character if isinstance(error.character, int) else ord(error.character)
        raise ManifestError(
            f"{source} line {at}: expected YAML: found the control character U+{code:04X}. Remove it, or write it in "
            "double quotes with an escape"
        ) from None
    except YAMLError as error:
        raise ManifestError(f"{source}: expected YAML: {_said(str(error))}") from None
    except (ArithmeticError, LookupError, TypeError, ValueError):  # from ruamel, for 2026-02-30
        raise ManifestError(f"{source}: expected YAML, found a value that is not of its type") from None


def _check_extent(document: Any, most: int) -> None:
    """Refuses a document that is small as text and huge as a value. The work is linear in the text.

    Args:
        document: The document as nodes, in which aliases and merge keys still stand for one and the same node.
        most: The most values.

    Raises:
        MarkedYAMLError: it stands for more values, contains itself, or is nested too deep.
    """
    sizes: dict[int, int] = {}

    def size(node: Any, depth: int) -> int:
        known = sizes.get(id(node))
        if known == 0:
            raise MarkedYAMLError(problem="found a value that contains itself", problem_mark=node.start_mark)
        if known is None:
            if not depth:
                problem = f"found a value that is nested too deep (more than {MAX_DEPTH})"
                raise MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
            sizes[id(node)] = 0
            own = 1 + len(node.value) // _UNIT if isinstance(node, ScalarNode) else 1
            known = sizes[id(node)] = own + sum(size(child, depth - 1) for child in _children(node))
        return known

    if size(document, MAX_DEPTH + 1) > most:
        problem = f"found aliases that stand for more than {MAX_ADDED} values. Write out what they stand for"
        raise MarkedYAMLError(problem=problem, problem_mark=document.start_mark)


def _children(node: Any) -> Iterator[Any]:
    if isinstance(node, ScalarNode):
        return iter(())
    return chain.from_iterable(node.value) if isinstance(node, MappingNode) else iter(node.value)


def _said(problem: str | None) -> str:
    """Returns ruamel's problem for a message.

    ruamel repeats keys as they are. For a key that stands there twice it also repeats both values, which are cut off.
    """
    return fitted(" ".join((problem or "something else").partition(" with value ")[0].split()), _PROBLEM_LIMIT)


def _remedy(said: str, text: str, line: int) -> str:
    lines = text.split("\n")
    if "'\\t'" in said:
        return ". Indent with blanks: YAML takes no tabs"
    if text.startswith("%"):
        return ". Remove the lines that begin with %"
    if any("{{" in text for text in lines[max(0, line - 1) : line + 1]):
        return ". If this is a template, render it first, for example with helm template"
    return ""
