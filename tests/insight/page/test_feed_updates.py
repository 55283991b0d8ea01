"""How a feed is kept true."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.insight.analyze.clusters import Cluster
from tests.insight.analyze.faults import FAULTS
from tests.insight.page.browser import Programs, find_programs
from webhook.cluster.snapshot.freshness import Standing
from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.page.feed import Feed
from webhook.insight.page.feed_updates import Following
from webhook.insight.page.words import Language
from webhook.words.errors import GpuTopologyError

_SECONDS = 60.0


class Given:
    """A source of which a test says what it is."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.changed = asyncio.Event()
        self.snapshot = snapshot
        self.problem = ""

    def reader(self) -> Callable[[], Snapshot]:
        def read() -> Snapshot:
            if self.problem:
                raise GpuTopologyError(self.problem)
            return self.snapshot

        return read

    def standing(self) -> Standing:
        return Standing(live=True, at="12:00:00 UTC")


async def heard_until(feed: Feed, holds: Callable[[dict[str, object]], bool]) -> dict[str, object]:
    """The first message of which that is true."""
    async with asyncio.timeout(_SECONDS):
        async for message in feed.listen(Language.ENGLISH):
            found: dict[str, object] = msgspec.json.decode(message)
            if holds(found):
                return found
    raise AssertionError("the feed has ended")


async def follow(source: Given, check: Callable[[Feed], object]) -> None:
    feed = Feed()
    following = Following(source, feed, None)
    tasks = [asyncio.create_task(following.overviews()), asyncio.create_task(following.findings())]
    try:
        await check(feed)  # type: ignore[misc]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_the_picture_is_there_before_the_findings_and_they_follow() -> None:
    cluster = Cluster()
    next(fault for fault in FAULTS if fault.name == "not opted in").make(cluster)
    before: list[bool] = []

    async def check(feed: Feed) -> None:
        first = await heard_until(feed, lambda _: True)
        assert "nodes/switched" in first["blocks"]  # type: ignore[operator]
        assert feed.known is not None
        before.append(feed.known.overview.are_judged)

        def has_findings(found: dict[str, object]) -> bool:
            return any(key.startswith("findings/") for key in found["blocks"])  # type: ignore[attr-defined]

        await heard_until(feed, has_findings)
        assert feed.known.overview.are_judged

    asyncio.run(follow(Given(cluster.snapshot()), check))
    assert before == [False]


def test_an_object_that_cannot_be_read_is_told_and_does_not_end_the_page() -> None:
    source = Given(Cluster().snapshot())

    async def check(feed: Feed) -> None:
        await heard_until(feed, lambda _: True)
        source.problem = "expected a registration, found none"
        source.changed.set()
        told = await heard_until(feed, lambda found: not found["standing"]["live"])  # type: ignore[index]
        assert told["standing"]["reason"] == source.problem  # type: ignore[index]
        source.problem = ""
        source.changed.set()
        await heard_until(feed, lambda found: bool(found["standing"]["live"]))  # type: ignore[index]

    asyncio.run(follow(source, check))


def test_findings_of_before_do_not_make_the_page_live_again(monkeypatch: pytest.MonkeyPatch) -> None:
    source, found = Given(Cluster().snapshot()), threading.Event()

    def analyze(_: Snapshot, *, namespace: str | None) -> tuple[()]:
        assert namespace is None
        found.wait(_SECONDS)
        return ()

    monkeypatch.setattr("webhook.insight.page.feed_updates.analyze", analyze)

    async def check(feed: Feed) -> None:
        await heard_until(feed, lambda _: True)
        source.problem = "expected a registration, found none"
        source.changed.set()
        await heard_until(feed, lambda told: not told["standing"]["live"])  # type: ignore[index]
        async with asyncio.timeout(_SECONDS):
            heard = feed.listen(Language.ENGLISH)
            await anext(heard)
            found.set()
            assert msgspec.json.decode(await anext(heard))["standing"]["live"] is False

    asyncio.run(follow(source, check))


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
    assert found == (
        "chromium and chromedriver not found on PATH: make browser, or apt-get install chromium chromium-driver"
    )
