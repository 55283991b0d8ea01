"""The stories end in commands, and what stands below each is what it prints."""

import re
from pathlib import Path

import pytest

from tests.docs.stories.pages import ENGLISH, STORIES, commands, printed, written
from tests.docs.test_docs import text

MOST_LINES = 160
_PAGE = "```console\n$ gpu-topology version | sed s/.*/seen/ # examples/\n{answer}\n```\n"


@pytest.mark.parametrize("path", ENGLISH, ids=lambda path: path.stem)
def test_a_story_shows_what_its_commands_print(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert page == written(page), "python -m tests.docs.stories renews it"


@pytest.mark.parametrize("path", ENGLISH, ids=lambda path: path.stem)
def test_a_story_is_short_and_ends_in_commands(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert len(page.splitlines()) <= MOST_LINES
    last = page.rpartition("\n## ")[2]
    assert last.startswith("Try it\n")
    assert commands(last) == commands(page)
    assert len(commands(last)) >= 3


def test_another_output_would_be_found() -> None:
    assert written(_PAGE.format(answer="guessed")) == _PAGE.format(answer="seen")


def test_a_block_for_a_cluster_stays_as_it_is() -> None:
    page = "```console\n$ kubectl apply -f examples/verify/peers.yaml\n$ gpu-topology explain train\nNVLink: yes\n```\n"
    assert commands(page) == []
    assert written(page) == page


def test_what_goes_to_standard_error_is_shown_first() -> None:
    refused = printed("gpu-topology inject -f examples/workloads/11-refused.yaml --state examples/state | echo ended")
    first, last = refused.splitlines()
    assert first.startswith("refused: Pod prefill-without-permission: GT124:")
    assert last == "ended"


def test_the_pods_of_the_proof_are_prepared_as_peers() -> None:
    command = "gpu-topology inject -f examples/verify/peers.yaml --state examples/state -o diff"
    added = printed(f"{command} | grep -oE '^[+] +(hostIPC|hostPID|topologyKey): .*' | tr -d ' ' | sort")
    assert (
        added.splitlines()
        == ["+hostIPC:true"] * 2 + ["+hostPID:true"] * 2 + ["+topologyKey:kubernetes.io/hostname"] * 2
    )
    assert text("docs/stories/prefill-decode.md").count("examples/verify/peers.yaml") == 1


def anchors(path: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", sorted(STORIES.glob("*.md")), ids=lambda path: path.name)
def test_a_link_of_a_story_leads_to_a_heading(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text(encoding="utf-8"))
    assert links
    assert [
        f"{page}#{anchor}" for page, anchor in links if anchor not in anchors(path.parent / (page or path.name))
    ] == []
