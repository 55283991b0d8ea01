"""The page in a real Chromium."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from selenium.webdriver.common.keys import Keys

from tests.insight.analyze.clusters import Cluster
from tests.insight.page.browser import Browser, Programs, find_programs
from tests.insight.page.overviews import HOSTILE, hostile, overview
from tests.insight.page.served import LIVE, Served, served
from webhook.cluster.snapshot.freshness import Standing
from webhook.insight.overview import picture
from webhook.insight.overview.model import Overview
from webhook.insight.page.markup import Known, whole

WIDTHS = (360, 768, 1400, 2560)
PODS = "return [...document.querySelectorAll('tr[data-key]')].map((each) => each.dataset.key)"


def opened(window: Browser, page: Served, query: str = "") -> None:
    window.open(page.place.url.replace("/#", f"/{query}#"))
    window.live()


def show(window: Browser, key: str) -> None:
    """Open the details of a pod or a node."""
    window.run("location.hash = arguments[0]", f"#{key}")
    window.until(lambda: window.all("#detail .facts, #detail table"), "no detail")


def press(window: Browser, *keys: str) -> None:
    for key in keys:
        window.driver.switch_to.active_element.send_keys(key)


def in_a_file(found: Overview, directory: Path) -> str:
    """The URL of the page as a file."""
    path = directory / "page.html"
    text = whole(Known(Cluster().snapshot(), found))
    path.write_text(text, encoding="utf-8")
    return path.as_uri()


@contextmanager
def sized(window: Browser, width: int, theme: str = "light") -> Iterator[None]:
    """A window of that size and theme; afterwards it is as it was."""
    window.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    window.cdp("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    try:
        yield
    finally:
        window.cdp("Emulation.clearDeviceMetricsOverride")
        window.cdp("Emulation.setEmulatedMedia", features=[])


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_stands_outside_of_the_window_is_cut_or_broken(window: Browser, width: int, theme: str) -> None:
    too_wide = """return [...document.querySelectorAll('.scroll, .tile, caption, td, #dialog, #dialog table')]
        .filter((each) => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1)
        .map((each) => each.textContent)"""
    broken = """return [...document.querySelectorAll('.name')]
        .filter((each) => each.checkVisibility() && each.getClientRects().length > 1).map((each) => each.textContent)"""
    with served(overview(40)) as page, sized(window, width, theme):
        opened(window, page)
        assert window.run("return document.documentElement.scrollWidth") == width
        assert (window.run(too_wide), window.run(broken)) == ([], [])
        back = window.run("return getComputedStyle(document.documentElement).backgroundColor")
        show(window, "nodes/gpu-00-00")
        assert window.run("return document.documentElement.scrollWidth") == width
        assert window.run(too_wide) == []
    assert back == ("rgb(246, 248, 250)" if theme == "light" else "rgb(13, 17, 23)")


def test_a_narrow_window_has_a_block_for_each_pod_with_the_names_of_its_values(window: Browser) -> None:
    with served(overview(16)) as page, sized(window, 360):
        opened(window, page)
        tops = window.run(
            "return [...document.querySelector('tr[data-key]').cells].map((each) => each.getBoundingClientRect().top)"
        )
        label = window.run("return getComputedStyle(document.querySelector('tr[data-key] td'), '::before').content")
    assert tops == sorted(set(tops))
    assert label == '"Node"'


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
        assert len(window.all(".tile")) == len(HOSTILE)
        shown = window.text("main")
        window.run("document.querySelector('.tile h3 a').click()")
        window.until(lambda: window.all("#detail table"), "no detail")
        assert (window.run("return window.ran ?? null"), window.logged()) == (None, [])
    assert "<img src=x onerror=window.ran=1>" in shown
    assert "\\u202ekcatta\\u202c\\u200b" in shown


def test_script_from_elsewhere_is_refused_by_the_policy(window: Browser) -> None:
    with served(overview(2)) as page:
        opened(window, page)
        window.run(
            """const added = document.createElement('script');
            try { added.textContent = 'window.ran = 1'; document.head.append(added); } catch { window.refused = 1; }
            try { document.body.innerHTML = '<b>x</b>'; } catch { window.refused += 1; }"""
        )
        assert window.run("return [window.ran ?? null, window.refused]") == [None, 2]


def test_the_keyboard_reaches_a_node_and_its_details_and_comes_back(window: Browser) -> None:
    with served(overview(50)) as page:
        opened(window, page)
        press(window, Keys.TAB, Keys.TAB)
        assert window.run("return document.activeElement.textContent") == "Skip to the nodes"
        press(window, Keys.ENTER, Keys.TAB)
        focused = "return document.activeElement.getAttribute('href') ?? ''"
        first = window.run(focused)
        assert first.startswith("#nodes/")
        press(window, Keys.ENTER)
        window.until(lambda: window.all("#detail table"), "no detail")
        assert window.text("#dialog-title") == first.removeprefix("#nodes/")
        press(window, Keys.ESCAPE)
        window.until(lambda: not window.run("return document.getElementById('dialog').open"), "the dialog stays")
        assert window.run(focused) == first


def test_the_filter_hides_what_does_not_match_and_stands_in_the_address(window: Browser) -> None:
    found = overview(50)
    of_team = [f"pods/{pod.key}" for pod in found.pods if pod.namespace == "team-a"]
    with served(found) as page:
        opened(window, page)
        window.one("#query").send_keys("team-a")
        window.until(lambda: sorted(window.run(PODS)) == of_team, "no filter")
        window.driver.refresh()
        window.live()
        assert sorted(window.run(PODS)) == of_team
        assert "q=team-a" in window.driver.current_url
        window.one("#query").send_keys(Keys.CONTROL, "a", Keys.BACKSPACE)
        window.until(lambda: len(window.run(PODS)) == len(found.pods), "the filter stays")


def test_a_pod_opens_what_explain_says_of_it_and_the_address_names_it(window: Browser) -> None:
    snapshot = Cluster().snapshot()
    with served(picture.overview(snapshot, None), snapshot) as page:
        opened(window, page)
        window.run("document.querySelector('tr a').click()")
        window.until(lambda: window.all("#detail .conclusion"), "no conclusion")
        assert window.all("#detail .v-holds")
        window.driver.refresh()
        window.until(lambda: window.all("#detail .conclusion"), "the address does not open it")
        window.driver.back()


def test_a_change_appears_by_itself_and_leaves_the_rest_and_the_focus_in_place(window: Browser) -> None:
    found = overview(50)
    with served(found) as page:
        opened(window, page)
        window.run("window.stays = document.querySelectorAll('.tile')[30]")
        window.run("document.querySelector('.tile h3 a').focus()")
        focused = window.run("return document.activeElement.textContent")
        nodes = [node for node in found.nodes if node.name != "gpu-00-03"]
        changed = [msgspec.structs.replace(node, problem="the agent is gone") for node in nodes]
        page.tell(msgspec.structs.replace(found, nodes=tuple(changed)))
        window.until(lambda: len(window.all(".tile")) == 49, "the node is still there")
        assert "the agent is gone" in window.text("[data-key='nodes/gpu-00-00']")
        assert window.run("return [window.stays.isConnected, document.activeElement.textContent]") == [True, focused]


def test_a_page_that_is_not_live_says_so_until_it_is(window: Browser) -> None:
    with served(overview(2)) as page:
        opened(window, page)
        page.stand(Standing(live=False, at="12:00:09 UTC", since="12:00:01 UTC", reason="the API server is <away>"))
        window.until(lambda: window.texts("main .banner"), "no banner")
        page.stand(LIVE)
        window.live()
        assert not window.texts(".banner")
        page.stop()
        banner = window.until(lambda: window.texts("#banner"), "no banner")
    assert banner[0].startswith("Not live since ")
    assert window.all(".tile"), "what was known last is still shown"


def test_assistive_technology_is_told_what_there_is(window: Browser) -> None:
    with served(overview(2)) as page:
        opened(window, page)
        tree = window.tree()
    names = {role: {name for found, name in tree if found == role} for role, _ in tree}
    assert {"main", "search", "status", "table", "heading", "columnheader", "rowheader"} <= names.keys()
    assert {"Nodes (2)", "Pods (5)", "Waiting pods (1)", "GPU topology"} <= names["heading"]
    images = names["image"] | names.get("img", set()) | names.get("graphics-document", set())
    assert any(name.startswith("Node gpu-00-00. GPU 0-7: held by one pod.") for name in images)
    assert [role for role, name in tree if role in ("button", "link", "searchbox") and not name] == []


def test_a_file_tells_everything_without_a_script(window: Browser, tmp_path: Path) -> None:
    found = overview(2)
    window.open(in_a_file(found, tmp_path))
    assert len(window.run(PODS)) == len(found.pods)
    window.one(".tile h3 a").click()
    (opened_one,) = window.all("details[open]")
    assert "GPUs of node" in opened_one.text
    assert (window.all("script"), window.logged()) == ([], [])


def test_google_s_package_of_the_browser_serves_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("google-chrome", "chromedriver"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_programs() == (str(tmp_path / "google-chrome"), str(tmp_path / "chromedriver"))
    (tmp_path / "chromium").touch(mode=0o755)
    assert find_programs() == (str(tmp_path / "chromium"), str(tmp_path / "chromedriver"))


def test_a_machine_without_a_browser_is_told_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/no-such")
    found = find_programs()
    assert not isinstance(found, Programs)
    assert found.startswith("chromium and chromedriver not found on PATH: make browser, or apt-get install chromium")
