"""Stubs: pages of ``docs/`` that moved, and lead from each old heading to the new one.

``python -m tests.docs.stubs`` gives every link to a stub, in documents and code, the place to which the stub leads.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LINK = re.compile(r"\[([^]]*)\]\(([^)]+)\)")
_NAMED = re.compile(r"(?P<folder>\]\(|docs/|\")(?P<page>[a-z-]+\.md)(?:#(?P<anchor>[\w-]+))?")
"""A page as Markdown, the code and the catalogue of messages name it."""
_SUFFIXES = {".md", ".py", ".yaml", ".yml", ".json", ".txt", ".toml", ".tpl", ""}
_SOURCES = (".github", "bench", "certs", "deploy", "docs", "examples", "tests", "webhook")


class Loader(yaml.SafeLoader):
    """Reads MkDocs' file, in which a tag names a function of Python."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda _loader, tag, _node: tag)


@cache
def site() -> Any:
    """The settings of the site."""
    text = (DOCS / "site" / "mkdocs.yml").read_text(encoding="utf-8")
    return yaml.load(text, Loader)  # noqa: S506 - derived from SafeLoader


@cache
def stubs() -> dict[str, Path]:
    """The pages that have moved by their names: those that the navigation leaves out."""
    return {name: DOCS / name for name in (line.lstrip("/") for line in site()["not_in_nav"].splitlines())}


def is_stub(page: Path) -> bool:
    """Whether a page of ``docs/`` has moved."""
    return page.parent == DOCS and page.name in stubs()


def slug(heading: str) -> str:
    """What GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", LINK.sub(r"\1", heading).lower()).replace(" ", "-")


def parts(page: Path) -> Iterator[tuple[str, str]]:
    """The headings of a stub, the title first, each with the text below it."""
    _, *rest = _HEADING.split(page.read_text(encoding="utf-8"))
    return zip(rest[::2], rest[1::2], strict=True)


def targets(page: Path) -> dict[str, str]:
    """Where a stub leads, by the anchor of the old page; the empty one is the page itself."""
    found: dict[str, str] = {}
    for heading, text in parts(page):
        if link := LINK.search(heading + text):
            found[slug(heading) if found else ""] = link[2]
    return found


def documents_and_sources() -> Iterator[Path]:
    """Every text of the repository that may name a page, but for the stubs."""
    yield from (path for path in ROOT.glob("*") if path.is_file() and path.suffix in _SUFFIXES)
    for folder in _SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if (
                path.is_file()
                and path.suffix in _SUFFIXES
                and "__pycache__" not in path.parts
                and "cases" not in path.parts
            ):
                yield path


def named(text: str) -> Iterator[re.Match[str]]:
    """The places of a text that name a stub."""
    moved = stubs()
    return (match for match in _NAMED.finditer(text) if match["page"] in moved)


def direct(path: Path, text: str) -> str:
    """A text with the new place of each page that moved."""
    leads = {name: targets(stub) for name, stub in stubs().items()}

    def new_place(match: re.Match[str]) -> str:
        if match["page"] not in leads:
            return match[0]
        places = leads[match["page"]]
        place = places.get(match["anchor"] or "", places[""])
        if path.parent == DOCS and match["folder"] == "](" and place.startswith(f"{path.name}#"):
            place = place.removeprefix(path.name)
        return match["folder"] + place

    return _NAMED.sub(new_place, text)


if __name__ == "__main__":
    for path in documents_and_sources():
        if not is_stub(path) and path != Path(__file__).with_name("test_stubs.py"):
            try:
                before = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            if (after := direct(path, before)) != before:
                path.write_text(after, encoding="utf-8")
                print(path.relative_to(ROOT))
