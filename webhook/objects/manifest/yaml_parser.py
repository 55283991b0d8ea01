"""The only parser of foreign YAML: it returns plain values within limits of size, depth and aliases."""

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from webhook.objects.manifest.extent import check_extent, check_length
from webhook.words.errors import ManifestError
from webhook.words.printable import fitted

MAX_MERGED = 10_000
"""The most keys of one mapping, including those that merge keys (``<<``) give it."""
MAX_MERGED_TOGETHER = 10 * MAX_MERGED
"""The most keys that merge keys give to all mappings of a text."""
_PROBLEM_LIMIT = 200


class _Constructor(SafeConstructor):
    """Makes plain values, and no more of them than the text could have written out."""

    merged = 0
    """The number of keys that merge keys have given so far."""

    def flatten_mapping(self, node: Any) -> Any:
        written = len(node.value)
        merged = super().flatten_mapping(node)
        self.merged += max(len(node.value) - written, 0)
        for found, most in ((len(node.value), MAX_MERGED), (self.merged, MAX_MERGED_TOGETHER)):
            if found > most:  # merge keys of merge keys double the number again and again
                problem = f"found merge keys that stand for more than {most} keys"
                raise MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return merged

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, LookupError, TypeError, ValueError):  # from ruamel, for 2026-02-30 or !!bool a
            raise MarkedYAMLError(
                problem="found a value that is not of its type", problem_mark=node.start_mark
            ) from None


class _TagBlindConstructor(_Constructor):
    """Makes values without regard to the author's own tags, such as ``!Ref``, as kubectl does."""

    def construct_untagged(self, node: Any) -> Any:
        if isinstance(node, MappingNode):
            return self.construct_mapping(node, deep=True)
        if isinstance(node, SequenceNode):
            return self.construct_sequence(node, deep=True)
        return self.construct_scalar(node)


_TagBlindConstructor.add_constructor(None, _TagBlindConstructor.construct_untagged)


class YamlParser:
    """Reads the YAML of one source, perhaps in several pieces, as plain values.

    Args:
        source: The name of the source in messages.
        ignores_tags: Whether the author's own tags are ignored instead of refused.
    """

    def __init__(self, source: str, *, ignores_tags: bool = False) -> None:
        self._source = source
        self._constructor = _TagBlindConstructor if ignores_tags else _Constructor
        self._length = self._merged = 0

    def parse(self, text: str, line: int = 1) -> list[Any]:
        """Returns the documents of a text, without empty ones.

        Args:
            text: A text from an untrusted author. Only values of plain types come out of it.
            line: The number of its first line.

        Raises:
            ManifestError: the text is not YAML, the pieces together are too long, a document is nested too deep, or its
                aliases stand for more than a text of its size could say.
        """
        self._length += len(text)
        check_length(self._length, self._source)
        yaml = YAML(typ="safe", pure=True)
        yaml.Constructor = self._constructor
        yaml.constructor.merged = self._merged
        documents = [document for document in load_yaml(yaml, text, self._source, line=line) if document is not None]
        self._merged = yaml.constructor.merged
        for document in documents:
            check_extent(document, self._source if line == 1 else f"{self._source} line {line}")
        return documents


def parse_yaml(text: str, source: str, *, ignores_tags: bool = False) -> list[Any]:
    """Returns the documents of a whole text as plain values; see ``YamlParser``."""
    return YamlParser(source, ignores_tags=ignores_tags).parse(text)


def load_yaml(yaml: YAML, text: str, source: str, *, line: int = 1) -> list[Any]:
    """Returns the documents of a text as ``yaml`` loads them.

    Args:
        yaml: The loader.
        text: A text from an untrusted author.
        source: The name of the text in messages.
        line: The number of its first line.

    Raises:
        ManifestError: the text is not YAML; the message says where.
    """
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
    except (ArithmeticError, LookupError, TypeError, ValueError):  # from ruamel, for 2026-02-30 or !!bool a
        raise ManifestError(f"{source}: expected YAML, found a value that is not of its type") from None


def _said(problem: str | None) -> str:
    """Returns ruamel's problem for a message.

    ruamel repeats keys as they are. For a key that stands there twice it also repeats both values, which are cut off.
    """
    return fitted(" ".join((problem or "something else").partition(" with value ")[0].split()), _PROBLEM_LIMIT)


def _remedy(said: str, text: str, line: int) -> str:
    lines = text.split("\n")
    if "'\\t'" in said:
        return ". Indent with blanks: YAML takes no tabs"
    if any("{{" in text for text in lines[max(0, line - 1) : line + 1]):
        return ". If this is a template, render it first, for example with helm template"
    return ""
