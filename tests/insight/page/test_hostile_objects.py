"""Objects of a cluster in which any text may be markup, from their JSON to the page."""

import json
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.insight.analyze.clusters import Cluster
from tests.insight.page.browser import Browser
from tests.insight.page.overviews import HOSTILE
from tests.insight.page.served import served
from tests.judge import policy
from webhook.cluster.snapshot.documents import Documents
from webhook.cluster.snapshot.model import Setting, Snapshot, read_snapshot
from webhook.insight.analyze.analyzers import analyze
from webhook.insight.overview.model import Overview
from webhook.insight.overview.picture import overview
from webhook.insight.page.blocks import blocks
from webhook.insight.page.details import Known, of_file
from webhook.insight.page.document import whole
from webhook.insight.page.words import Language, words

ENGLISH = words(Language.ENGLISH)
MARKUP = "\"'></script><script>window.ran=1</script><img src=x onerror=window.ran=1>\u202e\u200b"
NAMES = ("name", "namespace", "node", "holderIdentity", "nodeName", "uuid", "id", "type", "image", "message", "reason")
"""Members whose texts people read."""


def texts(value: Any, member: str = "") -> Iterator[tuple[str, str]]:
    """Every text of an object with the member that holds it, those within JSON in a text too."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from texts(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each, member)
    elif isinstance(value, str):
        inner = within(value)
        yield from texts(inner, member) if inner is not None else [(member, value)]


def within(text: str) -> Any:
    """The object or list that a text is the JSON of."""
    try:
        return json.loads(text) if text[:1] in ("{", "[") else None
    except ValueError:
        return None


def swapped(value: Any, new: Mapping[str, str]) -> Any:
    """The same with other texts, so that what refers to each other still does."""
    if isinstance(value, dict):
        return {key: swapped(each, new) for key, each in value.items()}
    if isinstance(value, list):
        return [swapped(each, new) for each in value]
    if not isinstance(value, str) or value in new:
        return new.get(value, value) if isinstance(value, str) else value
    inner = within(value)
    if inner is not None:
        return json.dumps(swapped(inner, new))
    for old, other in new.items():  # a list of cards is one text
        if len(old) > 4 and old.startswith("GPU-"):
            value = value.replace(f"{old},", f"{other},")
    return value


def looked_at(new: Mapping[str, str]) -> tuple[Snapshot, Overview]:
    """The healthy cluster with other texts, as the page has it."""
    documents = Documents()
    documents.add(swapped(list(Cluster().raw()), new))
    snapshot = read_snapshot(documents.others, documents.pods, Setting(policy=policy(), is_configured=False))
    return snapshot, overview(snapshot, analyze(snapshot, namespace=None))


def renamed(hostile: str) -> dict[str, str]:
    """The names of a cluster, each with a hostile end."""
    kept = {"Node", "Pod", "Namespace", "ConfigMap", "Ready", "ClusterSnapshot"}
    found = {text for member, text in texts(list(Cluster().raw())) if member in NAMES and text}
    return {text: text + hostile for text in found - kept}


def file_of(snapshot: Snapshot, found: Overview) -> str:
    details = of_file(Known(snapshot, found), ENGLISH)
    return whole(blocks(found, ENGLISH), details, ENGLISH, at=found.at or ENGLISH("at.unknown"))


class Markup(HTMLParser):
    """Which elements and attributes a document has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {str(value)[:1] for name, value in attrs if name in ("href", "src", "action")}


EVERY = list({re.sub("[0-9a-f]+", "0", text): text for _, text in texts(list(Cluster().raw())) if text}.values())
"""The texts of a cluster, one of those that differ by numbers."""


def check_markup(text: str) -> None:
    """No text has become an element, a handler or an address."""
    found = Markup(text)
    assert found.elements.count("script") == 1
    assert not {"img", "iframe", "object", "embed", "base"} & set(found.elements)
    assert [name for name in found.attributes if name.startswith("on") or name in ("style", "srcdoc")] == []
    assert found.links <= {"#", "?"}
    assert not any(mark in text for mark in "\u202e\u200b")


def test_if_all_names_of_a_cluster_are_markup_the_file_has_none_of_it() -> None:
    text = file_of(*looked_at(renamed(MARKUP)))
    check_markup(text)
    assert text.partition("<body")[2].count("window.ran") > 12


@pytest.mark.long
def test_whichever_text_of_an_object_is_markup_the_file_has_none_of_it() -> None:
    shown = 0
    for old in EVERY:
        text = file_of(*looked_at({old: old + MARKUP}))
        check_markup(text)
        shown += "window.ran" in text.partition("<body")[2]
    assert shown >= 12  # the others decide something, and no page shows them


def test_an_element_that_a_text_adds_would_be_found() -> None:
    text = file_of(*looked_at({}))
    check_markup(text)
    for added in ("<img src=x>", "<b onclick=x>", "<a href=javascript:x>", "<script>", "\u202e"):
        with pytest.raises(AssertionError, match=r"assert"):
            check_markup(text.replace("<h1", f"{added}<h1", 1))


@pytest.mark.parametrize("hostile", [*HOSTILE[:4], "__proto__"])
def test_names_of_a_real_cluster_that_are_markup_run_nothing(window: Browser, tmp_path: Path, hostile: str) -> None:
    snapshot, found = looked_at(renamed(hostile))
    assert {hostile in node.name for node in found.nodes} == {True}
    path = tmp_path / "page.html"
    path.write_text(file_of(snapshot, found), encoding="utf-8", errors="backslashreplace")
    window.open(path.as_uri())
    window.until(lambda: window.run("return document.documentElement.classList.contains('scripted')"), "no script ran")
    check_nothing_ran(window, len(found.nodes))
    with served(found, snapshot) as page:
        window.open(page.place.url)
        window.live()
        check_nothing_ran(window, len(found.nodes))
        for key in window.run("return [...document.querySelectorAll('[data-open]')].map((each) => each.dataset.open)")[
            :6
        ]:
            window.run("document.querySelector(`[data-open=${CSS.escape(arguments[0])}]`).click()", key)
            window.until(lambda: window.all("#dialog-body *"), "no detail")
            check_nothing_ran(window, len(found.nodes))
            window.run("document.getElementById('dialog').close()")


def check_nothing_ran(window: Browser, nodes: int) -> None:
    assert window.run("return window.ran ?? null") is None
    assert len(window.all("#nodes > li")) == nodes
    assert window.logged() == []
