"""A collection at the API server, read page by page; pages that are too long are asked for again with fewer objects."""

from collections.abc import AsyncGenerator
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from webhook.kube.errors import AnswerTooLong, Malformed
from webhook.kube.session import Session
from webhook.kube.status import Answer, failure
from webhook.model.nesting import decode_answer

PAGE_OBJECTS = 50
PAGE_BYTES = 16 * 1024 * 1024


class Page(NamedTuple):
    """Some of the objects."""

    answer: Answer
    items: list[msgspec.Raw]
    """As JSON."""


class _ListMeta(msgspec.Struct, rename="camel"):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


_LIST = msgspec.json.Decoder(_List)


async def pages(session: Session, what: str, path: str, *, objects: int = PAGE_OBJECTS) -> AsyncGenerator[Page, None]:
    """All objects of a list.

    Args:
        session: To the API server.
        what: What is asked for; errors begin with it.
        path: Of the collection, with a query.
        objects: Of the first page.

    Raises:
        Expired: the list was interrupted for too long; what comes is no longer to be had.
        ApiError: the API server does not give it.
    """
    following, limit = "", objects
    while True:
        try:
            answer = await session.get(what, f"{path}&limit={limit}{following}", limit=PAGE_BYTES)
        except AnswerTooLong:
            if limit == 1:
                raise
            limit //= 2
            continue
        if answer.status != 200:
            raise failure(what, answer)
        try:
            found = decode_answer(_LIST, answer.body)
        except msgspec.DecodeError as error:
            raise Malformed(f"{what}: expected a list, found none: {error}") from None
        yield Page(answer, found.items or [])
        if not found.metadata.continue_:
            return
        following = f"&continue={quote(found.metadata.continue_, safe='')}"
