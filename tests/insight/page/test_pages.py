"""What a page is made of, as values."""

import re
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec
import pytest
from jinja2 import UndefinedError

from tests.insight.page.overviews import HOSTILE, NOT_INJECTED, ORDER, hostile, overview
from webhook.cluster.snapshot.freshness import Standing
from webhook.insight.drawings.links import Link
from webhook.insight.explain.findings import Verdict
from webhook.insight.explain.start import Verified
from webhook.insight.overview.model import CardState, Health, Level, Overview
from webhook.insight.page.blocks import LISTS, Blocks, blocks
from webhook.insight.page.document import asset, shell, whole
from webhook.insight.page.holders import mark, workload
from webhook.insight.page.markup import as_tree, render
from webhook.insight.page.nodes import detail
from webhook.insight.page.picture import MOST_HOLDERS
from webhook.insight.page.sheet import news
from webhook.insight.page.words import Language, words

ENGLISH, CHINESE = words(Language.ENGLISH), words(Language.CHINESE)
LIVE = Standing(live=True)


class News(msgspec.Struct):
    whole: bool
    blocks: dict[str, msgspec.Raw]
    gone: list[str]


def heard(*overviews: Overview) -> News:
    """What a browser hears of the last one that was told all before."""
    told: Blocks | None = None
    found: Blocks = {}
    for each in overviews:
        told, found = found or None, blocks(each, ENGLISH, found)
    return msgspec.json.decode(news(found, told, LIVE), type=News)


class Element(NamedTuple):
    tag: str
    attributes: dict[str, str]


def all_of(tree: list[Any]) -> list[Element]:
    tag, attributes, *children = tree
    return [
        Element(tag, attributes),
        *(each for child in children if isinstance(child, list) for each in all_of(child)),
    ]


def test_both_languages_have_the_same_texts_with_the_same_places() -> None:
    assert ENGLISH.texts.keys() == CHINESE.texts.keys()
    for key, text in ENGLISH.texts.items():
        assert set(re.findall(r"\{(\w+)\}", text)) == set(re.findall(r"\{(\w+)\}", CHINESE.texts[key])), key
    assert all(text.strip() for text in (*ENGLISH.texts.values(), *CHINESE.texts.values()))


def test_every_value_of_the_model_has_its_words() -> None:
    keys = {
        *(f"state.{each}" for each in CardState),
        *(f"health.{each}" for each in Health),
        *(f"verified.{each}" for each in Verified),
        *(f"level.{each}" for each in Level if each is not Level.NONE),
        *(f"verdict.{each}" for each in Verdict),
        *(f"nvlink.{each}.sentence" for each in ("healthy", "degraded", "absent", "unknown")),
    }
    assert keys <= ENGLISH.texts.keys()


def test_the_script_says_only_texts_that_there_are() -> None:
    script = asset("page.js").decode()
    said = set(re.findall(r'say\("(\w+)"', script))
    assert {f"client.{each}" for each in said} == {key for key in ENGLISH.texts if key.startswith("client.")} - {
        "client.connecting"
    }


def test_the_script_knows_the_lists_the_elements_and_the_attributes() -> None:
    script = asset("page.js").decode()
    assert f"const LISTS = {msgspec.json.encode(LISTS).decode().replace(',', ', ')}" in script
    found = [each for block in blocks(overview(16), ENGLISH).values() for each in all_of(as_tree(block.markup))]
    (tags,) = re.findall(r"const TAGS = new Set\(\((.*?)\)\.split", script, re.DOTALL)
    assert {each.tag for each in found} <= set(re.sub(r'["+\n]', " ", tags).split())
    (pattern,) = re.findall(r"const ATTRIBUTES = /(.*)/;", script)
    for name in {name for each in found for name in each.attributes}:
        assert re.fullmatch(pattern.removeprefix("^").removesuffix("$"), name), name


def test_the_script_never_makes_markup_of_a_text() -> None:
    script = asset("page.js").decode()
    assert script.startswith("//@ts-check")
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "import("):
        assert word not in script


class Reader(HTMLParser):
    """The elements and texts of a document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_hostile_names_add_no_element_and_no_handler_to_a_file() -> None:
    read = Reader(whole(blocks(hostile(), ENGLISH), (), ENGLISH, at="<b>"))
    assert read.tags.count("script") == 1
    assert not {"img", "iframe", "object", "embed", "base", "form action"} & set(read.tags)
    assert [name for name, _ in read.attributes if name.startswith("on") or name in ("style", "srcdoc")] == []
    assert {value[:1] for name, value in read.attributes if name == "href" and value} == {"#", "?"}
    assert HOSTILE[0] in "".join(read.texts)


def test_marks_that_turn_the_direction_of_a_text_are_shown_as_escapes() -> None:
    values = {"key": "a\u202eb", "name": "<&\"'\u2066\x00\ufffe\ud800", "number": 1}
    shown = render("option", ENGLISH, values)
    name = "&lt;&amp;&#34;&#39;\\u2066\\x00\\ufffe\\ud800"
    assert shown == f'<option data-key="a\\u202eb" value="{name}" data-sort="{name}">{name} (1)</option>'
    said = "<&\"'\\u2066\\x00\\ufffe\\ud800"
    assert as_tree(shown) == [
        "option",
        {"data-key": "a\\u202eb", "value": said, "data-sort": said},
        f"{said} (1)",
    ]


def test_a_value_that_a_template_asks_for_and_has_not_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'number' is undefined"):
        render("option", ENGLISH, {"key": "a", "name": "a"})


def test_no_template_switches_escaping_off() -> None:
    sources = [each.read_text() for each in files("webhook.insight.page").joinpath("templates").iterdir()]
    assert len(sources) > 5
    for source in sources:
        assert not re.search(r"\|\s*safe|autoescape|style=|\son\w+=|javascript:", source)


def test_the_live_page_has_no_inline_script_and_no_foreign_address() -> None:
    for texts in (ENGLISH, CHINESE):
        text = shell(texts)
        assert re.findall(r"<script[^>]*>", text) == ['<script type="module" src="/assets/page.js">']
        assert "<style" not in text
        assert "://" not in text


def test_only_what_changed_is_told() -> None:
    one = overview(16)
    node = msgspec.structs.replace(one.nodes[3], problem="changed")
    other = msgspec.structs.replace(one, nodes=(*one.nodes[:3], node, *one.nodes[4:]))
    told = heard(one, other)
    assert (told.whole, told.gone) == (False, [])
    assert set(told.blocks) == {f"nodes/{node.name}", f"node-rows/{node.name}"}
    assert heard(one, other, other).blocks == {}


def test_what_is_gone_is_told_and_what_is_back_too() -> None:
    one = overview(2)
    less = msgspec.structs.replace(one, nodes=one.nodes[1:])
    gone = [f"nodes/{one.nodes[0].name}", f"node-rows/{one.nodes[0].name}"]
    assert heard(one, less).gone == gone
    back = heard(one, less, one)
    assert (back.gone, set(back.blocks) >= set(gone)) == ([], True)


def test_who_knows_nothing_is_told_everything() -> None:
    told = heard(overview(2))
    assert told.whole is True
    assert set(told.blocks) == set(blocks(overview(2), ENGLISH))


def test_the_same_sentence_about_two_objects_without_a_picture_is_two_findings() -> None:
    about = [msgspec.structs.replace(ORDER, about=f"Namespace {team}") for team in ("team-a", "team-b")]
    found = blocks(Overview(at="", findings=tuple(about)), ENGLISH)
    said = [block.markup for key, block in found.items() if key.startswith("findings/")]
    assert [("team-a" in text, "team-b" in text) for text in said] == [(True, False), (False, True)]


def test_sentences_that_quote_thousands_of_pods_are_a_few_items_and_a_number() -> None:
    found = overview(2)
    pods = tuple(
        msgspec.structs.replace(
            found.pods[0],
            key=f"team-{number % 3}/p-{number:04}",
            namespace=f"team-{number % 3}",
            name=f"p-{number:04}",
            findings=(msgspec.structs.replace(NOT_INJECTED, text=f"{number} {'x' * 1000}"),),
        )
        for number in range(3000)
    )
    made = heard(msgspec.structs.replace(found, pods=pods)).blocks
    items = {key: bytes(each) for key, each in made.items() if key.startswith("findings/")}
    assert sum(map(len, items.values())) < 250_000
    rest = items["findings/error-GT104"]
    assert b"2900 more findings of this kind" in rest
    assert b"and 2895 more" in rest
    assert all(team in rest for team in (b"team-0", b"team-1", b"team-2"))
    assert [key for key, each in items.items() if b"GT702" in each] != []


def test_keys_of_blocks_begin_with_their_lists() -> None:
    found = blocks(overview(16), ENGLISH)
    assert {key.partition("/")[0] for key in found} == set(LISTS)
    assert all(as_tree(block.markup)[1]["data-key"] == key for key, block in found.items())


def test_lost_links_are_drawn_apart_from_the_others_and_named() -> None:
    nodes = overview(16).nodes
    for index, (lost, crosses) in {0: (0, 0), 1: (2, 2), 6: (2, 0)}.items():
        tree = as_tree(blocks(overview(16), ENGLISH)[f"nodes/{nodes[index].name}"].markup)
        classes = [each.attributes.get("class", "").split() for each in all_of(tree)]
        assert sum("lost" in each or "down" in each for each in classes) == lost
        assert sum("cross" in each for each in classes) == crosses


def test_a_link_to_a_card_that_is_not_there_is_not_drawn() -> None:
    found = overview(2)
    node = msgspec.structs.replace(
        found.nodes[0], links=(Link(one=0, other=77, count=2, active=2), Link(one=99, other=None, count=1, active=0))
    )
    blocks(msgspec.structs.replace(found, nodes=(node,)), ENGLISH)


@pytest.mark.parametrize(
    ("owner", "name", "letters"),
    [
        ("Job train", "train-0", "tr"),
        ("Job llama-pretrain", "x", "lp"),
        ("", "a", "a"),
        ("", "---", ""),
        ("Job ", "eval-3", "e3"),
    ],
)
def test_a_workload_is_marked_by_two_letters(owner: str, name: str, letters: str) -> None:
    pod = msgspec.structs.replace(overview(2).pods[0], owner=owner, name=name)
    assert mark(pod) == letters
    assert workload(pod)


def test_a_card_that_thousands_of_pods_claim_names_a_few_of_them() -> None:
    found = overview(1)
    pods = tuple(
        msgspec.structs.replace(found.pods[0], key=f"team-a/claims-{number}", name=f"claims-{number}")
        for number in range(3000)
    )
    cards = tuple(
        msgspec.structs.replace(card, holders=tuple(pod.key for pod in pods)) for card in found.nodes[0].cards
    )
    node = msgspec.structs.replace(found.nodes[0], cards=cards)
    claimed = msgspec.structs.replace(found, nodes=(node,), pods=pods)
    made = heard(claimed).blocks
    name = node.name
    assert len(bytes(made[f"nodes/{name}"])) + len(bytes(made[f"node-rows/{name}"])) < 100_000
    shown = detail(node, ENGLISH)
    assert len(all_of(as_tree(shown))) < 1000
    assert f"and {3000 - MOST_HOLDERS} more" in shown


def test_a_card_that_no_pod_can_get_is_not_free_in_the_grid_nor_in_the_table() -> None:
    node = next(each for each in overview(16).nodes if any(card.health is Health.BROKEN for card in each.cards))
    cards = [msgspec.structs.replace(card, state=CardState.FREE, holders=()) for card in node.cards[4:]]
    cards[0] = msgspec.structs.replace(cards[0], health=Health.CORDONED)
    shown = msgspec.structs.replace(node, cards=tuple(cards), links=())
    found = blocks(Overview(at="", nodes=(shown,)), ENGLISH)
    assert "2 free" in found[f"nodes/{node.name}"].markup
    assert '<td class="number">4</td><td class="number">2</td>' in found[f"node-rows/{node.name}"].markup


def test_an_empty_cluster_is_a_page_too() -> None:
    text = whole(blocks(Overview(at=""), CHINESE), (), CHINESE, at="now")
    assert "没有 Pod 在等待" in text


@pytest.mark.parametrize(
    ("node", "waits_for", "expected"), [("", "", True), ("n", "its Binding to n", True), ("n", "", False)]
)
def test_a_pod_waits_until_it_is_bound(*, node: str, waits_for: str, expected: bool) -> None:
    pod = msgspec.structs.replace(overview(2).pods[0], node=node, waits_for=waits_for)
    found = blocks(Overview(at="", pods=(pod,)), ENGLISH)
    assert (f"waiting/{pod.key}" in found) is expected
