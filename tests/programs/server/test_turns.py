"""Long reviews take turns: however many have come, a short one waits for one of them."""

import asyncio
from tempfile import TemporaryFile

import pytest

from tests.pods import container, pod
from tests.programs.server.asgi import application, posted, review
from tests.programs.server.test_reviews import KNOWN
from webhook.programs.server.reviews import LONG_BYTES

SHORT = review(pod(container(gpus=2)))
LONG = SHORT + b" " * (LONG_BYTES - len(SHORT))


def order_of(**bodies: bytes) -> list[str]:
    """The names of reviews that come at the same time, in the order in which they are answered."""
    answered = list[str]()

    async def ask_all() -> None:
        async def ask(name: str, body: bytes) -> None:
            assert (await posted(app, body)).status == 200
            answered.append(name)

        await asyncio.gather(*(ask(name, body) for name, body in bodies.items()))

    with TemporaryFile() as log:
        app = application(KNOWN, log)
        asyncio.run(ask_all())
    return answered


def test_a_short_review_waits_for_no_long_one_that_has_not_begun() -> None:
    longs = {f"long {number}": LONG for number in range(20)}
    assert order_of(**longs, short=SHORT) == ["short", *longs]


def test_a_short_review_that_comes_later_waits_for_the_one_that_has_begun() -> None:
    """Each long review is followed by a pause, in which what has come meanwhile is answered."""
    answered = list[str]()

    async def ask_all() -> None:
        async def ask(name: str, body: bytes) -> None:
            await posted(app, body)
            answered.append(name)
            if name == "long 0":
                shorts.append(asyncio.create_task(ask("short", SHORT)))

        shorts = list[asyncio.Task[None]]()
        await asyncio.gather(*(ask(f"long {number}", LONG) for number in range(20)))
        await asyncio.gather(*shorts)

    with TemporaryFile() as log:
        app = application(KNOWN, log)
        asyncio.run(ask_all())
    assert answered[:2] == ["long 0", "short"]


@pytest.mark.parametrize("body", [SHORT, LONG[:-1]], ids=["short", "almost long"])
def test_reviews_that_are_not_long_are_answered_as_they_come(body: bytes) -> None:
    assert order_of(first=body, second=SHORT, third=body) == ["first", "second", "third"]


def test_a_client_that_goes_away_while_its_review_waits_holds_up_none() -> None:
    async def go_away() -> int:
        tasks = [asyncio.create_task(posted(app, LONG)) for _ in range(3)]
        await asyncio.sleep(0)
        for task in tasks[:2]:
            task.cancel()
        return (await tasks[2]).status

    with TemporaryFile() as log:
        app = application(KNOWN, log)
        assert asyncio.run(go_away()) == 200
