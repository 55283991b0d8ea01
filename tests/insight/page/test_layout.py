"""The page in windows from a telephone's to a wide screen's, light and dark, in a real Chromium."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.insight.analyze.clusters import Cluster
from tests.insight.overview.scenes import fault, ran, seen
from tests.insight.page.browser import Browser
from tests.insight.page.overviews import overview
from tests.insight.page.served import served
from tests.insight.page.test_browser import opened
from webhook.insight.overview.model import Overview
from webhook.insight.page.markup import DASH

WIDTHS = (360, 768, 1400, 2560)
HEIGHT = 900
SCROLLS = "return [document.documentElement.scrollWidth, window.innerWidth]"
BOX = "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()"


@contextmanager
def sized(window: Browser, width: int, theme: str = "light") -> Iterator[None]:
    """A window of that size and theme; afterwards it is as it was."""
    window.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    window.cdp("Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=False)
    try:
        yield
    finally:
        window.cdp("Emulation.clearDeviceMetricsOverride")
        window.cdp("Emulation.setEmulatedMedia", features=[])


def troubled() -> Cluster:
    """A cluster in which pods have NVLink, have not, and may have it."""
    cluster = Cluster()
    for name in ("worse cards", "slice on a pair", "image missing", "links down", "waits for long"):
        fault(name)(cluster)
    ran(cluster, "train", state={"terminated": {"exitCode": 0}})
    return cluster


def show(window: Browser, key: str) -> None:
    """Open the details of a pod or a node."""
    window.run("document.querySelector(`[data-open='${arguments[0]}']`).click()", key)
    window.until(lambda: window.all("#dialog-body .facts, #dialog-body table"), "no detail")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("nodes", [2, 40])
def test_the_page_never_scrolls_sideways(window: Browser, width: int, theme: str, nodes: int) -> None:
    with served(overview(nodes)) as page, sized(window, width, theme):
        opened(window, page)
        found, inner = window.run(SCROLLS)
        assert found <= inner == width
        show(window, "nodes/gpu-00-00")
        found, inner = window.run(SCROLLS)
        dialog = window.run(BOX, "#dialog")
        box = window.run("const d = document.getElementById('dialog'); return [d.scrollWidth, d.clientWidth]")
    assert found <= inner == width
    assert dialog["left"] >= 0
    assert dialog["right"] <= width
    assert box[0] <= box[1]


@pytest.mark.parametrize("width", [1400, 2560])
def test_pods_stand_above_the_fold_and_the_window_is_used(window: Browser, width: int) -> None:
    with served(overview(40)) as page, sized(window, width):
        opened(window, page)
        rows = [
            window.run(BOX, f"#{name} > :nth-child({number})")
            for name, number in (("pods", 1), ("pods", 5), ("nodes", 1))
        ]
        side = window.run(BOX, ".side")
        grid = window.run(BOX, ".grid")
    assert rows[0]["bottom"] < rows[1]["bottom"] < HEIGHT
    assert rows[2]["top"] < HEIGHT
    assert side["right"] > width - 40
    assert grid["right"] + 60 > side["left"], "nothing stays empty between nodes and findings"


def test_a_bar_has_the_colour_of_the_word_and_only_yes_is_green(window: Browser) -> None:
    cluster = troubled()
    with served(seen(cluster)) as page:
        opened(window, page)
        shown = window.run(
            """const named = (row, what) => row.querySelector(what)?.className ?? '';
            return Object.fromEntries([...document.querySelectorAll('#pods > tr')].map((row) =>
                [row.dataset.pod, [named(row, '.has'), named(row, 'meter')]]))"""
        )
        green = window.run("return getComputedStyle(document.querySelector('.has.n-yes')).color")
        colours = window.run(
            "return [...document.querySelectorAll('.has')].map((each) => getComputedStyle(each).color)"
        )
        classes = window.run("return [...document.querySelectorAll('.has')].map((each) => each.className)")
    assert shown["team-a/train"] == ["has n-yes", "n-yes"]
    assert shown["team-a/unlucky"] == ["has n-no", "n-no"]
    assert shown["team-a/imageless"] == ["has n-no", "n-no"]
    assert shown["team-a/pair"] == ["has n-unknown", "n-unknown"]
    assert shown["team-a/rerank"] == ["has n--", ""]
    assert {said for said, colour in zip(classes, colours, strict=True) if colour == green} == {"has n-yes"}


def test_the_details_of_a_pod_tell_each_finding_once_and_the_verdict_first(window: Browser) -> None:
    cluster = troubled()
    with served(seen(cluster), cluster.snapshot()) as page:
        opened(window, page)
        show(window, "pods/team-a/unlucky")
        said = window.text("#dialog-body")
        verdict = window.text("#dialog-body .conclusion")
    assert verdict.startswith("NVLink: ✖ no GPU0 and GPU5 have no NVLink: GPU0-GPU5 (SYS) GT330")
    assert said.count("GPU0 and GPU5 have no NVLink") == 1
    assert said.count("GT336") == 1


def test_the_names_of_two_pods_on_one_card_stand_apart(window: Browser) -> None:
    cluster = Cluster()
    cluster.apply("slice-on-pair")
    second = cluster.get("Pod", "rerank", "team-a")
    cluster.add(second | {"metadata": second["metadata"] | {"name": "search", "uid": "uid-search"}})
    with served(seen(cluster)) as page:
        opened(window, page)
        show(window, "nodes/paired")
        cell = window.run(
            """return [...document.querySelectorAll('#dialog-body tbody tr')]
                .map((row) => row.children[2]?.innerText ?? '')"""
        )
    assert "team-a/rerank, team-a/search" in cell


def test_cards_links_and_pods_are_counted_each_in_its_own_unit(window: Browser) -> None:
    found: Overview = seen(troubled())
    with served(found) as page:
        opened(window, page)
        said = " ".join(window.run("return document.querySelector('.legend').innerText").split())
    assert "Cards:" in said
    assert "with NVLinks down 1 NVLinks: up" in said
    assert said.endswith(f"Pods with NVLink: ✓ yes 1 ✖ no 2 ? unknown 2 {DASH} nothing to join 1")
