"""The documents name who does something: the webhook, the API server, an administrator; never "somebody"."""

import re

import pytest

from tests.docs.test_commands import PAGES
from tests.docs.test_docs import text

PROSE = sorted(page for page in (*PAGES, "deploy/chart/README.md") if not page.endswith(".zh.md"))
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_GENERATED = re.compile(r"<!-- values: .*?<!-- end of values -->", re.DOTALL)
_VAGUE = re.compile(r"\b(?:nobody|somebody|anybody|likewise)\b", re.IGNORECASE)


def vague(page: str) -> list[str]:
    """The vague words of a page, without its code blocks and the table that ``make chart`` writes."""
    return _VAGUE.findall(_GENERATED.sub("", _FENCE.sub("", page)))


@pytest.mark.parametrize("page", PROSE)
def test_a_document_names_its_subjects(page: str) -> None:
    assert vague(text(page)) == []


def test_a_vague_word_would_be_found() -> None:
    assert vague("Nobody reads it.\n\nThe agent does likewise, if anybody asks.\n") == ["Nobody", "likewise", "anybody"]


def test_what_a_program_prints_is_left_alone() -> None:
    assert vague("```console\n$ gpu-topology explain\nnobody else works with these GPUs\n```\n") == []


def test_the_pages_that_users_read_first_are_among_them() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/install.md", "deploy/chart/README.md"} <= set(PROSE)
