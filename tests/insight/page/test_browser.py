"""The page in a real Chromium."""

from pathlib import Path

import msgspec
import pytest
from selenium.webdriver.common.keys import Keys

from tests.insight.analyze.clusters import Cluster
from tests.insight.page.browser import Browser, Programs, browser
from tests.insight.page.overviews import HOSTILE, hostile, overview
from tests.insight.page.served import LIVE, Served, served
from webhook.cluster.snapshot.freshness import Standing
from webhook.insight.overview import picture
from webhook.insight.overview.model import Overview
from webhook.insight.page.blocks import blocks
from webhook.insight.page.details import Known, of_file
from webhook.insight.page.document import whole
from webhook.insight.page.words import Language, words


def opened(window: Browser, page: Served, query: str = "") -> None:
    window.open(page.place.url.replace("/#", f"/{query}#"))
    window.live()


def press(window: Browser, *keys: str) -> None:
    for key in keys:
        window.driver.switch_to.active_element.send_keys(key)


def in_a_file(found: Overview, directory: Path, language: Language = Language.ENGLISH) -> str:
    """The URL of the page as a file."""
    texts = words(language)
    known = Known(Cluster().snapshot(), found)
    path = directory / "page.html"
    path.write_text(whole(blocks(found, texts), of_file(known, texts), texts, at=found.at), encoding="utf-8")
    return path.as_uri()


def test_every_node_card_and_pod_is_shown_and_the_losing_ones_come_first(window: Browser) -> None:
    found = overview(50)
    with served(found) as page:
        opened(window, page)
        assert len(window.all("#nodes > li")) == 50
        assert len(window.all("#nodes .card")) == sum(len(node.cards) for node in found.nodes)
        assert len(window.all("#pods > tr")) == len(found.pods)
        assert len(window.all("#waiting > li")) == 4
        ranks = [each.get_attribute("class") or "" for each in window.all("#nodes > li")]
    assert ranks == sorted(ranks)
    assert ranks[0].endswith("rank0")


def test_the_token_leaves_the_address_and_a_reload_keeps_it(window: Browser) -> None:
    with served(overview(2)) as page:
        opened(window, page)
        assert page.place.token not in window.driver.current_url
        window.driver.refresh()
        window.live()
        assert page.place.token not in str(window.run("return document.documentElement.outerHTML"))


@pytest.mark.parametrize("fragment", ["", "#token=wrong"])
def test_without_its_token_the_page_says_why_it_is_empty(window: Browser, fragment: str) -> None:
    with served(overview(2)) as page:
        window.open(page.place.url.split("#", maxsplit=1)[0] + fragment)
        banner = window.until(lambda: window.texts("#banner"), "no banner")
    assert "Open the" in banner[0]
    assert "token" in banner[0]


def test_hostile_names_stay_text_and_no_rule_of_the_policy_is_broken(window: Browser) -> None:
    with served(hostile()) as page:
        opened(window, page)
        assert len(window.all("#nodes > li")) == len(HOSTILE)
        shown = window.text("#pods")
        for key in window.run("return [...document.querySelectorAll('[data-open]')].map((each) => each.dataset.open)"):
            assert key.startswith(("pods/", "nodes/"))
        window.run("document.querySelector('#nodes a').click()")
        window.until(lambda: window.all("#dialog-body table"), "no detail")
        said = window.logged()
        ran = window.run("return window.ran")
    assert "<img src=x onerror=window.ran=1>" in shown
    assert "\\u202ekcatta\\u202c\\u200b" in shown
    assert ran is None
    assert said == []


def test_hostile_names_stay_text_in_a_file(window: Browser, tmp_path: Path) -> None:
    window.open(in_a_file(hostile(), tmp_path))
    window.until(lambda: window.run("return document.documentElement.classList.contains('scripted')"), "no script ran")
    assert window.run("return window.ran") is None
    assert len(window.all("#nodes > li")) == len(HOSTILE)
    assert len(window.all("script")) == 1
    assert window.logged() == []


def test_script_from_elsewhere_is_refused_by_the_policy(window: Browser) -> None:
    with served(overview(2)) as page:
        opened(window, page)
        window.run(
            """const added = document.createElement('script');
            try { added.textContent = 'window.ran = 1'; document.head.append(added); } catch { window.refused = 1; }
            try { document.body.innerHTML = '<b>x</b>'; } catch { window.refused += 1; }"""
        )
        assert window.run("return [window.ran ?? null, window.refused]") == [None, 2]


def test_the_keyboard_reaches_nodes_and_their_details_and_comes_back(window: Browser) -> None:
    with served(overview(50)) as page:
        opened(window, page)
        press(window, Keys.TAB)
        assert window.run("return document.activeElement.textContent") == "Skip to the pods"
        press(window, Keys.TAB)
        assert window.run("return document.activeElement.textContent") == "Skip to the nodes"
        press(window, Keys.ENTER)
        focused = "return document.activeElement.dataset.open ?? ''"
        window.until(
            lambda: window.run("return document.activeElement.id") == "nodes-title", "the heading has no focus"
        )
        press(window, Keys.TAB)
        first = window.run(focused)
        assert first.startswith("nodes/")
        press(window, Keys.ARROW_RIGHT)
        second = window.run(focused)
        assert second != first
        press(window, Keys.ARROW_DOWN, Keys.ARROW_UP, Keys.ENTER)
        window.until(lambda: window.all("#dialog-body table"), "no detail")
        assert window.text("#dialog-title") == second.removeprefix("nodes/")
        press(window, Keys.ESCAPE)
        window.until(lambda: not window.run("return document.getElementById('dialog').open"), "the dialog stays")
        assert window.run(focused) == second
        press(window, Keys.TAB)
        assert not window.run(focused).startswith("nodes/")


def test_filters_hide_what_does_not_match_and_stand_in_the_address(window: Browser) -> None:
    found = overview(50)
    of_team = [pod for pod in found.pods if pod.namespace == "team-a"]
    with served(found) as page:
        opened(window, page)
        window.run(
            """const select = document.getElementById('by-namespace'); select.value = 'team-a';
            select.dispatchEvent(new Event('input', {bubbles: true}));"""
        )
        assert len(window.all("#pods > tr")) == len(of_team)
        assert "namespace=team-a" in window.driver.current_url
        assert window.all("#nodes .card.aside")
        address = window.driver.current_url
        window.driver.refresh()
        window.live()
        assert window.driver.current_url == address
        assert len(window.all("#pods > tr")) == len(of_team)
        window.one("#filters button").click()
        window.until(lambda: len(window.all("#pods > tr")) == len(found.pods), "the filter stays")
        assert "namespace" not in window.driver.current_url


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("?finding=GT104", lambda pod: any(each.code == "GT104" for each in pod.findings)),
        ("?finding=warning", lambda pod: any(each.level == "warning" for each in pod.findings)),
        ("?search=LLAMA", lambda pod: "llama" in f"{pod.key} {pod.owner}"),
        ("?search=no-such-name", lambda _: False),
    ],
)
def test_the_address_may_say_what_is_filtered(window: Browser, query: str, kept: object) -> None:
    found = overview(50)
    with served(found) as page:
        opened(window, page, query)
        wanted = {pod.key for pod in found.pods if kept(pod)}  # type: ignore[operator]
        shown = window.run("return [...document.querySelectorAll('#pods > tr')].map((each) => each.dataset.pod)")
        is_empty = window.one("#pods-empty").is_displayed()
    assert set(shown) == wanted
    assert is_empty is (not wanted)


def test_a_pod_opens_what_explain_says_of_it(window: Browser) -> None:
    snapshot = Cluster().snapshot()
    with served(picture.overview(snapshot, None)) as page:
        opened(window, page)
        window.run("document.querySelector('[data-pod=\"team-a/train\"] .open').click()")
        window.until(lambda: window.all("#dialog-body .conclusion"), "no conclusion")
        assert "open=pods%2Fteam-a%2Ftrain" in window.driver.current_url
        assert "NVLink" in window.text("#dialog-body .conclusion")
        assert window.all("#dialog-body .v-holds")
        window.driver.refresh()
        window.live()
        window.until(lambda: window.all("#dialog-body .conclusion"), "the address does not open it")


def test_the_table_is_sorted_by_a_column_and_says_so(window: Browser) -> None:
    with served(overview(50)) as page:
        opened(window, page)
        button = window.one("[data-list=pods][data-column='2']")
        for order in ("ascending", "descending"):
            button.click()
            nodes = window.texts("#pods > tr > td:nth-child(3)")
            marks = [each.get_attribute("aria-sort") for each in window.all("#pods-title ~ .scroll th[aria-sort]")]
            there = [each for each in nodes if each.startswith("gpu-")]
            assert there == sorted(there, reverse=order == "descending")
            assert marks[2] == order
            assert set(marks[:2] + marks[3:]) == {"none"}


def test_a_change_appears_without_a_reload_and_leaves_the_rest_in_place(window: Browser) -> None:
    found = overview(50)
    with served(found) as page:
        opened(window, page)
        window.run("window.stays = document.querySelectorAll('#nodes > li')[30]")
        changed = [msgspec.structs.replace(found.nodes[0], problem="the agent is gone"), *found.nodes[2:]]
        page.tell(msgspec.structs.replace(found, nodes=tuple(changed)))
        window.until(lambda: len(window.all("#nodes > li")) == 49, "the node is still there")
        assert "the agent is gone" in window.text(f"[data-key='nodes/{found.nodes[0].name}']")
        assert window.run("return window.stays.isConnected")


def test_the_focus_stays_on_a_node_that_changes(window: Browser) -> None:
    found = overview(2)
    with served(found) as page:
        opened(window, page)
        window.run("document.querySelector('#nodes a').focus()")
        focused = window.run("return document.activeElement.dataset.open")
        page.tell(
            msgspec.structs.replace(
                found, nodes=tuple(msgspec.structs.replace(node, problem="changed") for node in found.nodes)
            )
        )
        window.until(lambda: "changed" in window.text("#nodes"), "no change")
        assert window.run("return document.activeElement.dataset.open") == focused


def test_the_page_says_since_when_and_why_it_is_not_live(window: Browser) -> None:
    with served(overview(2)) as page:
        opened(window, page)
        page.stand(Standing(live=False, at="12:00:09 UTC", since="12:00:01 UTC", reason="the API server is <away>"))
        banner = window.until(lambda: window.texts("#banner"), "no banner")
        assert banner == ["Not live since 12:00:01 UTC: the API server is <away>"]
        page.stand(LIVE)
        window.until(lambda: not window.texts("#banner"), "the banner stays")
        page.stop()
        banner = window.until(lambda: window.texts("#banner"), "no banner")
    assert banner[0].startswith("Not live since ")
    assert window.all("#nodes > li"), "what was known last is still shown"


def test_the_browser_chooses_the_language_and_a_link_changes_it(programs: Programs, tmp_path: Path) -> None:
    with served(overview(2)) as page, browser(programs, tmp_path / "profile", language="zh-CN") as window:
        opened(window, page)
        assert window.run("return document.documentElement.lang") == "zh"
        assert window.text("#pods-title").startswith("Pod")
        assert window.text("h1") == words(Language.CHINESE)("title")
        assert window.run("return document.querySelector('.fix').closest('[lang]').lang") == "en"
        window.one("#languages a").click()
        window.until(lambda: window.run("return document.documentElement.lang") == "en", "the language stays")
        window.live()
        assert window.text("h1") == "GPU topology"


def test_a_dark_system_gets_a_dark_page(window: Browser) -> None:
    with served(overview(2)) as page:
        opened(window, page)
        backs = []
        for theme in ("light", "dark"):
            window.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
            backs.append(window.run("return getComputedStyle(document.documentElement).backgroundColor"))
    assert backs == ["rgb(246, 248, 250)", "rgb(13, 17, 23)"]


def test_assistive_technology_is_told_what_there_is(window: Browser) -> None:
    with served(overview(2)) as page:
        opened(window, page)
        tree = window.tree()
    names = {role: {name for found, name in tree if found == role} for role, _ in tree}
    assert {"main", "search", "status", "table", "heading", "columnheader", "rowheader"} <= names.keys()
    assert {"Nodes (2)", "Pods (5)", "Waiting pods (1)", "GPU topology"} <= names["heading"]
    assert "Node gpu-00-00" in names["image"] | names.get("img", set()) | names.get("graphics-document", set())
    unnamed = [
        role for role, name in tree if role in ("button", "link", "textbox", "searchbox", "combobox") and not name
    ]
    assert unnamed == []
    assert any(name.startswith("Pods that ask for GPUs") for name in names["table"])


def test_a_file_works_without_its_server(window: Browser, tmp_path: Path) -> None:
    found = overview(2)
    window.open(in_a_file(found, tmp_path))
    window.until(lambda: window.text("#nodes-count"), "no script ran")
    window.one("#search").send_keys("gpu-00-01")
    window.until(lambda: len(window.all("#nodes > li")) == 1, "no filter")
    window.one("#nodes a").click()
    window.until(lambda: window.all("#dialog-body table"), "no detail")
    assert window.logged() == []


def test_a_file_tells_everything_without_a_script(window: Browser, tmp_path: Path) -> None:
    found = overview(2)
    window.cdp("Emulation.setScriptExecutionDisabled", value=True)
    window.open(in_a_file(found, tmp_path))
    assert len(window.all("#pods > tr")) == len(found.pods)
    assert len(window.all("#node-rows > tr")) == 2
    assert not window.one("#filters").is_displayed()
    window.one("#nodes a").click()
    (opened_one,) = window.all("details[open]")
    assert "Cards of node" in opened_one.text
