"""What the README shows is true; tests/docs/test_chinese.py compares README.zh.md with it."""

from typing import Any

import pytest
import yaml

from tests.docs.test_annotations import section
from tests.docs.test_chinese import blocks
from tests.docs.test_docs import example, rows, text
from tests.docs.test_operations import codes

ENGLISH = text("README.md")


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
