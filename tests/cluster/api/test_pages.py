"""Lists that are read page by page, and what happens when one is too long, or is none."""

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from tests.cluster.api.access import ToldAccess
from tests.cluster.api.stand_in import Line, Received, serving, status
from webhook.cluster.api.errors import AnswerTooLong, ApiError, Expired, Malformed
from webhook.cluster.api.session import Session
from webhook.cluster.api.verbs import Api, Paging
from webhook.cluster.kinds import Collection

THINGS = Collection("things", "/things", "q=1")
USUAL, SHORT = Paging(), Paging(most_bytes=100)


def read(turn: Callable[[Received, Line], None], paging: Paging = USUAL) -> tuple[list[Any], list[str]]:
    """The objects, and what was asked for."""

    async def work() -> tuple[list[Any], list[str]]:
        async def answered(request: Received, line: Line) -> None:
            turn(request, line)

        async with serving(answered) as server:
            session = Session(ToldAccess(f"http://127.0.0.1:{server.port}"), user_agent="test", seconds=20.0)
            try:
                async with aclosing(Api(session).pages(THINGS, paging)) as found:
                    objects = [json.loads(bytes(item)) async for page in found for item in page.items]
            finally:
                await session.close()
            return objects, [one.target for one in server.received]

    return asyncio.run(work())


def page(*items: object, following: str = "") -> bytes:
    return json.dumps({"metadata": {"continue": following}, "items": items}).encode()


def test_all_pages_are_read_and_tokens_are_escaped() -> None:
    def turn(request: Received, line: Line) -> None:
        line.say(page(3) if "continue=" in request.target else page(1, 2, following="a&b="))

    assert read(turn) == ([1, 2, 3], ["/things?q=1&limit=50", "/things?q=1&limit=50&continue=a%26b%3D"])


def test_a_page_that_is_too_long_is_asked_for_again_with_fewer_objects() -> None:

    def turn(request: Received, line: Line) -> None:
        limit = int(request.target.partition("limit=")[2].partition("&")[0])
        line.say(page("x" * 10 * limit))

    objects, targets = read(turn, SHORT)
    assert objects == ["x" * 30]
    assert [target.partition("limit=")[2] for target in targets] == ["50", "25", "12", "6", "3"]


def test_an_object_that_is_longer_than_a_page_may_be_is_a_failure() -> None:
    with pytest.raises(AnswerTooLong, match="list things: expected an answer of at most 100 bytes"):
        read(lambda _, line: line.say(page("x" * 200)), SHORT)


@pytest.mark.parametrize(
    ("body", "code", "kind"),
    [(b"[]", "200 OK", Malformed), (b"{", "200 OK", Malformed), (status(410, "too old"), "410 Gone", Expired)],
)
def test_what_is_no_page_is_a_failure(body: bytes, code: str, kind: type[ApiError]) -> None:
    with pytest.raises(kind, match="list things: "):
        read(lambda _, line: line.say(body, code))


def test_a_list_without_items_is_empty() -> None:
    assert read(lambda _, line: line.say(b'{"metadata":{},"items":null}'))[0] == []
