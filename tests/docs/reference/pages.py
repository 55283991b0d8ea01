"""The pages with parts that follow from the code."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.docs.parts import Part
from tests.docs.reference.metrics import PROGRAMS, metrics_table
from tests.docs.reference.settings import TABLES, settings_table

DOCS = Path(__file__).parents[3] / "docs"
MODULE = "tests.docs.reference"
PAGES: Mapping[Path, tuple[tuple[Iterable[str], Callable[[str], list[str]]], ...]] = {
    DOCS / "configuration.md": ((TABLES, settings_table),),
    DOCS / "observability.md": ((PROGRAMS, metrics_table),),
}
"""By page: the names of its parts, and what makes the lines of one."""


def written(page: Path) -> str:
    """The text of a page with all of its parts as the code has them."""
    text = page.read_text(encoding="utf-8")
    for names, lines in PAGES[page]:
        for name in names:
            text = Part(MODULE, name).written(text, lines(name))
    return text
