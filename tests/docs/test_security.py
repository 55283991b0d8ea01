"""The page about security names tests that exist."""

import re

from tests.docs.test_docs import ROOT, text

PAGE = text("docs/security.md")
NAMED = sorted(set(re.findall(r"`((?:\w+/)+test_\w+\.py)::(\w+)`", PAGE)))


def test_the_tests_that_are_named_exist() -> None:
    for file, test in NAMED:
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE), (file, test)


def test_files_of_tests_that_are_named_exist() -> None:
    files = set(re.findall(r"`((?:\w+/)+test_\w+\.py)[:`]", PAGE))
    assert {file for file, _ in NAMED} <= files
    assert [file for file in files if not (ROOT / "tests" / file).exists()] == []
