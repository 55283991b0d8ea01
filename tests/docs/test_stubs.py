"""A page that moved leads to its new place, and nothing else leads through it."""

import re
from pathlib import Path

import pytest

from tests.docs.stubs import (
    DOCS,
    LINK,
    ROOT,
    direct,
    documents_and_sources,
    is_stub,
    named,
    parts,
    slug,
    stubs,
    targets,
)

STUBS = list(stubs().values())
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def test_there_are_stubs() -> None:
    assert {"binding.md", "certificates.md", "reasons.md"} <= stubs().keys()


@pytest.mark.parametrize("page", STUBS, ids=lambda page: page.stem)
def test_a_stub_has_a_title_and_below_each_heading_one_place_to_go(page: Path) -> None:
    for heading, text in parts(page):
        assert len(LINK.findall(heading + text)) == 1, heading
        assert len(text.split()) < 20, text


@pytest.mark.parametrize("page", STUBS, ids=lambda page: page.stem)
def test_each_link_of_a_stub_leads_to_a_heading_of_a_page_that_is_there(page: Path) -> None:
    for target in targets(page).values():
        name, _, anchor = target.partition("#")
        new = DOCS / name
        assert new.exists(), target
        assert not is_stub(new), target
        assert not anchor or anchor in map(slug, _HEADING.findall(new.read_text(encoding="utf-8"))), target


def test_no_document_and_no_source_leads_through_a_stub() -> None:
    through = []
    for path in documents_and_sources():
        if path in STUBS or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        through += [f"{path.relative_to(ROOT)}: {match[0]}" for match in named(text)]
    assert through == [], "python -m tests.docs.stubs"


def test_a_link_through_a_stub_would_be_found_and_made_direct() -> None:
    text = "[exit codes](binding.md#7-the-remap-program), [all](binding.md#no-such), docs/reasons.md"
    assert [match["page"] for match in named(text)] == ["binding.md", "binding.md", "reasons.md"]
    page = DOCS / "injection.md"
    assert direct(page, text) == (
        "[exit codes](#12-the-remap-program), [all](#6-which-bindings), docs/troubleshooting.md#reasons"
    )
