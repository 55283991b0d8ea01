"""A page in Chinese has the same blocks, headings, links, tables and names as its English page."""

import re
from pathlib import Path

import pytest

from tests.docs.test_docs import ROOT, rows
from tests.docs.test_operations import codes

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHINESE = sorted([*ROOT.glob("*.zh.md"), *(ROOT / "docs").rglob("*.zh.md")])


class Pair:
    """A page in both languages.

    Args:
        path: The Chinese page.
    """

    def __init__(self, path: Path) -> None:
        self.names = (path.name.replace(".zh.md", ".md"), path.name)
        self.english, self.chinese = ((path.parent / name).read_text(encoding="utf-8") for name in self.names)


@pytest.fixture(params=CHINESE, ids=lambda path: path.name)
def pair(request: pytest.FixtureRequest) -> Pair:
    """Each page that there is in Chinese."""
    return Pair(request.param)


def prose(page: str) -> str:
    """The page without its code blocks."""
    return _FENCE.sub("", page)


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and the text of each code block, without comments."""
    return [(language, re.sub(r" +# .*", "", body)) for language, body in _FENCE.findall(page)]


def links(page: str) -> list[str]:
    """The pages to which a page leads, without the language and the heading."""
    return [link.partition("#")[0].replace(".zh.md", ".md") for link in re.findall(r"\]\(([^)]+)\)", prose(page))]


def test_it_has_the_same_code_blocks(pair: Pair) -> None:
    assert blocks(pair.chinese) == blocks(pair.english)


def test_it_has_the_same_headings(pair: Pair) -> None:
    def levels(page: str) -> list[int]:
        return [len(marks) for marks in re.findall(r"^(#+) ", prose(page), re.MULTILINE)]

    assert levels(pair.chinese) == levels(pair.english)


def test_it_has_the_same_links_in_the_same_order(pair: Pair) -> None:
    english, chinese = pair.names
    assert re.findall(r"\]\(([^)]+)\)", prose(pair.english))[0] == chinese
    assert re.findall(r"\]\(([^)]+)\)", prose(pair.chinese))[0] == english
    assert links(pair.chinese)[1:] == links(pair.english)[1:]


def test_it_has_the_same_tables(pair: Pair) -> None:
    def shape(page: str) -> list[list[list[str]]]:
        return [[codes(cell) for cell in row] for row in rows(prose(page))]

    assert shape(pair.chinese) == shape(pair.english)


def test_it_names_the_same_things(pair: Pair) -> None:
    def spans(page: str) -> list[str]:
        return sorted(codes(prose(page)))

    assert spans(pair.chinese) == spans(pair.english)


def test_it_names_the_same_versions(pair: Pair) -> None:
    def versions(page: str) -> list[str]:
        return sorted(re.findall(r"\d+\.\d+(?:\.\d+)?", prose(page)))

    assert versions(pair.chinese) == versions(pair.english)
