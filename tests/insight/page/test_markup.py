"""The page as HTML: hostile texts stay texts, and nothing of a script or style is in the markup."""

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import msgspec
import pytest
from jinja2 import UndefinedError

from tests.insight.analyze.clusters import Cluster
from tests.insight.overview.scenes import fault, seen
from tests.insight.page.overviews import HOSTILE, hostile, overview
from tests.insight.page.served import LIVE
from tests.judge import policy
from webhook.cluster.snapshot.documents import Documents
from webhook.cluster.snapshot.freshness import Standing
from webhook.cluster.snapshot.model import Setting, read_snapshot
from webhook.insight.analyze.analyzers import analyze
from webhook.insight.drawings.node import environment
from webhook.insight.overview import picture
from webhook.insight.overview.model import Overview
from webhook.insight.page.markup import Known, asset, contents, detail, shell, whole
from webhook.insight.page.view import MOST_HOLDERS, View, slots

MARKUP = "\"'></script><script>window.ran=1</script><img src=x onerror=window.ran=1>\u202e\u200b"
NAMES = ("name", "namespace", "node", "holderIdentity", "nodeName", "uuid", "id", "type", "image", "message", "reason")
"""Members whose texts people read."""


class Read(HTMLParser):
    """The elements, attributes and texts of a document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check(text: str) -> Read:
    """No text has become an element, a handler or an address."""
    found = Read(text)
    assert not {"script", "img", "iframe", "object", "embed", "base", "form"} & set(found.elements)
    assert [name for name, _ in found.attributes if name.startswith("on") or name in ("style", "srcdoc", "src")] == []
    assert {value[:1] for name, value in found.attributes if name == "href"} <= {"#"}
    assert not any(mark in text for mark in "\u202e\u200b")
    return found


def whole_of(found: Overview) -> str:
    return whole(Known(Cluster().snapshot(), found))


def contents_of(found: Overview, query: str = "", most: int | None = None, standing: Standing = LIVE) -> str:
    return contents(View(found, slots(found.pods, {}), query, most), standing)


def test_hostile_names_add_no_element_no_handler_and_no_address() -> None:
    known = Known(Cluster().snapshot(), hostile())
    assert HOSTILE[0] in "".join(check(whole(known)).texts)
    check(contents_of(hostile()))
    for name in HOSTILE[:3]:
        found = detail(known, f"nodes/{name}")
        assert found is not None
        check(found.markup)


def test_an_element_that_a_text_adds_would_be_found() -> None:
    for added in ("<img src=x>", "<b onclick=x>", "<a href=javascript:x>", "<script>", "\u202e"):
        with pytest.raises(AssertionError, match=r"assert"):
            check(whole_of(overview(1)).replace("<h1", f"{added}<h1", 1))


def test_if_all_names_of_a_cluster_are_markup_the_page_has_none_of_it() -> None:
    kept = {"Node", "Pod", "Namespace", "ConfigMap", "Ready", "ClusterSnapshot"}
    raw = list(Cluster().raw())
    new = {text: text + MARKUP for text in names_of(raw) - kept}
    documents = Documents()
    documents.add(swapped(raw, new))
    snapshot = read_snapshot(documents.others, documents.pods, Setting(policy=policy(), is_configured=False))
    text = whole(Known(snapshot, picture.overview(snapshot, analyze(snapshot))))
    check(text)
    assert text.partition("<body")[2].count("window.ran") > 12


def names_of(value: Any, member: str = "") -> set[str]:
    """Every name of an object, those within JSON in a text too."""
    if isinstance(value, dict):
        return {name for key, each in value.items() for name in names_of(each, key)}
    if isinstance(value, list):
        return {name for each in value for name in names_of(each, member)}
    if not isinstance(value, str):
        return set()
    return names_of(json.loads(value)) if value[:1] in ("{", "[") else {value} if value and member in NAMES else set()


def swapped(value: Any, new: Mapping[str, str]) -> Any:
    """The same with other texts, so that what refers to each other still does."""
    if isinstance(value, dict):
        return {key: swapped(each, new) for key, each in value.items()}
    if isinstance(value, list):
        return [swapped(each, new) for each in value]
    if not isinstance(value, str):
        return value
    return json.dumps(swapped(json.loads(value), new)) if value[:1] in ("{", "[") else new.get(value, value)


def test_control_characters_and_marks_of_direction_are_shown_as_escapes() -> None:
    node = msgspec.structs.replace(overview(1).nodes[0], problem="<&\"'\u2066\x00\ufffe\ud800")
    text = contents_of(Overview(at="", nodes=(node,)))
    assert "&lt;&amp;&#34;&#39;\\u2066\\x00\\ufffe\\ud800" in text


def test_a_value_that_a_template_asks_for_and_has_not_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'topology' is undefined"):
        environment("webhook.insight.drawings").get_template("topology.svg").render(width=1, height=1)


@pytest.mark.parametrize("package", ["page", "drawings"])
def test_no_template_switches_escaping_off(package: str) -> None:
    for each in files(f"webhook.insight.{package}").joinpath("templates").iterdir():
        assert not re.search(r"\|\s*safe|autoescape|style=|\son\w+=|javascript:", each.read_text()), each.name


def test_the_script_never_makes_markup_of_a_text() -> None:
    script = asset("page.js").decode()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMParser", "import("):
        assert word not in script


def test_the_live_page_has_no_inline_script_nor_style_and_no_foreign_address() -> None:
    text = shell()
    assert re.findall(r"<script[^>]*>[^<]*", text) == ['<script type="module" src="/assets/page.js">']
    assert "<style" not in text
    assert "://" not in text


def test_a_file_says_when_the_cluster_was_read_or_that_it_is_of_files() -> None:
    assert "As of 2026-11-23T12:00:00+00:00" in whole_of(overview(1))
    text = whole_of(Overview(at=""))
    assert "From files" in text
    assert "No pod requests GPUs." in text


def test_the_page_says_since_when_and_why_it_is_not_live() -> None:
    away = Standing(live=False, at="12:00:09 UTC", since="12:00:01 UTC", reason="the API server is <away>")
    assert "Not live since 12:00:01 UTC: the API server is &lt;away&gt;" in contents_of(overview(1), standing=away)
    assert "Not live" not in contents_of(overview(1))


def test_what_is_not_shown_is_counted() -> None:
    found = overview(16)
    assert f"8 of {len(found.pods)} are shown. The filter finds the others." in contents_of(found, most=8)
    assert "are shown" not in contents_of(found)
    assert "No pod matches." in contents_of(found, "no-such-name")


def test_findings_that_are_not_computed_yet_are_not_called_none() -> None:
    text = contents_of(Overview(at="", are_judged=False))
    assert "The findings are still being computed." in text
    assert "Nothing is found." not in text
    assert "Nothing is found." in contents_of(Overview(at=""))


def test_the_details_of_a_pod_tell_each_finding_once_and_the_verdict_first() -> None:
    cluster = Cluster()
    fault("worse cards")(cluster)
    known = Known(cluster.snapshot(), seen(cluster))
    found = detail(known, "pods/team-a/unlucky")
    assert found is not None
    said = "".join(Read(found.markup).texts)
    assert "NVLink: ✖ no GPU0 and GPU5 have no NVLink: GPU0-GPU5 (SYS) GT330" in said
    assert said.count("GPU0 and GPU5 have no NVLink") == 1
    assert said.count("GT336") == 1


@pytest.mark.parametrize("key", ["nodes/no-such", "pods/no-such/no-such", "", "nodes", "../etc/passwd"])
def test_what_is_not_known_has_no_details(key: str) -> None:
    assert detail(Known(Cluster().snapshot(), overview(2)), key) is None


def test_a_gpu_that_thousands_of_pods_claim_names_a_few_of_them() -> None:
    found = overview(1)
    holders = tuple(f"team-a/claims-{number}" for number in range(3000))
    cards = tuple(msgspec.structs.replace(card, holders=holders) for card in found.nodes[0].cards)
    claimed = Overview(at="", nodes=(msgspec.structs.replace(found.nodes[0], cards=cards),))
    assert len(contents_of(claimed)) < 20_000
    shown = detail(Known(Cluster().snapshot(), claimed), f"nodes/{found.nodes[0].name}")
    assert shown is not None
    assert f"and {3000 - MOST_HOLDERS} more" in shown.markup
