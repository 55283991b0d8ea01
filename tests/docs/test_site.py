"""The site of the documents has every page; what only its builder can tell is left to ``make docs``."""

import re
from typing import Any

import yaml

from tests.docs.test_docs import ROOT, text


class Loader(yaml.SafeLoader):
    """Reads MkDocs' file, in which a tag names a function of Python."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda _loader, tag, _node: tag)


def leaves(tree: Any) -> list[str]:
    if isinstance(tree, str):
        return [tree]
    return [page for part in (tree.values() if isinstance(tree, dict) else tree) for page in leaves(part)]


def test_the_navigation_has_every_page_once() -> None:
    docs = ROOT / "docs"
    site = yaml.load(text("docs/site/mkdocs.yml"), Loader)  # noqa: S506 - derived from SafeLoader
    pages = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    assert sorted(leaves(site["nav"])) == sorted(pages)


def test_lists_begin_after_a_blank_line_because_the_site_needs_it() -> None:
    for path in (ROOT / "docs").rglob("*.md"):
        prose = re.sub(r"^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert not re.findall(r"^\w[^\n]*:\n- ", prose, re.MULTILINE), path.name
