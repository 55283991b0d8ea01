"""The tables that follow from the code are what ``make reference`` writes."""

import re
from pathlib import Path

import pytest

from tests.docs.parts import Part
from tests.docs.reference.pages import PAGES, written
from tests.docs.reference.settings import ENTRIES, SECTIONS, settings_table


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_what_make_reference_writes(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == written(page), "run make reference"


@pytest.mark.parametrize("name", [*SECTIONS, *ENTRIES])
def test_every_setting_has_a_type_and_a_meaning(name: str) -> None:
    for line in settings_table(name)[2:]:
        field, kind, *_, meaning = (cell.strip() for cell in line.strip("|").split("|"))
        assert kind, field
        assert re.fullmatch(r"[A-Z`].*\.", meaning), field


def test_bounds_are_those_that_the_checks_hold() -> None:
    table = "\n".join(settings_table("limits") + settings_table("placement") + settings_table("binding"))
    assert "| `gpus` | integer, 1 to 64 |" in table
    assert "| `releaseSeconds` | integer, 30 to 86400 |" in table
    assert "| `readSeconds` | number, above 0 |" in table


def test_a_page_without_the_part_is_refused() -> None:
    with pytest.raises(ValueError, match="found neither or one"):
        Part("tests.docs.reference", "limits").written("# A page\n", ["a"])
