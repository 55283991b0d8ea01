"""The mirror of a collection at the API server: a list in pages, then a watch, then either again as needed.

The reflector runs on the event loop of the reviews, without threads, and works in short slices. One C call that decodes
a big list holds the GIL for its whole length, in any thread, and every review waits for it. So pages stay near
:data:`PAGE_AIM` bytes (finding the objects of one takes a quarter of a millisecond), objects are decoded one by one,
and after :data:`SLICE_SECONDS` of decoding the reviews have their turn. A page is dropped once it is read, and the
watch takes no more from the network than it has read.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Set
from contextlib import aclosing
from time import perf_counter
from typing import Any, NoReturn, Protocol

import msgspec

from webhook.cluster.api.errors import ApiError, ApiServerAway, Expired, Malformed, NotServed
from webhook.cluster.api.object_version import VersionedObject, read_versioned
from webhook.cluster.api.session import Session
from webhook.cluster.api.verbs import Api, Event, Paging
from webhook.cluster.kinds import Collection
from webhook.words.nesting import decode_answer
from webhook.words.printable import printable

FIRST_PAGE = 20
PAGE_AIM = 128 * 1024
PAGE_BYTES = 32 * 1024 * 1024
LIST_SECONDS = 30.0
"""The time limit of one page."""
SLICE_SECONDS = 0.00025
REST_SECONDS = 0.001
"""The pause between slices of a list that is not the first, because no start waits for it."""

WATCH_SECONDS = (300, 600)
"""The seconds after which the API server ends a watch at our request, as client-go does (tools/cache/reflector.go)."""
GRACE_SECONDS = 30.0
LIVELY_SECONDS = 0.5
"""The time after which a watch counts as a success, even if nothing happened meanwhile."""

FIRST_DELAY, LONGEST_DELAY = 0.2, 30.0
SHORT_PAUSE = 0.1
OLD_LISTS = 3
"""The number of old lists in a row that means a cluster restored from a backup.

An old list has an earlier version than one that is known."""
FAILED_WATCHES = 3
"""The number of refused watches in a row after which a new list is needed: for example if the version is one that a
restored cluster will reach only later (apiserver storage/errors.go, NewTooLargeResourceVersionError)."""
TOO_MANY_REQUESTS = 429
"""The status that says nothing about the version: the API server is overloaded, or its watch cache is not filled. A
list would cost it more than the watch, so only the watch is tried again, as in client-go (tools/cache/reflector.go)."""


class Mirror(Protocol):
    """The receiver of the objects."""

    @property
    def filled(self) -> bool:
        """True if the mirror has been complete once."""

    def put(self, versioned: VersionedObject) -> bool:
        """Take a state of an object, and return whether an object of that name is stored now."""

    def drop(self, versioned: VersionedObject) -> None:
        """Remove a deleted object; the version is that of its deletion."""

    def listed(self, version: int, names: Set[str]) -> None:
        """Take the names of all objects at that version; each was put already, and every other stored one is gone."""

    def caught_up(self, version: int) -> None:
        """Note that all changes up to that version have been delivered."""

    def not_served(self) -> None:
        """Note that the API server has no such objects. It may have them again later, in the same versions."""

    def forget_versions(self) -> None:
        """Treat whatever comes next as newer, regardless of its version."""

    def confirm(self) -> None:
        """Note that the API server has answered."""

    def doubt(self, name: str, problem: str) -> None:
        """Note that an object was sent in an impossible form; ``name`` may be empty."""

    def failed(self, problem: str) -> None:
        """Note that a request failed; an empty ``problem`` means that requests succeed again."""


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


_BOOKMARK = msgspec.json.Decoder(_Bookmark)


class Reflector:
    """A collection, mirrored while :meth:`run` runs.

    Args:
        api: The API server.
        collection: The collection to mirror.
        mirror: The receiver of the objects.
        errors: The counts of failures, by resource and kind.
        chance: A function that returns random numbers between 0 and 1.
    """

    def __init__(
        self,
        api: Api | Session,
        collection: Collection,
        mirror: Mirror,
        *,
        errors: Counter[tuple[str, str]],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._api = api if isinstance(api, Api) else Api(api)
        self._collection = collection
        self._mirror = mirror
        self._errors = errors
        self._chance = chance
        self._version: int | None = None
        """The version from which to watch; None if a list is needed."""
        self._newest = 0
        self._old_lists = 0
        self._failures = 0
        """The number of failures in a row."""
        self._failed_watches = 0
        self._is_without = False
        """True if the API server does not have such objects."""

    async def run(self) -> NoReturn:
        """Mirror the collection until this is cancelled."""
        while True:
            try:
                if self._version is None:
                    self._version = await self._list()
                    self._mirror.failed("")
                await self._watch_from(self._version)
                delay = SHORT_PAUSE * self._chance()
            except ApiError as error:
                delay = self._after(error)
            await asyncio.sleep(delay)

    def _after(self, error: ApiError) -> float:
        """Note a failure, and return the seconds to wait before the next request."""
        self._failures += 1
        if isinstance(error, NotServed):
            return self._without(error)
        self._errors[self._collection.name, error.kind] += 1
        if isinstance(error, Expired):
            self._version = None
        else:
            self._mirror.failed(str(error))
        longest = FIRST_DELAY * 2.0 ** min(self._failures - 1, 20)
        return min(LONGEST_DELAY, longest) * (0.5 + self._chance())

    def _without(self, error: NotServed) -> float:
        """Note that the cluster has no such objects: no failure of ours, counted once and tried seldom."""
        if not self._is_without:
            self._is_without = True
            self._errors[self._collection.name, error.kind] += 1
            self._mirror.not_served()
        self._mirror.confirm()
        self._mirror.failed(str(error))
        return LONGEST_DELAY * (0.5 + self._chance())

    def _heard(self) -> None:
        self._mirror.confirm()
        if self._failures or self._failed_watches:
            self._failures = self._failed_watches = 0
            self._mirror.failed("")

    async def _list(self) -> int:
        """List all objects in pages, and return the version of the list."""
        version, names, pace = 0, set[str](), _Pace(hurry=not self._mirror.filled)
        paging = Paging(FIRST_PAGE, PAGE_BYTES, aim=PAGE_AIM)
        try:
            async with aclosing(self._api.pages(self._collection, paging, seconds=LIST_SECONDS)) as pages:
                async for page in pages:
                    self._is_without = False
                    if not version:
                        version = _number(page.reply.what, page.version)
                        self._check_age(page.reply.what, version)
                    for item in page.items:
                        if (name := self._put(item)) is not None:
                            names.add(name)
                        await pace.breathe()
        except NotServed as error:
            # If such objects were seen before, a misconfigured proxy must not convince us that there are none.
            raise (error.otherwise if self._newest and error.otherwise else error) from None
        self._mirror.listed(version, names)
        self._mirror.confirm()
        self._newest = version
        return version

    def _check_age(self, what: str, version: int) -> None:
        """Check that the list is not older than what is known, because a list without a version is the newest.

        Raises:
            Malformed: the list is older, and the lists before it do not confirm this yet.
        """
        if version >= self._newest:
            self._old_lists = 0
            return
        self._old_lists += 1
        if self._old_lists < OLD_LISTS:
            raise Malformed(f"{what}: expected version {self._newest} or later, found {version}")
        self._old_lists = 0
        self._mirror.forget_versions()

    def _put(self, document: msgspec.Raw) -> str | None:
        """Put an object into the mirror, and return its name if it is stored."""
        try:
            versioned = self._read(document)
        except ValueError as error:
            self._mirror.doubt("", str(error))
            return None
        return versioned.name if self._mirror.put(versioned) else None

    def _read(self, document: msgspec.Raw) -> VersionedObject:
        return read_versioned(document, all_namespaces=self._collection.all_namespaces)

    async def _watch_from(self, version: int) -> None:
        """Watch from that version on, until the API server ends the watch; a refusal is counted."""
        try:
            await self._watch(version)
        except ApiError as error:
            if error.status:
                self._refused_watch(error.status)
            raise

    async def _watch(self, version: int) -> None:
        least, most = WATCH_SECONDS
        seconds = least + int((most - least) * self._chance())
        what = f"watch {self._collection.name}"
        loop = asyncio.get_running_loop()
        async with self._api.watch(self._collection, version, ends_after=seconds, patience=GRACE_SECONDS) as events:
            self._mirror.confirm()
            self._mirror.failed("")
            began = loop.time()
            try:
                await self._follow(what, events)
            finally:
                lively = loop.time() - began >= LIVELY_SECONDS
                self._failures = 0 if lively else self._failures
            if lively:
                self._heard()
            elif not self._failures:  # it ended before any event: once may be chance
                self._failures = 1
            else:
                raise ApiServerAway(f"{what}: the API server ends each watch at once")

    async def _follow(self, what: str, events: AsyncIterator[Event]) -> None:
        pace = _Pace(hurry=True)
        async for event in events:
            self._take(what, event)
            self._heard()
            await pace.breathe()

    def _take(self, what: str, event: Event) -> None:
        if event.type == "BOOKMARK":
            try:
                version = int(decode_answer(_BOOKMARK, event.object).metadata.resource_version)
            except ValueError as error:
                raise Malformed(f"{what}: expected a bookmark, found none: {error}") from None
            self._mirror.caught_up(version)
        else:
            try:
                versioned = self._read(event.object)
            except ValueError as error:
                # The object that changed is unknown, so only a list can show its newest state.
                self._version = None
                self._mirror.doubt("", str(error))
                raise Malformed(f"{what}: expected an object, found none: {error}") from None
            if event.type == "DELETED":
                self._mirror.drop(versioned)
            else:
                self._mirror.put(versioned)
            version = versioned.version
        self._newest = max(self._newest, version)
        self._version = max(self._version or 0, version)

    def _refused_watch(self, status: int) -> None:
        self._failed_watches += status != TOO_MANY_REQUESTS
        if self._failed_watches >= FAILED_WATCHES:
            self._version, self._failed_watches = None, 0


def filled_from(
    api: Api,
) -> Callable[[Collection, Mirror, Counter[tuple[str, str]]], Callable[[], Coroutine[Any, Any, None]]]:
    """Return the source that fills mirrors from an API server: :data:`webhook.cluster.state.keeper.Fill`."""
    return lambda collection, mirror, errors: Reflector(api, collection, mirror, errors=errors).run


class _Pace:
    """The slices of work: after each one the reviews have their turn, for a longer time if there is no hurry."""

    def __init__(self, *, hurry: bool) -> None:
        self._rest = 0.0 if hurry else REST_SECONDS
        self._began = perf_counter()

    async def breathe(self) -> None:
        if perf_counter() - self._began > SLICE_SECONDS:
            await asyncio.sleep(self._rest)
            self._began = perf_counter()


def _number(what: str, version: str) -> int:
    try:
        return int(version)
    except ValueError:
        text = f"{what}: expected a resourceVersion that is a number, found {version}"
        raise Malformed(printable(text)) from None
