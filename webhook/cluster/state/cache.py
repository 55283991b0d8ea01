"""Objects of one kind as the API server had them last, whatever the order in which that is told.

An older state of an object never takes the place of a newer one; what was deleted does not come back with an old
message. Each object carries its version for that; of deleted ones it is kept until the API server has said that all up
to that version has been told. A list is taken object by object, so that a resync needs no room for a second copy.
"""

from collections.abc import Callable, Mapping, Set
from typing import Generic, NamedTuple, Protocol, TypeVar

from webhook.cluster.state.report import CacheReport
from webhook.words.errors import GpuTopologyError
from webhook.words.printable import printable

Document = bytes | bytearray | memoryview

T = TypeVar("T")

FAILING_SECONDS = 10.0
"""A mirror that the API server refuses, or does not answer, for so long is no basis for decisions."""
SILENT_SECONDS = 150.0
"""Nor is one that nothing was heard of for so long: bookmarks come each minute."""


class Versioned(Protocol):
    """One state of one object."""

    @property
    def name(self) -> str:
        """Of the object, within the collection."""

    @property
    def version(self) -> int:
        """The greater, the newer."""

    @property
    def document(self) -> Document:
        """JSON."""


class _Entry(NamedTuple, Generic[T]):
    version: int
    value: T | None
    """None: it cannot be read."""
    weight: int


class Limit(NamedTuple):
    """How much a cache keeps. What comes beyond is left out, and counted."""

    objects: int
    bytes: int


class Form(NamedTuple, Generic[T]):
    """What is kept of each object of one kind, and how much of all."""

    read: Callable[[Document, str, T | None], T]
    """Makes of an object's JSON, its name and the value that was kept before what is to be kept. It raises
    :class:`GpuTopologyError` for an object that it cannot read."""
    weigh: Callable[[T], int]
    """Bytes of a value."""
    limit: Limit


class Cache(Generic[T]):
    """What is kept of the objects of one kind, by their names.

    Args:
        kind: What they are, such as ``nodes``.
        read: Makes of an object's JSON, its name and the value that was kept before what is to be kept. It raises
            :class:`GpuTopologyError` for an object that it cannot read.
        weigh: Bytes of a value.
        limit: How much is kept.
        tell: Takes a text for the log.
        clock: Seconds that never go back.
        changed: Hears of every value that is no longer the one from before: the name, the value before and the one that
            is kept now; ``None``: none is kept, or it cannot be read. An index that follows it has what the cache has.
    """

    def __init__(  # noqa: PLR0913 - what is kept, how much of it, and who hears of it
        self,
        kind: str,
        read: Callable[[Document, str, T | None], T],
        weigh: Callable[[T], int],
        *,
        limit: Limit,
        tell: Callable[[str], None],
        clock: Callable[[], float],
        changed: Callable[[str, T | None, T | None], None] | None = None,
    ) -> None:
        self.kind = kind
        self.filled = False
        """Whether it was complete once."""
        self.problem = ""
        """Why the API server cannot be asked at the moment; empty when it can."""
        self.weight = 0
        """Bytes that are kept, without those that Python adds."""
        self.left_out = 0
        """How often a state of an object was not kept because of the limit."""
        self.is_incomplete = False
        """Whether something was left out since the list before the last one."""
        self._left_out_then = 0
        self._limit = limit
        self._is_full = False
        self._read = read
        self._weigh = weigh
        self._tell = tell
        self._clock = clock
        self._changed = changed
        self._entries: dict[str, _Entry[T]] = {}
        self._gone: dict[str, int] = {}
        """When objects were deleted that an old message may still tell of."""
        self._floor = 0
        """Up to this version all is known: of an object that is not here, no state so old exists."""
        self._faults: dict[str, str] = {}
        """What is wrong with objects, so that it is said once."""
        self.confirmed: float | None = None
        """When the API server was heard last, on the clock; None: never."""

    def get(self, name: str) -> T | None:
        """What is kept of the object of that name."""
        entry = self._entries.get(name)
        return entry.value if entry else None

    def version(self, name: str) -> int | None:
        """That of the state that is kept of the object, readable or not; ``None`` without one."""
        entry = self._entries.get(name)
        return entry.version if entry else None

    def __len__(self) -> int:
        return len(self._entries)

    def values(self) -> Mapping[str, T]:
        """All of them, by name; a copy."""
        return {name: entry.value for name, entry in list(self._entries.items()) if entry.value is not None}

    def put(self, versioned: Versioned) -> bool:
        """The object was like that; returns whether an object of that name is kept now."""
        name, version = versioned.name, versioned.version
        before = self._entries.get(name)
        if version <= (before.version if before else max(self._floor, self._gone.get(name, 0))):
            return before is not None
        try:
            value = self._read(versioned.document, name, before.value if before else None)
            entry: _Entry[T] = _Entry(version, value, len(name) + self._weigh(value))
            problem = ""
        except GpuTopologyError as error:
            entry, problem = _Entry(version, None, len(name)), str(error)
        self._gone.pop(name, None)
        if not self._has_room(entry, before):
            self._remove(name)  # the state from before is no longer true
            return False
        if problem:
            self.doubt(name, problem)
        else:
            self._faults.pop(name, None)
        self._entries[name] = entry
        self.weight += entry.weight - (before.weight if before else 0)
        self._tell_change(name, before, entry)
        return True

    def drop(self, versioned: Versioned) -> None:
        """The object was deleted; the version is that of its end."""
        name, version = versioned.name, versioned.version
        before = self._entries.get(name)
        if before and before.version > version:
            return  # there is a new one of that name
        if version > max(self._floor, self._gone.get(name, 0)):
            self._gone[name] = version
        self._remove(name)

    def absent(self, name: str) -> None:
        """The API server has just said that there is no object of that name; at which version, it did not say."""
        if (entry := self._entries.get(name)) is not None:
            self._gone[name] = max(entry.version, self._gone.get(name, 0))
            self._remove(name)

    def listed(self, version: int, names: Set[str]) -> None:
        """At that version there were objects of these names, all of them put already, and no others that are kept."""
        self._is_full = False
        self.is_incomplete, self._left_out_then = self.left_out > self._left_out_then, self.left_out
        for name in [name for name, entry in self._entries.items() if entry.version <= version and name not in names]:
            self._remove(name)
        self.caught_up(version)
        self.filled = True

    def caught_up(self, version: int) -> None:
        """All that happened up to that version has been told."""
        self._floor = max(self._floor, version)
        self._gone = {name: end for name, end in self._gone.items() if end > self._floor}

    def not_served(self) -> None:
        """There are no such objects. Later there may be the same ones again, of the same versions."""
        for name in list(self._entries):
            self._remove(name)
        self._gone, self._floor = {}, 0
        self._is_full = self.is_incomplete = False
        self.filled = True

    def forget_versions(self) -> None:
        """What comes next is newer, whatever its version says: the cluster was restored from a backup."""
        self._entries = {name: entry._replace(version=-1) for name, entry in self._entries.items()}
        self._gone = {}
        self._floor = 0
        self._tell(f"{self.kind}: versions went back; the cluster seems to be restored from a backup. All is read anew")

    def confirm(self) -> None:
        """The API server has been heard."""
        self.confirmed = self._clock()

    def doubt(self, name: str, problem: str) -> None:
        """Say once what is wrong with an object."""
        if self._faults.get(name) != problem:
            self._faults[name] = problem
            self._tell(printable(f"{self.kind}: {name + ': ' if name else ''}{problem}"))

    def failed(self, problem: str) -> None:
        """The API server could not be asked; empty when it can again."""
        if bool(problem) != bool(self.problem):
            self._tell(problem or f"{self.kind}: the API server answers again")
        self.problem = problem

    def silence(self) -> float:
        """For how many seconds the API server was not heard; 0.0 as long as that is nothing unusual."""
        silent = self._clock() - (self.confirmed or 0.0)
        return silent if silent > (FAILING_SECONDS if self.problem else SILENT_SECONDS) else 0.0

    def report(self) -> CacheReport:
        """How it is at this moment."""
        return CacheReport(
            name=self.kind,
            objects=len(self),
            bytes=self.weight,
            left_out=self.left_out,
            filled=self.filled,
            confirmed_seconds=None if self.confirmed is None else self._clock() - self.confirmed,
        )

    def _has_room(self, entry: _Entry[T], before: _Entry[T] | None) -> bool:
        """Whether ``entry`` fits in the place of ``before``; counts what does not, and says so once for each list."""
        most = self._limit
        objects = len(self._entries) + (before is None)
        weight = self.weight + entry.weight - (before.weight if before else 0)
        if objects <= most.objects and weight <= most.bytes:
            return True
        self.left_out += 1
        self.is_incomplete = True
        if not self._is_full:
            self._is_full = True
            self._tell(
                f"{self.kind}: expected at most {most.objects} objects and {most.bytes} bytes, found more; what is "
                "beyond is left out"
            )
        return False

    def _remove(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        self._faults.pop(name, None)
        if entry:
            self.weight -= entry.weight
            self._tell_change(name, entry, None)

    def _tell_change(self, name: str, before: _Entry[T] | None, after: _Entry[T] | None) -> None:
        old, new = before.value if before else None, after.value if after else None
        if self._changed and old is not new:
            self._changed(name, old, new)
