"""How the newest state of a cluster is kept."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.insight.analyze.clusters import Cluster
from tests.insight.overview.scenes import fault
from webhook.cluster.snapshot.freshness import Standing
from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.page.following import Newest, follow
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

    def change(self, problem: str) -> None:
        self.problem = problem
        self.changed.set()


class Told(Newest):
    """Keeps whether each state was judged, and whether it was live."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[tuple[bool, bool]] = []

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "version" and value and self.known:
            self.states.append((self.known.overview.are_judged, self.standing.live))


def following(source: Given, check: Callable[[Told], Awaitable[None]]) -> Told:
    """What was published until the check ended."""

    async def run() -> Told:
        newest = Told()
        task = asyncio.create_task(follow(source, newest, None))
        try:
            async with asyncio.timeout(_SECONDS):
                await check(newest)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return newest

    return asyncio.run(run())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def test_the_picture_is_there_before_the_findings() -> None:
    cluster = Cluster()
    fault("not opted in")(cluster)

    async def check(newest: Told) -> None:
        await until(lambda: len(newest.states) == 2)
        assert newest.known is not None
        assert any(pod.findings for pod in newest.known.overview.pods)
        assert newest.colours.keys() == {pod.key for pod in newest.known.overview.pods}

    assert following(Given(cluster.snapshot()), check).states[:2] == [(False, True), (True, True)]


def test_an_object_that_cannot_be_read_is_told_and_does_not_end_the_page() -> None:
    source = Given(Cluster().snapshot())

    async def check(newest: Told) -> None:
        await until(lambda: len(newest.states) == 2)
        source.change("expected a registration, found none")
        await until(lambda: not newest.standing.live)
        assert newest.standing.reason == source.problem
        assert newest.known is not None
        source.change("")
        await until(lambda: newest.standing.live)

    assert following(source, check).states == [(False, True), (True, True), (True, False), (True, True)]
