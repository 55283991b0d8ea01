"""``gpu-topology message``: what docs/messages.md says of a code."""

import json
import re

import pytest

from tests.cli.command import ROOT, gpu_topology
from webhook.words.catalogue.index import AREAS, entries

PAGE = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")


def section(code: str) -> str:
    """What the page says of a code, without the marks of Markdown."""
    text = PAGE.split(f"\n### {code}\n\n")[1].partition("\n#")[0].strip()
    linked = re.sub(r"\[[^]]+\]\(([^)]+)\)", r"docs/\1", text)
    return re.sub(r"\\([*_<>\[\]])", r"\1", linked.replace("`", "", 2))


@pytest.mark.parametrize("code", ["GT212", "GT302", "GT639", "GT526"])
def test_a_code_is_explained_in_the_words_of_the_page(code: str) -> None:
    done = gpu_topology("message", code)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{code}: {section(code)}\n"


def test_a_code_may_be_written_in_small_letters() -> None:
    assert gpu_topology("message", "gt212").out == gpu_topology("message", "GT212").out


def test_programs_get_an_object() -> None:
    entry = entries()["GT212"]
    done = gpu_topology("message", "GT212", "-o", "json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == {
        "code": "GT212",
        "area": AREAS["2"],
        "text": entry.pattern.text,
        "example": "",
        "fix": entry.fix,
        "remedy": "pod",
        "page": entry.page,
    }


def test_a_code_whose_text_is_nothing_but_values_has_an_example_and_no_other() -> None:
    bare = {code for code, entry in entries().items() if not re.search(r"\w", re.sub(r"\{\w+\}", "", entry.text))}
    assert bare == {code for code, entry in entries().items() if entry.example}
    assert "For example: container main sees no GPUs but its own\n" in gpu_topology("message", "GT526").out


def test_an_unknown_code_is_wrong_usage_and_near_ones_are_named() -> None:
    done = gpu_topology("message", "GT219")
    assert (done.code, done.out) == (2, "")
    assert 'expected a code such as GT212, found "GT219"' in done.err
    assert "Near it are GT216, GT220, GT221" in " ".join(re.findall(r"[\w,.]+", done.err))


def test_what_is_like_no_code_is_told_where_the_list_is() -> None:
    done = gpu_topology("message", "no\x1b[2Jcode")
    assert (done.code, done.out) == (2, "")
    assert "docs/messages.md has all codes" in done.err
    assert "Near it" not in done.err
    assert "\x1b" not in done.err
