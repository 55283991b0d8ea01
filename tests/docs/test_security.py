"""The page about security names tests that exist, and is short enough to be read."""

import re

import pytest

from tests.docs.test_docs import ROOT, text

PAGE = text("docs/security.md")
NAMED = sorted(set(re.findall(r"`((?:\w+/)+test_\w+\.py)::(\w+)`", PAGE)))
MOST_WORDS = 2500


@pytest.mark.parametrize(("file", "test"), NAMED, ids=[test for _, test in NAMED])
def test_a_test_that_is_named_exists(file: str, test: str) -> None:
    assert re.search(rf"^def {test}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_files_of_tests_that_are_named_exist() -> None:
    files = set(re.findall(r"`((?:\w+/)+test_\w+\.py)[:`]", PAGE))
    assert {file for file, _ in NAMED} <= files
    assert [file for file in files if not (ROOT / "tests" / file).exists()] == []


@pytest.mark.parametrize(
    "actor",
    [
        "A tenant who may create pods",
        "A tenant who may also patch pods",
        "A tenant with exec",
        "A compromised agent",
        "A neighbour in the network",
        "A cluster administrator",
    ],
)
def test_each_actor_has_a_section(actor: str) -> None:
    section = PAGE.split(f"\n## {actor}\n")[1].split("\n## ")[0]
    assert "`" in section


def test_it_can_be_read_in_ten_minutes() -> None:
    """All of it but the rules and figures for hostile clients, which were a page of their own."""
    before, _, rest = PAGE.partition("\n## Hostile clients\n")
    after = rest.partition("\n## ")[2]
    assert len(re.findall(r"\w[^\s|]*", before + after)) <= MOST_WORDS
