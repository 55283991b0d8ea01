"""All objects of a collection, read once in pages: for commands, which watch nothing."""

from urllib.parse import quote

import msgspec

from webhook.kube.errors import AnswerTooLong, Malformed
from webhook.kube.resources import Resource
from webhook.kube.session import Session
from webhook.kube.status import Answer, failure
from webhook.kube.versioned import VersionedObject, read_versioned

PAGE_OBJECTS = 500
PAGE_BYTES = 32 * 1024 * 1024


class _ListMeta(msgspec.Struct, rename="camel"):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


_LIST = msgspec.json.Decoder(_List)


async def list_objects(session: Session, resource: Resource) -> list[VersionedObject]:
    """The objects as they are now.

    Args:
        session: To the API server.
        resource: Which objects, and in which form.

    Raises:
        ApiError: the API server does not give them.
    """
    what, following, limit = f"list {resource.name}", "", PAGE_OBJECTS
    found: list[VersionedObject] = []
    while True:
        query = "&".join(filter(None, (resource.query, f"limit={limit}", following)))
        try:
            answer = await session.get(what, f"{resource.path}?{query}", limit=PAGE_BYTES, accept=resource.list_form)
        except AnswerTooLong:
            if limit == 1:
                raise
            limit //= 2
            continue
        page = _read(what, answer)
        try:
            found += [read_versioned(item, all_namespaces=resource.all_namespaces) for item in page.items or ()]
        except ValueError as error:
            raise Malformed(f"{what}: {error}") from None
        if not page.metadata.continue_:
            return found
        following = f"continue={quote(page.metadata.continue_, safe='')}"


def _read(what: str, answer: Answer) -> _List:
    if answer.status != 200:
        raise failure(what, answer)
    try:
        return _LIST.decode(answer.body)
    except msgspec.MsgspecError as error:
        raise Malformed(f"{what}: expected a list, found none: {error}") from None
