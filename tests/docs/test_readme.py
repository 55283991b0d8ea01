"""The README is short and true, and README.zh.md says the same in Chinese."""

import re
from typing import Any

import pytest
import yaml

from tests.docs.stubs import ROOT
from tests.docs.test_annotations import section
from tests.docs.test_docs import example, rows, text
from tests.docs.test_operations import codes

ENGLISH, CHINESE = text("README.md"), text("README.zh.md")
MOST_LINES = 130
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and the text of each code block, without comments."""
    return [(language, re.sub(r" +# .*", "", body)) for language, body in _FENCE.findall(page)]


def excerpt(marks: str) -> Any:
    """The lines of the README's diff that begin with one of ``marks``, as YAML."""
    (diff,) = (body for language, body in blocks(ENGLISH) if language == "diff")
    return yaml.safe_load("\n".join(line[1:] for line in diff.splitlines() if line[0] in marks))


def is_part(part: Any, whole: Any) -> bool:
    """Whether ``whole`` has everything that ``part`` has; lists may have more items, in the same order."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and is_part(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        remaining = iter(whole)
        return all(any(is_part(item, other) for other in remaining) for item in part)
    return bool(part == whole)


def test_the_readme_is_short() -> None:
    assert len(ENGLISH.splitlines()) <= MOST_LINES


def test_pages_of_users_show_the_command_as_pipx_installs_it() -> None:
    pages = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.glob("docs/**/*.md")}
    pages |= {"README.md": ENGLISH, "README.zh.md": CHINESE}
    assert len(pages) > 20
    assert [name for name, page in pages.items() if ".venv/bin/gpu-topology" in page] == []


@pytest.mark.parametrize(("marks", "which"), [pytest.param(" ", 0, id="before"), pytest.param(" +", 1, id="after")])
def test_the_diff_shows_a_part_of_the_example(marks: str, which: int) -> None:
    assert is_part(excerpt(marks), example()[which])


def test_the_table_of_profiles_agrees_with_the_reference() -> None:
    reference = {heading: column for heading, *column in zip(*section("Profiles"), strict=True)}
    labels = reference.pop("")
    short = {codes(row[0])[0]: row for row in rows(ENGLISH) if row[0].startswith("`")}
    assert short.keys() - {"observe"} == {codes(heading)[0] for heading in reference}
    for heading, column in reference.items():
        facts = dict(zip(labels, column, strict=True))
        _, _, seen, permissions = short[codes(heading)[0]]
        assert seen == facts["GPUs that a container sees"]
        assert permissions == facts["permissions that the namespace needs"]


def links(page: str) -> list[str]:
    return re.findall(r"\]\(([^)]+)\)", _FENCE.sub("", page))


def test_the_chinese_readme_has_the_same_code_blocks() -> None:
    assert blocks(CHINESE) == blocks(ENGLISH)


def test_the_chinese_readme_has_the_same_sections() -> None:
    def levels(page: str) -> list[int]:
        return [len(marks) for marks in re.findall(r"^(#+) ", _FENCE.sub("", page), re.MULTILINE)]

    assert levels(CHINESE) == levels(ENGLISH)


def test_the_chinese_readme_has_the_same_links_in_the_same_order() -> None:
    assert links(ENGLISH)[0] == "README.zh.md"
    assert links(CHINESE)[0] == "README.md"
    assert links(CHINESE)[1:] == links(ENGLISH)[1:]


def test_the_chinese_readme_has_the_same_tables() -> None:
    def shape(page: str) -> list[list[list[str]]]:
        return [[codes(cell) for cell in row] for row in rows(page)]

    assert shape(CHINESE) == shape(ENGLISH)


def test_the_chinese_readme_names_the_same_things() -> None:
    def spans(page: str) -> list[str]:
        return sorted(codes(_FENCE.sub("", page)))

    assert spans(CHINESE) == spans(ENGLISH)


def test_the_chinese_readme_names_the_same_versions() -> None:
    def versions(page: str) -> list[str]:
        return sorted(re.findall(r"\d+\.\d+(?:\.\d+)?", _FENCE.sub("", page)))

    assert versions(CHINESE) == versions(ENGLISH)
