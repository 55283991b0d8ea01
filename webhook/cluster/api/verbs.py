"""The verbs of the API server for objects of every kind: get, list in pages, create, replace, patch, delete, watch.

Objects go in and come out as JSON, never as models of it, so that unknown fields are not lost. An unsuccessful answer
raises an error of :mod:`webhook.cluster.api.errors`, whose text begins with the request.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from webhook.cluster.api.errors import AnswerTooLong, ApiError, Malformed, NotFound, NotServed
from webhook.cluster.api.object_version import VersionedObject, read_versioned
from webhook.cluster.api.session import Session
from webhook.cluster.api.status import Answer, failure, failure_of_event, is_of_the_api_server
from webhook.cluster.kinds import JSON, Collection, Kind
from webhook.words.nesting import decode_answer
from webhook.words.object_names import OBJECT
from webhook.words.patch import Operation

OBJECT_BYTES = 4 * 1024 * 1024
"""The most bytes of an answer with one object: etcd refuses requests above 1.5 MiB (etcd server/embed/config.go)."""
LINE_BYTES = 10 * 1024 * 1024
"""The most bytes of an event. The API server keeps built-in kinds in etcd as protobuf, and in JSON a control character
takes six bytes."""
MOST_PER_PAGE = 500

Object = dict[str, Any]


class PatchForm(Enum):
    """Types of a patch: kubernetes.io, "Update API Objects in Place Using kubectl patch"."""

    APPLY = "application/apply-patch+yaml"
    """Create the object, or set the fields in the patch, whoever set them before. Other fields stay."""
    MERGE = "application/merge-patch+json"
    """Merge the patch; ``Conflict`` if it names an old resourceVersion, or the uid of another object."""
    STRATEGIC = "application/strategic-merge-patch+json"
    """Merge the patch as with MERGE, and merge lists by the keys of their entries."""
    OPERATIONS = "application/json-patch+json"
    """Apply all operations or none. A ``test`` that fails is :class:`webhook.cluster.api.errors.ApiRefused` with status
    422, as is a change that the API server does not allow. Only the object itself shows which of the two it was."""


class Paging(NamedTuple):
    """The page sizes of a collection. A page that is too long is requested again with half of its objects."""

    objects: int = 50
    """The number of objects in the first page."""
    most_bytes: int = 16 * 1024 * 1024
    """The most bytes of a page; a longer one is not read."""
    aim: int = 0
    """The bytes that a page should have, which set the number of objects of later pages. 0: as many as in the first."""


class Reply(NamedTuple):
    """A successful answer."""

    what: str
    """The request in words; errors begin with it."""
    answer: Answer

    @property
    def document(self) -> bytes:
        """The body, as unchecked JSON."""
        return self.answer.body

    @property
    def date(self) -> datetime | None:
        """The time of the answer by the API server's clock, which also dates objects; ``None`` if it has none."""
        return self.answer.date

    def object(self) -> Object:
        """Return the body as an object.

        Raises:
            Malformed: the body is no object. The text does not quote it, because it may be a Secret.
        """
        try:
            return decode_answer(_OBJECT, self.answer.body)
        except msgspec.DecodeError:
            raise self.malformed() from None

    def malformed(self) -> Malformed:
        """Return the error for a body that is no object."""
        return Malformed(f"{self.what}: expected an object from the API server, found something else")

    def versioned(self, *, all_namespaces: bool = False) -> VersionedObject:
        """Return the body as an object for a mirror; :func:`webhook.cluster.api.object_version.read_versioned`.

        Raises:
            Malformed: the object has no name or no version.
        """
        return versioned(self.what, self.answer.body, all_namespaces=all_namespaces)


class Page(NamedTuple):
    """One page of the objects of a collection."""

    reply: Reply
    items: list[msgspec.Raw]
    """The objects, as JSON."""
    version: str
    """The version of the list, as text."""
    following: str
    """The token of the next page; empty on the last one."""


class Event(msgspec.Struct):
    """One event of a watch."""

    type: str
    """``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``."""
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


_OBJECT = msgspec.json.Decoder(Object)
_LIST = msgspec.json.Decoder(_List)
_EVENT = msgspec.json.Decoder(Event)
_FIRST = Paging()


class Api:
    """The verbs, for one writer. Every method may raise :class:`webhook.cluster.api.errors.ApiError`.

    If a kept connection was dead, GET, PUT and DELETE are sent again over a new one; POST and PATCH only if the caller
    allows it.

    Args:
        session: The connection to the API server. Several writers may share one.
        field_manager: The name of the writer of fields.
        seconds: The time limit of one request, if it differs from the session's.
    """

    def __init__(self, session: Session, *, field_manager: str = "", seconds: float | None = None) -> None:
        self.session = session
        self._manager = field_manager
        self._seconds = seconds

    async def close(self) -> None:
        """Close the connections of the session."""
        await self.session.close()

    async def get(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        form: str = JSON,
        limit: int = OBJECT_BYTES,
        deadline: float | None = None,
    ) -> Reply:
        """Get the object in its present state: no resourceVersion is named, so that no cache answers.

        Args:
            kind: The kind of the object.
            name: The name of the object. An impossible name causes no request.
            namespace: The namespace of the object; empty if it has none.
            form: The ``Accept`` header.
            limit: The most bytes of the object; of a longer one nothing is read.
            deadline: The time limit on the clock of the event loop, for several requests that share one.

        Raises:
            AnswerTooLong: the object is longer.
            NotFound: there is no object of that name.
            NotServed: the API server does not have such objects.
        """
        what = f"get {kind.word} {_place(namespace, name)}"
        if not _can_be(kind, name, namespace):
            raise NotFound(f"{what}: no object is called so")
        return await self.ask(
            what, "GET", kind.path(namespace, name), form=form, limit=limit, deadline=deadline, api=_optional(kind)
        )

    async def find(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        form: str = JSON,
        limit: int = OBJECT_BYTES,
        deadline: float | None = None,
    ) -> Reply | None:
        """Get the object as :meth:`get` does; ``None`` if there is none of that name."""
        with suppress(NotFound):
            return await self.get(kind, name, namespace, form=form, limit=limit, deadline=deadline)
        return None

    async def pages(
        self,
        collection: Collection,
        paging: Paging = _FIRST,
        *,
        what: str = "",
        seconds: float | None = None,
        deadline: float | None = None,
    ) -> AsyncGenerator[Page, None]:
        """List all objects of a collection in pages.

        Args:
            collection: The collection to read.
            paging: The sizes of pages.
            what: The request in words, for errors.
            seconds: The time limit of one page, if it differs from the session's.
            deadline: The time limit of the whole list, on the clock of the event loop.

        Raises:
            NotServed: the API server does not have such objects.
            Expired: the list was interrupted for too long, and the API server no longer has the rest.
            AnswerTooLong: a page of one object is too long.
        """
        what = what or f"list {collection.name}"
        following, objects = "", paging.objects
        while True:
            token = f"continue={quote(following, safe='')}" if following else ""
            query = "&".join(filter(None, (collection.query, f"limit={objects}", token)))
            try:
                reply = await self.ask(
                    what,
                    "GET",
                    f"{collection.path}?{query}",
                    limit=paging.most_bytes,
                    form=collection.list_form,
                    seconds=seconds,
                    deadline=deadline,
                    api=collection.api,
                    is_list=True,
                )
            except AnswerTooLong:
                if objects == 1:
                    raise
                objects //= 2
                continue
            page = _page(reply)
            yield page
            if not page.following:
                return
            following = page.following
            if paging.aim:
                objects = max(1, min(MOST_PER_PAGE, objects * paging.aim // max(len(reply.document), 1)))

    async def objects(self, collection: Collection, *, most: int = 0, what: str = "") -> list[Object]:
        """List the objects of a collection, each decoded. Items that are no objects are left out.

        Args:
            collection: The collection to read.
            most: The most objects that the list may have; 0: any number.
            what: The request in words, for errors.

        Raises:
            Malformed: there are more than ``most``.
        """
        what, found = what or f"list {collection.name}", list[Object]()
        async with aclosing(self.pages(collection, Paging(most or MOST_PER_PAGE), what=what)) as pages:
            async for page in pages:
                if most and (len(page.items) > most or page.following):
                    raise Malformed(f"{what}: expected at most {most} objects, found more")
                decoded = (decode_answer(_ANY, item) for item in page.items)
                found += [each for each in decoded if isinstance(each, dict)]
        return found

    async def first_page(self, collection: Collection, objects: int, *, limit: int = OBJECT_BYTES, what: str) -> Reply:
        """Get the first page of a list as it is sent, with at most ``objects`` objects and ``limit`` bytes."""
        query = "&".join(filter(None, (collection.query, f"limit={objects}")))
        return await self.ask(what, "GET", f"{collection.path}?{query}", limit=limit, api=collection.api, is_list=True)

    async def create(self, kind: Kind, manifest: Mapping[str, Any], *, may_repeat: bool = False) -> Reply:
        """Create the object; ``Conflict`` if one of that name exists.

        Args:
            kind: The kind of the object.
            manifest: The whole object, with its name and namespace.
            may_repeat: True if it may be sent again after a lost connection, because a second creation does no harm.
        """
        namespace, name = _named(manifest)
        what = f"create {kind.word} " + (f"in {namespace}" if namespace else name)
        return await self.ask(what, "POST", kind.path(namespace), manifest, api=_optional(kind), may_repeat=may_repeat)

    async def replace(self, kind: Kind, name: str, namespace: str, manifest: Mapping[str, Any]) -> Reply:
        """Replace the object; ``Conflict`` if it no longer has the resourceVersion in the manifest."""
        what = f"replace {kind.word} {_place(namespace, name)}"
        return await self.ask(what, "PUT", kind.path(namespace, name), manifest, api=_optional(kind))

    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str,
        patch: Mapping[str, Any] | Sequence[Operation],
        form: PatchForm,
        *,
        part: str = "",
    ) -> Reply:
        """Change an object, and return its new state.

        Args:
            kind: The kind of the object.
            name: The name of the object.
            namespace: The namespace of the object; empty if it has none.
            patch: The patch in its form.
            form: The type of the patch.
            part: A subresource such as ``status``; empty for the object itself.
        """
        is_applied = form is PatchForm.APPLY
        subject = f"{part} of {kind.word}" if part else kind.word
        what = f"{'apply' if is_applied else 'patch'} {subject} {_place(namespace, name)}"
        query = f"fieldManager={quote(self._manager, safe='')}" + ("&force=true" if is_applied else "")
        path = f"{kind.path(namespace, name, part)}?{query}"
        return await self.ask(what, "PATCH", path, patch, content_type=form.value, api=_optional(kind))

    async def apply(self, kind: Kind, manifest: Mapping[str, Any]) -> Reply:
        """Create the object, or set the fields in ``manifest``, whoever set them before."""
        namespace, name = _named(manifest)
        return await self.patch(kind, name, namespace, manifest, PatchForm.APPLY)

    async def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str, resource_version: str) -> None:
        """Delete the object; ``Conflict`` if it is another one or has changed. A missing object is no error."""
        what = f"delete {kind.word} {_place(namespace, name)}"
        body = {"preconditions": {"uid": uid, "resourceVersion": resource_version}}
        with suppress(NotFound):
            await self.ask(what, "DELETE", kind.path(namespace, name), body, api=_optional(kind))

    @asynccontextmanager
    async def watch(
        self, collection: Collection, version: int, *, ends_after: int, patience: float
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Watch the events after a version.

        Args:
            collection: The collection to watch.
            version: The version of a list, an event or a bookmark.
            ends_after: The seconds after which the API server should end the watch.
            patience: The seconds beyond ``ends_after`` that it may take.

        Raises:
            Expired: the API server no longer has the version; also from within the block, as every ApiError.
            ApiServerAway: the watch did not begin, went on for too long or was cut off.
        """
        what = f"watch {collection.name}"
        wish = f"watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={ends_after}"
        query = "&".join(filter(None, (collection.query, wish)))
        async with (
            self.session.watch(
                what,
                f"{collection.path}?{query}",
                limit=LINE_BYTES,
                accept=collection.watch_form,
                seconds=ends_after + patience,
            ) as lines,
            aclosing(_events(what, lines)) as events,
        ):
            yield events

    async def kubernetes(self) -> Reply:
        """Get the version of Kubernetes: an object with ``gitVersion``."""
        return await self.ask("get the version of Kubernetes", "GET", "/version")

    async def first_served(self, kinds: Sequence[Kind]) -> Kind | None:
        """Find the first of several versions of one kind that the API server serves; ``None`` if it serves none."""
        group = kinds[0].root.rpartition("/")[0]
        served = {one.get("version") for one in await self._entries(f"get the versions of {group}", group, "versions")}
        for kind in kinds:
            version = kind.root.rpartition("/")[2]
            if version in served:
                found = await self._entries(f"get the resources of {version}", kind.root, "resources")
                if any(one.get("name") == kind.resource for one in found):
                    return kind
        return None

    async def _entries(self, what: str, path: str, member: str) -> list[Object]:
        """Get the objects in a list of a discovery document; none if the API server does not serve the path."""
        try:
            found = (await self.ask(what, "GET", path, api=path)).object().get(member)
        except NotServed:
            return []
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    async def ask(  # noqa: PLR0913 - the parts of a request
        self,
        what: str,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = JSON,
        form: str = JSON,
        limit: int = OBJECT_BYTES,
        seconds: float | None = None,
        deadline: float | None = None,
        may_repeat: bool = False,
        api: str = "",
        is_list: bool = False,
    ) -> Reply:
        """Make a request for which there is no verb.

        Args:
            what: The request in words; errors begin with it.
            method: The HTTP method.
            path: The path with the query, escaped.
            body: The body to send as JSON.
            content_type: The type of the body.
            form: The ``Accept`` header.
            limit: The most bytes of the answer.
            seconds: The time limit, if it differs from the session's.
            deadline: The time limit on the clock of the event loop.
            may_repeat: True if a POST or PATCH may be sent again after a lost connection.
            api: The group and version that a cluster may lack; empty if every cluster has such objects.
            is_list: True if a 404 can only mean that the cluster lacks them.

        Raises:
            ApiError: the request failed.
        """
        answer = await self.session.ask(
            what,
            method,
            path,
            None if body is None else msgspec.json.encode(body),
            limit=limit,
            content_type=content_type,
            accept=form,
            seconds=seconds or self._seconds,
            deadline=deadline,
            may_repeat=may_repeat,
        )
        if answer.status != 200 and (method == "GET" or not 200 <= answer.status < 300):
            raise _failure(what, answer, api, is_list=is_list)
        reply = Reply(what, answer)
        if method != "GET" and not answer.body.startswith(b"{"):
            raise reply.malformed()  # a server that answers so has written nothing
        return reply


def versioned(what: str, document: bytes | msgspec.Raw, *, all_namespaces: bool = False) -> VersionedObject:
    """Read an object for a mirror; :func:`webhook.cluster.api.object_version.read_versioned`.

    Raises:
        Malformed: the object has no name or no version.
    """
    try:
        return read_versioned(document, all_namespaces=all_namespaces)
    except ValueError as error:
        raise Malformed(f"{what}: expected an object, found none: {error}") from None


def _failure(what: str, answer: Answer, api: str, *, is_list: bool) -> ApiError:
    error = failure(what, answer)
    if api and answer.status == 404 and (is_list or not isinstance(error, NotFound)):
        return NotServed(what, api, otherwise=None if is_of_the_api_server(answer) else error)
    return error


def _page(reply: Reply) -> Page:
    try:
        found = decode_answer(_LIST, reply.document)
    except msgspec.DecodeError as error:
        raise Malformed(f"{reply.what}: expected a list, found none: {error}") from None
    return Page(reply, found.items or [], found.metadata.resource_version, found.metadata.continue_ or "")


async def _events(what: str, lines: AsyncIterator[bytes]) -> AsyncGenerator[Event, None]:
    async for line in lines:
        try:
            event = decode_answer(_EVENT, line)
        except msgspec.DecodeError as error:
            raise Malformed(f"{what}: expected an event, found none: {error}") from None
        if event.type == "ERROR":
            raise failure_of_event(what, event.object)
        yield event


def _can_be(kind: Kind, name: str, namespace: str) -> bool:
    """Return whether an object can have that name, so that the path stays within its collection."""
    is_placed = bool(OBJECT.fullmatch(namespace)) if kind.has_namespaces else not namespace
    return is_placed and bool(OBJECT.fullmatch(name))


def _optional(kind: Kind) -> str:
    return kind.api if kind.is_optional else ""


def _named(manifest: Mapping[str, Any]) -> tuple[str, str]:
    metadata = manifest["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _place(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


_ANY = msgspec.json.Decoder()
