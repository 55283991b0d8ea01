"""The sources of other projects that comments and docstrings of the code cite.

A citation is the name of a source file, a directory below ``pkg/`` or ``src/``, a package of ``k8s.io``, a KEP, a page
of Kubernetes' documentation by its title, or an issue or pull request of GitHub. Standards, such as RFCs, are none:
they do not change.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for package in ("webhook", "certs") for path in (ROOT / package).rglob("*.py"))
_CITATION = re.compile(
    r"""(?<![\w/.-])(?:
        (?:[\w.-]+/)*[\w-]+\.(?:go|cc|cpp|cu|c|h)\b   # a source file
        | (?:pkg|src)/[\w/.-]+                        # a directory of a repository
        | (?:sigs\.)?k8s\.io/[\w-]+
        | KEP-\d+
        | kubernetes\.io,\ "[^"]+"
        | https://github\.com/[\w-]+/[\w.-]+/(?:issues|pull)/\d+
        | (?:issues?|pull\ requests?)\ \d+
    )""",
    re.VERBOSE,
)
_PLURAL = re.compile(r"(?<=^issue)s|(?<=^pull request)s")


def citations(source: str) -> set[str]:
    """The citations in the comments and docstrings of a module."""
    found = {match.group().rstrip("./") for text in _texts(source) for match in _CITATION.finditer(text)}
    return {_PLURAL.sub("", citation) for citation in found}


def _texts(source: str) -> Iterator[str]:
    """Each docstring, and the comments of lines that follow each other as one text; each on one line."""
    comment: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comment.append(token.string.lstrip("# "))
        elif token.type not in (tokenize.NL, tokenize.NEWLINE):
            yield " ".join(comment)
            comment.clear()
            if token.type == tokenize.STRING and token.string.startswith('"""'):
                yield " ".join(token.string.split())
    yield " ".join(comment)
